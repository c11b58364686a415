"""Tables and pictures of a report, as frozen data: in its TOML file with the places where figures are measured, and in
the results' JSON file with the figures measured there.

Figures are in base units (seconds, bytes, shares from 0 to 1), but those of a TOML file, which are in the unit of their
column.
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
    """One row of a table.

    label : a text for each head that is not a column of figures.
    values : a figure for each column.
    rung : name of the rung that the row was measured with; empty if nothing is measured.
    reason : why nothing was measured; empty otherwise. remark : what else a reader must know.
    reported, theirs : figures of the report and of the authors' own program, in the columns' units, None for nothing.
    here : "EXPERIMENT/RUNG", or several of which the first that has a figure gives it, or `UNMEASURED`.
    measure : in place of the columns'.
    over : place that a column "speedup:MEASURE:over" compares the row with.
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
    """One table: heads of the columns of text, then columns of figures. text : a sentence below it."""

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
    """One curve.

    x, y : its points, in base units. source : "here", "reported" or "theirs", as in `Value`.
    marks : a text next to each point, or none. of : label of the measured curve whose colour it has.
    here, curve : where a measured curve comes from. Without them a TOML file states x and y, in the axes' units, and
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
    """Curves in one pair of axes. x, y : what the axes show. log : axes that are logarithmic, "", "x", "y" or "xy"."""

    title: str
    x: Column
    y: Column
    series: tuple[Series, ...]
    log: str = ""
    text: str = ""


@dataclass(frozen=True)
class Bars:
    """A bar for each figure, on a logarithmic scale if `log`; those of a report stand next to those measured here.

    rows : each with one label and one figure; they become labels and values.
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
    """A picture of samples. png : bytes of the file in base 64. alt : the picture in words. here : its experiment."""

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
    """A table of launches, in a TOML file. here : "EXPERIMENT/RUNG", an experiment of kind `launches`."""

    title: str
    here: str
    text: str = ""


@dataclass(frozen=True)
class Box:
    """A box of a diagram: its name, and a smaller text, in which figures may stand. size : relative, from 0 to 1."""

    label: str
    text: str = ""
    size: float = 1.0


@dataclass(frozen=True)
class Diagram:
    """Boxes in a row, each with an arrow to the next if `flows`; a narrow screen has them below each other."""

    title: str
    boxes: tuple[Box, ...]
    flows: bool = True
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a report: claims, tables, then pictures. findings : what explains a difference, a sentence or two each.

    launches : they become tables.
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
    """A reproduced report, or as much of it as there is.

    report : "s1" ... "s5". title, about : what the report is, and what it was measured on, in some sentences.
    quick : True if the work was cut to a first look: times hold, accuracies are of less training.
    command : makes it again. machine : what it was measured on.
    measured : names of the experiments that are whole. missing : names of the others.
    seconds : how long measuring took, in all.
    headline : the figure that stands for the report, as the title of a table, a row's first text and a column's head;
    the first one that the report states too if empty.
    experiments : how each was made, by name. data : SHA-256 of the arrays of each data set, by name.
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
        """Every row of every table."""
        return [(table, row) for section in self.sections for table in section.tables for row in table.rows]

    @property
    def values(self) -> list[Value]:
        """Every figure of every table."""
        return [value for _, row in self.rows for value in row.values]

    @property
    def claims(self) -> list[Claim]:
        """Every claim."""
        return [claim for section in self.sections for claim in section.claims]
