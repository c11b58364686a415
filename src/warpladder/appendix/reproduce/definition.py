"""A report as data: what it ran, what it says, and in which tables and pictures; one TOML file a report, in `reports/`.

docs/reproduce.md says how such a file is written.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ...errors import ConfigError, ResultsError
from ...results.reader import read
from .climbs import Climb
from .experiments import Experiment, Task, optional
from .facts import Facts
from .footprints import Footprints
from .launches import LaunchesOf, Launching
from .operations import Operations
from .photos import Pictures
from .profiles import Profiling
from .results import UNITS
from .submissions import Submission
from .svms import Svm
from .trainings import Train

#: The kinds of experiments, in the order in which a report's are made.
KINDS: tuple[type[Experiment], ...] = (
    Climb,
    Train,
    Profiling,
    Launching,
    Facts,
    Operations,
    Footprints,
    Submission,
    Svm,
    Pictures,
)

#: The reports that there are.
NAMES = ("s1", "s2", "s3", "s4", "s5")


@dataclass(frozen=True)
class ColumnOf:
    """A column of figures: its head and unit; what is measured, and where, for rows that do not say it themselves.

    worked_out : of a column "speedup:MEASURE:...", whether ratios that the report does not state are worked out from
    its own figures of that measure.
    """

    head: str
    unit: str = optional("")
    measure: str = optional("")
    here: str = optional("")
    worked_out: bool = optional(False)


#: The place of a row that nothing is measured for, where its columns have places.
UNMEASURED = "-"


@dataclass(frozen=True)
class RowOf:
    """A row: its texts; what the report and the authors' own program say, in the columns' units, nan for nothing; and
    where it is measured.

    here : "EXPERIMENT/RUNG", or several of which the first that has a figure gives it, or `UNMEASURED`. measure : in
    place of the columns'.
    over : where that is measured which a column "speedup:MEASURE:over" compares the row with.
    """

    label: tuple[str, ...]
    reported: tuple[float, ...] = optional(())
    theirs: tuple[float, ...] = optional(())
    here: str | tuple[str, ...] = optional("")
    measure: str = optional("")
    remark: str = optional("")
    over: str = optional("")


@dataclass(frozen=True)
class TableOf:
    """A table of a report."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[ColumnOf, ...]
    rows: tuple[RowOf, ...]
    text: str = optional("")


@dataclass(frozen=True)
class SeriesOf:
    """A curve: measured (here, curve), or points that a report or the authors' own program states (x, y, source), in
    the axes' units.
    """

    label: str
    here: str = optional("")
    curve: str = optional("")
    x: tuple[float, ...] = optional(())
    y: tuple[float, ...] = optional(())
    source: str = optional("reported")


@dataclass(frozen=True)
class LinesOf:
    """Curves in one pair of axes."""

    title: str
    x: ColumnOf
    y: ColumnOf
    series: tuple[SeriesOf, ...]
    log: str = optional("")
    text: str = optional("")


@dataclass(frozen=True)
class BarsOf:
    """A bar for each row; each row has one label and one figure."""

    title: str
    column: ColumnOf
    rows: tuple[RowOf, ...]
    log: bool = optional(False)
    text: str = optional("")


@dataclass(frozen=True)
class PictureOf:
    """A picture of samples, or class scores, that an experiment makes: where, and what it calls it."""

    title: str
    here: str
    text: str = optional("")


@dataclass(frozen=True)
class SectionOf:
    """A part of a report."""

    title: str
    text: str = optional("")
    findings: tuple[str, ...] = optional(())
    tables: tuple[TableOf, ...] = optional(())
    launches: tuple[LaunchesOf, ...] = optional(())
    lines: tuple[LinesOf, ...] = optional(())
    bars: tuple[BarsOf, ...] = optional(())
    photos: tuple[PictureOf, ...] = optional(())
    classified: tuple[PictureOf, ...] = optional(())


