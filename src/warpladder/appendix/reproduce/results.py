"""Tables and pictures of a report, as frozen data: in its TOML file with the places of measurement, and in the results'
JSON file with the measured figures.

Figures are in base units (seconds, bytes, shares from 0 to 1); in a TOML file they are in the unit of their column.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import ClassVar

from ...errors import ResultsError
from ...results import DISTURBED as DISTURBED
from ...results import Machine
from ...results.classes import ClassScores
from ...results.reader import RESULT
from ...results.stored import ResultsFile
from .claims import VERDICTS as VERDICTS
from .claims import Claim, Finding, Made
from .figure import UNITS as UNITS
from .figure import UNMEASURED as UNMEASURED
from .figure import Column as Column
from .figure import Value as Value
from .figure import filled, place


@dataclass(frozen=True)
class ReportRow:
    """Row of a table.

    label : a text for each head that is not a column of figures.
    values : a figure for each column.
    rung : name of the measured rung; empty if nothing is measured.
    reason : reason why nothing was measured; empty otherwise. remark : further remark for the reader.
    reported, theirs : figures of the report and of the authors' own program, in the columns' units, or None.
    here : "EXPERIMENT/RUNG"; or several, of which the first with a figure is used; or `UNMEASURED`.
    measure : measure that replaces the columns'.
    over : place with which a column "speedup:MEASURE:over" compares the row.
    """

    label: tuple[str, ...]
    values: tuple[Value, ...] = filled()
    rung: str = filled("")
    reason: str = filled("")
    remark: str = ""
    reported: tuple[float | None, ...] = place(())
    theirs: tuple[float | None, ...] = place(())
    here: str | tuple[str, ...] = place()
    measure: str = place()
    over: str = place()


@dataclass(frozen=True)
class ReportTable:
    """Table: heads of the columns of text, then columns of figures. text : a sentence below it."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[ReportRow, ...]
    text: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            where = f"table {self.title!r}, row {' '.join(row.label)!r}"
            if len(row.label) != len(self.heads):
                raise ResultsError(f"{where}: wants {len(self.heads)} texts, got {len(row.label)}")
            for figures in (row.values, row.reported, row.theirs):
                if figures and len(figures) != len(self.columns):
                    raise ResultsError(f"{where}: wants {len(self.columns)} figures, got {len(figures)}")
        for column in self.columns:
            of = column.measure.partition(":")[2].partition(":")[0]
            if column.worked_out and of not in [each.measure for each in self.columns]:
                raise ResultsError(
                    f"table {self.title!r}: {column.head!r} is worked out from {of or 'times'}, which no column has"
                )


@dataclass(frozen=True)
class Series:
    """Curve of a picture.

    x, y : coordinates of its points, in base units. source : "here", "reported" or "theirs", as in `Value`.
    marks : a text next to each point, or empty. of : label of the measured curve with the same colour.
    here, curve : place and name of a measured curve. Without them a TOML file states x and y, in the axes' units, and
    the source is "reported" unless it is "theirs".
    """

    label: str
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    source: str = "here"
    marks: tuple[str, ...] = ()
    of: str = ""
    here: str = place()
    curve: str = place()

    def __post_init__(self) -> None:
        points = self.x or self.here
        if len(self.x) != len(self.y) or not points or not all(map(math.isfinite, (*self.x, *self.y))):
            raise ResultsError(f"curve {self.label!r} wants as many finite x as y, and at least one")
        if self.marks and len(self.marks) != len(self.x):
            raise ResultsError(f"curve {self.label!r} wants a mark for each point, or none")
        if self.source not in ("here", "reported", "theirs"):
            raise ResultsError(f"curve {self.label!r}: source wants here, reported or theirs, got {self.source!r}")


@dataclass(frozen=True)
class Lines:
    """Picture of curves in one pair of axes. x, y : quantities of the axes. log : logarithmic axes, "", "x", "y" or
    "xy".
    """

    title: str
    x: Column
    y: Column
    series: tuple[Series, ...]
    log: str = ""
    text: str = ""


