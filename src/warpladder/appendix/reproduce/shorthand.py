"""Expansion of short forms in a report's file: named rungs and columns, and bars of a table."""

from __future__ import annotations

import re
from typing import Any

from ...errors import ConfigError
from ...errors.arguments import shown

#: Keys whose texts name rungs, alone or after "EXPERIMENT/".
NAMING = ("here", "over", "rung", "rungs", "emulated", "checkpoint")


def expanded(tree: dict[str, Any]) -> dict[str, Any]:
    """Tree of a report's file with its short forms expanded.

    The table `rungs` gives names to rungs with long options, and `columns` to lists of columns. Bars with `table` and
    `head` take the measured or reported rows of that table.

    Raises
    ------
    ConfigError
        A short form is not defined.
    """
    rungs, columns = tree.pop("rungs", {}), tree.pop("columns", {})
    for name, text in tree.get("figures", {}).items():
        parts = (each.strip().partition(" ") for each in text.split(" | "))
        tree["figures"][name] = " | ".join(f"{_rung(place, rungs)} {measure}" for place, _, measure in parts)
    tree = _named(tree, rungs)
    for section in tree.get("sections", []):
        for table in section.get("tables", []):
            if isinstance(table.get("columns"), str):
                table["columns"] = _of(columns, table["columns"], "columns")
        for bars in section.get("bars", []):
            if "table" in bars:
                _bars(bars, [each for part in tree["sections"] for each in part.get("tables", [])])
    return tree


def _of(known: dict[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise ConfigError(f"there are no {what} {shown(name)}; there are {', '.join(known) or 'none'}")
    return known[name]


def _named(value: Any, rungs: dict[str, str], naming: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _named(each, rungs, key in NAMING) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, rungs, naming) for each in value]
    return _rung(value, rungs) if naming and isinstance(value, str) else value


def _rung(place: str, rungs: dict[str, str]) -> str:
    """Place or rung with the rung's full name."""
    experiment, slash, rest = place.rpartition("/")
    rung, at, swept = re.match(r"([^@]*)(@?)(.*)", rest).groups()  # type: ignore[union-attr]
    return f"{experiment}{slash}{rungs.get(rung, rung)}{at}{swept}"


def _bars(bars: dict[str, Any], tables: list[dict[str, Any]]) -> None:
    """Give bars the column and the rows of the table that they name."""
    title, head = bars.pop("table"), bars.pop("head")
    table = next((each for each in tables if each["title"] == title), None)
    at = next((i for i, each in enumerate(table["columns"]) if each["head"] == head), None) if table else None
    if table is None or at is None:
        raise ConfigError(
            f"bars {shown(bars.get('title'))}: there is no table {shown(title)} with a column {shown(head)}"
        )
    bars["column"] = {key: value for key, value in table["columns"][at].items() if key != "worked_out"}
    bars["rows"] = []
    for row in table["rows"]:
        own = {key: row[key] for key in ("here", "measure", "over") if key in row}
        for source in ("reported", "theirs"):
            if source in row:
                own[source] = [row[source][at]]
        bars["rows"].append({"label": [", ".join(each for each in row["label"] if each)], **own})
