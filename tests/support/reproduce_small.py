"""Reproduces every report on a little of made-up data, the way `warpladder reproduce all --quick` does: does each file
of a report still run?

python tests/support/reproduce_small.py [--reports s1,s5] [--keep FOLDER]

Exits with 1 where an experiment fails, or a row has neither a figure nor a reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import hurry
import made_up_sets
import pytest

from warpladder.appendix.reproduce import NAMES, Reproducer, Watcher, definition
from warpladder.appendix.reproduce.definition import Definition
from warpladder.appendix.reproduce.report.files import write_pictures
from warpladder.appendix.reproduce.report.page import write_page
from warpladder.appendix.reproduce.results import UNMEASURED, Reproduction
from warpladder.results import RungResult
from warpladder.results.report import html
from warpladder.results.report.figures import svg

TRAIN, TEST = 2_000, 200
LIMIT = 256  # training samples of an experiment, at most

#: What experiments are cut to, where they have such a field.
CUTS: dict[str, Any] = {"repeats": 1, "budget": 0.05, "seeds": (0,), "emulated": (), "rounds": 1}


def cut(experiment: Any) -> Any:
    """The same experiment with less of everything."""
    names = {field.name for field in fields(experiment)}
    changes = {name: value for name, value in CUTS.items() if name in names}
    if "settings" in names:
        settings = dict(experiment.settings)
        most = 2 if settings.get("batch_size") == "full" or experiment.net == "mlp10" else 1
        changes["settings"] = settings | {"epochs": most}
        if "loss_every" in settings:
            changes["settings"] |= {"loss_every": 1}
    if "budget" in names and experiment.net == "autoencoder":
        changes |= {"net": "narrow", "data": "digits"}  # loops take half a minute to prove the wide one
    if "limit" in names:
        changes["limit"] = min(experiment.limit or LIMIT, LIMIT)
    if "validation" in names and experiment.validation:
        changes["validation"] = min(experiment.validation, 100)
    if "rows" in names:  # of a table that is made of all samples
        changes |= {"limit": None, "rows": 400, "tests": 100}
    if "sweep" in names and experiment.sweep:
        changes["sweep"] = {
            key: tuple(smaller(key, value) for value in values[:2]) for key, values in experiment.sweep.items()
        }
    return replace(experiment, **changes)


def smaller(key: str, value: int) -> int:
    """A value that is swept; samples no more than there are."""
    return min(value, LIMIT + value % 7) if key == "limit" else value


def reproduced(name: str, folder: Path, data: Path) -> tuple[Reproduction, list[str]]:
    """One report, and what went wrong."""
    report = definition(name, quick=True)
    report = replace(report, experiments={called: cut(each) for called, each in report.experiments.items()})
    wrong: list[str] = []

    def news(item: RungResult | str) -> None:
        if isinstance(item, str) and "cannot be made" in item:
            wrong.append(f"{name}: {item}")
        if isinstance(item, RungResult) and item.status not in ("timed", "unsupported", "missing"):
            print(f"  {item.name}: {item.status}: {item.reason}", flush=True)
            if item.status == "failed":
                wrong.append(f"{name}: {item.name}: {item.reason}")

    watcher = Watcher(begin=lambda called, at, of: print(f"{name} {at} of {of}: {called}", flush=True), news=news)
    course = Reproducer(report, folder, True, data, watcher, "")
    found = course.run()
    write_page(found, folder / "report.html")
    write_pictures(found, folder / "figures")
    return found, wrong + unexplained(found, report)


def unexplained(found: Reproduction, report: Definition) -> list[str]:
    """Rows that are to be measured and have neither a figure nor a reason, and experiments that are missing."""
    out = [f"{found.report}: {name} is not whole" for name in found.missing]
    for section, told in zip(found.sections, report.sections, strict=True):
        for table, rows in zip(section.tables, told.tables, strict=False):  # behind them stand tables of launches
            for row, asked in zip(table.rows, rows.rows, strict=True):
                if (
                    asked.here not in ("", UNMEASURED)
                    and not row.reason
                    and all(value.here is None for value in row.values)
                ):
                    out.append(f"{found.report}, {table.title}, {' '.join(row.label)}: neither figure nor reason")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", default=",".join(NAMES))
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        hurry.hurried(patch)  # no figure is believed here
        patch.setattr(html, "picture", svg.picture)  # which hurried climbs leave out
        data = Path(scratch) / "data"
        made_up_sets.write(data, TRAIN, TEST)
        for name in chosen.reports.split(","):
            start = perf_counter()
            folder = (chosen.keep or Path(scratch)) / name
            folder.mkdir(parents=True, exist_ok=True)
            found, told = reproduced(name, folder, data)
            figures = sum(
                value.here is not None
                for s in found.sections
                for t in s.tables
                for row in t.rows
                for value in row.values
            )
            print(f"{name}: {figures} figures in {perf_counter() - start:.0f} s", flush=True)
            wrong += told
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
