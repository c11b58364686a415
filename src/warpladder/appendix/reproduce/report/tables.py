"""Tables of a reproduced report as HTML; several reproductions are columns next to each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from ....results.report.html import foldable, note
from ....results.report.html import table as drawn
from ..results import ReportRow, ReportTable, Value
from .figures import head, legend, measured, spread, stated
from .prose import glued

#: Sources of figures that are not measured here, and their names in a column's head.
STATED = (("reported", "reported"), ("theirs", "their program, H200"))

SOURCES = ("reported", "theirs", "here")

#: Letters of the longest unit that stands on no line alone in a head: "kB" does not, "GFLOP/s" has a line of its own.
SHORT = 3


def table(tables: Sequence[ReportTable], labels: Sequence[str]) -> str:
    """HTML of one table of a report, with a column of figures for each reproduction under its label. The texts of a row
    are below each other in the first column.
    """
    first = tables[0]
    common = shared([row.reason for row in first.rows]) if len(tables) == 1 else ()
    if not any(_any(each, at, name) for each in tables for at in range(len(first.columns)) for name in SOURCES):
        reasons = dict.fromkeys(row.reason for each in tables for row in each.rows if row.reason)
        return note(f"Nothing of it is measured here: {'; '.join(reasons) or 'there is no figure of it'}.")
    sources = [[(name, called) for name, called in STATED if _any(first, at, name)] for at in range(len(first.columns))]
    here = [any(_any(each, at, "here") for each in tables) or not sources[at] for at in range(len(first.columns))]
    heads = [_below(first.heads)]
    for at, column in enumerate(first.columns):
        names = [label or "here" for label in labels] * here[at]
        names[:0] = [called for name, called in sources[at] if name == "reported"]  # measured ones next, for phones
        names += [called for name, called in sources[at] if name != "reported"]
        name = escape(head(column))
        if len(column.unit) <= SHORT:
            name = glued(name, column.unit)
        heads += [f'{name}<span class="options">{escape(called)}</span>' for called in names]
    rows = []
    for number, row in enumerate(first.rows):
        same = [each.rows[number] for each in tables]
        remarks = _remarks([replace(each, reason="") if each.reason in common else each for each in same], labels)
        cells = [_below(row.label) + remarks]
        for at, column in enumerate(first.columns):
            known = {name: escape(stated(getattr(row.values[at], name), column.unit)) for name, _ in sources[at]}
            cells += [text for name, text in known.items() if name == "reported"]
            cells += [_cell(each.values[at], column.unit) for each in same] if here[at] else []
            cells += [text for name, text in known.items() if name != "reported"]
        is_measured = any(value.here is not None for each in same for value in each.values)
        rows.append(("rung" if is_measured else "none", cells))
    texts = [f"Rows without a figure: {reason}." for reason in common]
    texts += [f"{text}." for text in legend(value for each in tables for row in each.rows for value in row.values)]
    return drawn(first.title, heads, rows, (0,)) + "".join(map(note, texts))


def _below(texts: Sequence[str]) -> str:
    """HTML of the texts of a row or head: the first, and the others smaller below it."""
    first, *rest = (foldable(escape(text)) for text in texts)
    return first + "".join(f'<span class="options">{text}</span>' for text in rest if text)


def shared(reasons: Sequence[str]) -> tuple[str, ...]:
    """Reasons that apply to `MANY` rows or more: each is stated once, below the table."""
    return tuple(reason for reason in dict.fromkeys(reasons) if reason and reasons.count(reason) >= MANY)


#: Fewest rows with one reason for which it is stated once.
MANY = 3


def _any(table: ReportTable, at: int, name: str) -> bool:
    return any(getattr(row.values[at], name) is not None for row in table.rows)


def _cell(value: Value, unit: str) -> str:
    """HTML of a measured figure, with its range below."""
    found = f"<b>{escape(measured(value, unit))}</b>" if value.here is not None else ""
    between = spread(value, unit)
    return found + (f'<span class="options">{escape(between)}</span>' if between else "")


def _remarks(rows: Sequence[ReportRow], labels: Sequence[str]) -> str:
    """HTML of the remarks on a row: its rung, a note, and the reason for a missing figure, with the label if others
    differ.
    """
    everywhere = len({row.reason for row in rows}) == 1
    rungs = dict.fromkeys(row.rung for row in rows if row.rung)
    remarks = [
        *dict.fromkeys(row.remark for row in rows if row.remark),
        *dict.fromkeys(
            row.reason if everywhere else f"{label}: {row.reason}"
            for row, label in zip(rows, labels, strict=True)
            if row.reason
        ),
    ]
    texts = [*map(rung_in_a_row, rungs), *map(escape, remarks)]
    return "".join(f'<span class="options">{text}</span>' for text in texts)


def rung_in_a_row(name: str) -> str:
    """HTML of a rung's name, which breaks between its options and not within one."""
    return "".join(f'<span class="option">{foldable(escape(part))}</span>' for part in re.findall(r":?[^:]+", name))