@dataclass(frozen=True)
class Bars:
    """Picture with a bar for each figure, reported ones next to measured ones. log : True for a logarithmic scale.

    rows : rows with one label and one figure each, in a TOML file; they become labels and values.
    """

    title: str
    column: Column
    labels: tuple[str, ...] = filled()
    values: tuple[Value, ...] = filled()
    log: bool = False
    text: str = ""
    rows: tuple[ReportRow, ...] = place(())

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.values):
            raise ResultsError(f"bars {self.title!r} want a label for each figure")


@dataclass(frozen=True)
class Photo:
    """Picture of samples. png : bytes of the file in base 64. alt : alternative text. here : name of its experiment."""

    title: str
    png: str = filled("")
    alt: str = filled("")
    text: str = ""
    here: str = place()

    def __post_init__(self) -> None:
        try:
            base64.b64decode(self.png, validate=True)
        except ValueError:
            raise ResultsError("png wants the bytes of a picture in base 64") from None


@dataclass(frozen=True)
class Classified:
    """Scores of each class on test samples, and the confusion matrix. here : "EXPERIMENT/svm"."""

    title: str
    scores: ClassScores = field(default=None, metadata={"only": RESULT})  # type: ignore[assignment]
    text: str = ""
    here: str = place()


@dataclass(frozen=True)
class LaunchList:
    """Table of launches, in a TOML file. here : "EXPERIMENT/RUNG", an experiment of kind `launches`."""

    title: str
    here: str
    text: str = ""


@dataclass(frozen=True)
class Box:
    """Box of a diagram: its name, and a smaller text, which may contain figures. size : relative size, from 0 to 1."""

    label: str
    text: str = ""
    size: float = 1.0


@dataclass(frozen=True)
class Diagram:
    """Diagram of boxes in a row, with an arrow from each to the next if `flows`; on a narrow screen one below the
    other.
    """

    title: str
    boxes: tuple[Box, ...]
    flows: bool = True
    text: str = ""


@dataclass(frozen=True)
class Section:
    """Section of a report: claims, tables, then pictures.

    findings : explanations of differences, a sentence or two each. launches : lists of launches, which become tables.
    """

    title: str
    text: str = ""
    claims: tuple[Claim, ...] = ()
    findings: tuple[Finding | str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    lines: tuple[Lines, ...] = ()
    bars: tuple[Bars, ...] = ()
    photos: tuple[Photo, ...] = ()
    classified: tuple[Classified, ...] = ()
    diagrams: tuple[Diagram, ...] = ()
    launches: tuple[LaunchList, ...] = place(())


@dataclass(frozen=True)
class Reproduction(ResultsFile):
    """Reproduced report: its tables and pictures with the figures measured so far.

    report : "s1" ... "s5". title, about : title of the report, and some sentences on its subject and its machine.
    quick : True if the work was shortened: times are valid, accuracies are of less training.
    command : command that makes the reproduction. machine : machine on which it was measured.
    measured : names of the complete experiments. missing : names of the others.
    seconds : total time of the measurements.
    headline : figure that represents the report: title of a table, first text of a row, head of a column; if empty, the
    first figure that the report states too.
    experiments : record of each experiment, by name. data : SHA-256 of the arrays of each data set, by name.
    """

    KIND: ClassVar[str] = "a results file of 'warpladder reproduce'"
    AGAIN: ClassVar[str] = "reproduce the report"
    MARKS: ClassVar[tuple[str, ...]] = ("report", "sections")

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
    headline: tuple[str, ...] = ()
    experiments: dict[str, Made] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for table, row in self.rows:
            if len(row.values) != len(table.columns):
                wanted = f"wants {len(table.columns)} figures, got {len(row.values)}"
                raise ResultsError(f"table {table.title!r}, row {' '.join(row.label)!r}: {wanted}")

    @property
    def rows(self) -> list[tuple[ReportTable, ReportRow]]:
        """Rows of all tables, each with its table."""
        return [(table, row) for section in self.sections for table in section.tables for row in table.rows]

    @property
    def values(self) -> list[Value]:
        """Figures of all tables."""
        return [value for _, row in self.rows for value in row.values]

    @property
    def claims(self) -> list[Claim]:
        """Claims of all sections."""
        return [claim for section in self.sections for claim in section.claims]
