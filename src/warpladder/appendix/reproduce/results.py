"""A report's tables and pictures with what was measured here beside what the report says, as frozen data, and its JSON
file.

Figures are in base units: seconds, bytes, shares from 0 to 1; a column says in what unit they are shown.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from ...errors import ResultsError
from ...files.atomic import write_atomically
from ...results import Machine, read_file
from ...results.classes import ClassScores
from ...results.reader import LATER, read, read_json, short

#: Grows whenever a field is removed or changes its meaning, and when one is added that has no default for older files.
REPRODUCTION_SCHEMA = 1

#: What a figure is multiplied by on its way from the unit that it is shown in to the base unit.
UNITS = {
    "": 1.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "days": 86_400.0,
    "%": 1e-2,
    "x": 1.0,
    "MB": 1e6,
    "kB": 1e3,
    "B": 1.0,
    "MiB": 2.0**20,
    "GFLOP": 1e9,
    "MFLOP": 1e6,
    "GFLOP/s": 1e9,
    "TFLOP/s": 1e12,
    "GB/s": 1e9,
}


@dataclass(frozen=True)
class Value:
    """One figure of a table, in base units.

    reported : as the report states it. theirs : of the authors' own program, run on an H200. here : measured by this
    reproduction.
    least, most : the range of what was measured: of repetitions, or of seeds.
    scaled : whether a part of the work was measured, and scaled up.
    """

    reported: float | None = None
    theirs: float | None = None
    here: float | None = None
    least: float | None = None
    most: float | None = None
    scaled: bool = False


@dataclass(frozen=True)
class Row:
    """One row of a table.

    label : a text for each head that is not a column of figures.
    values : a figure for each column.
    rung : name of the rung that the row was measured with; empty where nothing is.
    reason : why nothing was measured; empty where it was. remark : what else must be known.
    """

    label: tuple[str, ...]
    values: tuple[Value, ...]
    rung: str = ""
    reason: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Column:
    """A column of figures: its head, and the unit that they are shown in, one of `UNITS`."""

    head: str
    unit: str = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ResultsError(
                f"column {self.head!r}: unit wants one of {', '.join(repr(unit) for unit in UNITS)}, got {self.unit!r}"
            )


@dataclass(frozen=True)
class Table:
    """One table: heads of the columns of text, then columns of figures. text : a sentence below it."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    text: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.label) != len(self.heads) or len(row.values) != len(self.columns):
                raise ResultsError(
                    f"table {self.title!r}: row {' '.join(row.label)!r} wants {len(self.heads)} texts and {len(self.columns)} figures"
                )


@dataclass(frozen=True)
class Series:
    """One curve.

    x, y : its points, in base units. source : "here", "reported" or "theirs", as in `Value`.
    marks : a text beside each point; none where the axes say all.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    source: str = "here"
    marks: tuple[str, ...] = field(default=(), metadata=LATER)

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or not self.x or not all(map(math.isfinite, (*self.x, *self.y))):
            raise ResultsError(f"curve {self.label!r} wants as many finite x as y, and at least one")
        if self.marks and len(self.marks) != len(self.x):
            raise ResultsError(f"curve {self.label!r} wants a mark for each point, or none")
        if self.source not in ("here", "reported", "theirs"):
            raise ResultsError(f"curve {self.label!r}: source wants here, reported or theirs, got {self.source!r}")


@dataclass(frozen=True)
class Lines:
    """Curves in one pair of axes. x, y : what the axes show, with units that are among `UNITS`. log : axes that are
    logarithmic, "", "x", "y" or "xy".
    """

    title: str
    x: Column
    y: Column
    series: tuple[Series, ...]
    log: str = ""
    text: str = ""


@dataclass(frozen=True)
class Bars:
    """A bar for each figure, on a logarithmic scale where `log`; what a report says and what was measured stand side by
    side.
    """

    title: str
    column: Column
    labels: tuple[str, ...]
    values: tuple[Value, ...]
    log: bool = False
    text: str = ""

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.values):
            raise ResultsError(f"bars {self.title!r} want a label for each figure")


@dataclass(frozen=True)
class Photo:
    """A picture of samples. png : the file's bytes in base 64. alt : what it shows, for those who do not see it."""

    title: str
    png: str
    alt: str
    text: str = ""


@dataclass(frozen=True)
class Classified:
    """How well each class is told from the others, on test samples, and the confusion matrix."""

    title: str
    scores: ClassScores
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a report: its tables, then its pictures. findings : what explains a difference, a sentence or two each."""

    title: str
    text: str = ""
    findings: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    lines: tuple[Lines, ...] = ()
    bars: tuple[Bars, ...] = ()
    photos: tuple[Photo, ...] = ()
    classified: tuple[Classified, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """A report, reproduced, or as much of it as there is.

    report : "s1" ... "s5". title, about : what the report is, and what it was measured on. about may be several
    sentences.
    quick : whether the work was cut to a first look: times hold, accuracies are of less training.
    command : makes it again.
    machine : what it was measured on.
    measured : names of the experiments that are whole. missing : names of those that are not.
    seconds : how long measuring took, in all.
    headline : the figure that stands for the report, as the title of a table, a row's first text and a column's head;
    the first one beside a report's if empty.
    """

    schema: int
    report: str
    title: str
    about: str
    created: str
    quick: bool
    command: str
    machine: Machine
    sections: tuple[Section, ...]
    measured: tuple[str, ...]
    missing: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    headline: tuple[str, ...] = field(default=(), metadata=LATER)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file: the old one stays whole until the new one is on the disk."""
        write_atomically(path, json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def is_reproduction(tree: Any) -> bool:
    """Whether a JSON tree is that of a reproduction, as far as its first fields say."""
    return isinstance(tree, dict) and "report" in tree and "sections" in tree


def load_reproduction(path: str | os.PathLike[str]) -> Reproduction:
    """Read what `Reproduction.save` wrote; `ResultsError` in one line that names the file and the first thing wrong in
    it.
    """
    return read_file(path, parse)


def parse(raw: bytes) -> Reproduction:
    """Check the bytes of a reproduction's file and make a `Reproduction` of them."""
    tree = read_json(raw)
    if not is_reproduction(tree):
        raise ResultsError("is no results file of 'warpladder reproduce'")
    if tree.get("schema") != REPRODUCTION_SCHEMA or isinstance(tree["schema"], (bool, float)):
        raise ResultsError(
            f"has schema {short(tree.get('schema'))}, this warpladder reads {REPRODUCTION_SCHEMA}: reproduce the report again"
        )
    found: Reproduction = read(Reproduction, tree, "")
    return found


__all__ = [
    "LATER", "REPRODUCTION_SCHEMA", "UNITS", "Bars", "Classified", "Column", "Lines", "Photo", "Reproduction", "Row", "Section", "Series", "Table",
    "Value", "is_reproduction", "load_reproduction", "parse",
]  # fmt: skip