@dataclass(frozen=True)
class Definition:
    """A report.

    experiments : by name, in the order in which they are made. nets : its own, by name, as tables of a net's file.
    headline : the figure that stands for the report on the page of all reports, as the title of a table, a row's first
    text and a column's head.
    quick : whether experiments are cut. skipped : names of experiments that a first look leaves out.
    """

    name: str
    title: str
    about: str
    experiments: dict[str, Experiment]
    nets: dict[str, dict[str, Any]]
    sections: tuple[SectionOf, ...]
    headline: tuple[str, ...] = ()
    quick: bool = False
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Head:
    title: str
    about: str
    sections: tuple[SectionOf, ...]
    nets: dict[str, Any] = optional({})
    headline: tuple[str, ...] = optional(())


def definition(name: str, *, quick: bool = False) -> Definition:
    """Read the file of a report that comes with warpladder.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    quick : bool
        Whether each experiment is cut to what its table `quick` says.

    Raises
    ------
    ConfigError
        There is no such report.
    """
    if name not in NAMES:
        raise ConfigError(f"there is no report {name!r:.40}; there are {', '.join(NAMES)}")
    return parse((files(__package__) / "reports" / f"{name}.toml").read_text(encoding="utf-8"), name, quick=quick)


def parse(text: str, name: str, *, quick: bool = False) -> Definition:
    """A report out of the text of its file.

    Raises
    ------
    ConfigError
        One line with the place in the file and what is wrong there.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: is not TOML: {error}") from None
    tree = _lists(tree)
    experiments: dict[str, Experiment] = {}
    skipped: list[str] = []
    try:
        for kind in KINDS:
            for called, told in tree.pop(kind.kind, {}).items():
                if called in experiments:
                    raise ConfigError(f"two experiments are called {called!r}")
                cut = told.pop("quick", {})
                if quick and cut.pop("skip", False):
                    skipped.append(called)
                    continue
                whole = read(kind, told, called)
                if quick and cut:
                    told |= {
                        key: told.get(key, {}) | value if key == "settings" else value for key, value in cut.items()
                    }
                    if isinstance(whole, Task):
                        told["full"] = whole.size
                experiments[called] = read(kind, told, called) if quick else whole
        head: _Head = read(_Head, tree, "")
    except (ResultsError, ConfigError) as error:
        raise ConfigError(f"{name}: {error}") from None
    for section in head.sections:
        _check(section, name)
    return Definition(
        name, head.title, head.about, experiments, head.nets, head.sections, head.headline, quick, tuple(skipped)
    )


def _lists(value: Any) -> Any:
    """The same with nan, which TOML has and JSON does not, kept apart from numbers: as `NOTHING`."""
    if isinstance(value, dict):
        return {key: _lists(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_lists(each) for each in value]
    return NOTHING if isinstance(value, float) and math.isnan(value) else value


#: Where a report states no figure: a number that no figure is.
NOTHING = -1e308


def _check(section: SectionOf, name: str) -> None:
    """Raise `ConfigError` where rows and columns do not go together."""
    for table in section.tables:
        for column in table.columns:
            if column.unit not in UNITS:
                raise ConfigError(
                    f"{name}: table {table.title!r}: there is no unit {column.unit!r}; there are {', '.join(map(repr, UNITS))}"
                )
            of = column.measure.partition(":")[2].partition(":")[0]
            if column.worked_out and of not in [each.measure for each in table.columns]:
                raise ConfigError(
                    f"{name}: table {table.title!r}: {column.head!r} has no column of {of or 'times'} to be worked out from"
                )
        for row in table.rows:
            place = f"{name}: table {table.title!r}, row {' '.join(row.label)!r}"
            if len(row.label) != len(table.heads):
                raise ConfigError(f"{place}: wants {len(table.heads)} texts, got {len(row.label)}")
            for told in (row.reported, row.theirs):
                if told and len(told) != len(table.columns):
                    raise ConfigError(f"{place}: wants {len(table.columns)} figures, got {len(told)}")
