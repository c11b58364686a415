"""Figure of a report, with its unit; and marks for dataclass fields that only a TOML file or only a results file
has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...errors import ResultsError
from ...results.reader import DIRECTION, RESULT


def place(default: Any = "") -> Any:
    """Dataclass field that only a TOML file has: it states where and what to measure, and is not stored."""
    return field(default=default, compare=False, metadata={"only": DIRECTION})


def filled(default: Any = ()) -> Any:
    """Dataclass field that only a results file has, and must have."""
    return field(default=default, metadata={"only": RESULT})


#: Place of a row that is not measured although its columns have places.
UNMEASURED = "-"

#: Units of shown figures, each with its size in the base unit.
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
    """Figure of a table, in base units.

    reported : figure stated by the report. theirs : figure of the authors' own program, run on an H200. here : figure
    measured by this reproduction.
    least, most : range of the measured figures, over repetitions or seeds.
    scaled : True if a part of the work was measured, and scaled up.
    disturbed : True if other processes used more than `DISTURBED` of the cores while a time was measured.
    """

    reported: float | None = None
    theirs: float | None = None
    here: float | None = None
    least: float | None = None
    most: float | None = None
    scaled: bool = False
    disturbed: bool = False


@dataclass(frozen=True)
class Column:
    """Column of figures, or an axis: its head, and its unit, one of `UNITS`.

    measure, here : measure and place for rows that do not state their own.
    worked_out : for a column "speedup:MEASURE:...", True if ratios that the report does not state are computed from
    its own figures of that measure.
    """

    head: str
    unit: str = ""
    measure: str = place()
    here: str = place()
    worked_out: bool = place(False)

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ResultsError(
                f"column {self.head!r}: there is no unit {self.unit!r}; there are {', '.join(map(repr, UNITS))}"
            )
