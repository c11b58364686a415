"""From a report's tables and pictures with their places to those with figures: every figure in its place, or the reason
why there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .definition import Definition
from .experiments import NOT_HERE, NOT_QUICK, NOT_YET, Found
from .kinds.launches import launch_table
from .results import UNITS, UNMEASURED, Bars, Column, Lines, ReportRow, ReportTable, Section, Series, Value

#: What is measured of each experiment, by its name.
Measured = dict[str, Found | None]


def sections(report: Definition, found: Measured) -> tuple[Section, ...]:
    """Each section with what is known."""
    return tuple(_section(each, found, NOT_QUICK if report.quick else NOT_HERE) for each in report.sections)


def places(row: ReportRow, column: Column) -> tuple[str, ...]:
    """Where a figure is measured: the place of its row, or else of its column.

    A row's "EXPERIMENT/" takes the rung of the column's place, its "@limit=100" is what is swept in the column's
    experiment, and its "-" is no place at all.
    """
    if row.here == UNMEASURED:
        return ()
    here = row.here or column.here
    if isinstance(here, str) and here.startswith("@"):
        here = column.here and column.here + here
    every = (here,) if isinstance(here, str) else here
    return tuple(each + column.here.partition("/")[2] if each.endswith("/") else each for each in every if each)


def measure_of(row: ReportRow, column: Column) -> str:
    """What is measured: the measure of the row, or else of its column. A row's ":PART" is a part of what its column
    measures. Empty where figures follow from others.
    """
    if column.measure.startswith(("speedup:", "change:", "ratio:")):
        return ""
    return column.measure + row.measure if row.measure.startswith(":") else row.measure or column.measure


def _section(planned: Section, found: Measured, missing: str) -> Section:
    wanted = [(each.title, *each.here.partition("/")[::2]) for each in planned.photos]
    wanted += [(each.title, *each.here.partition("/")[::2]) for each in planned.classified]
    lacking = dict.fromkeys(
        f"{title}: {why}."
        for title, name, which in wanted
        if (experiment := found.get(name)) is not None and (why := experiment.reason(which))
    )
    tables = [table(each, found, missing) for each in planned.tables]
    bars_made = [bars(each, found) for each in planned.bars]
    return replace(
        planned,
        text=" ".join((*[planned.text] * bool(planned.text), *lacking)),
        tables=(*tables, *(launch_table(each, found) for each in planned.launches)),
        lines=tuple(curves for each in planned.lines if (curves := lines(each, found)).series),
        bars=tuple(made for made in bars_made if any(value.here is not None for value in made.values)),
        photos=_pictures(planned.photos, found, "photo"),
        classified=_pictures(planned.classified, found, "classified"),
    )


def _pictures(planned: Sequence[Any], found: Measured, kind: str) -> tuple[Any, ...]:
    """Photos or scores that their experiments have, each under the title and text of its place."""
    out = []
    for each in planned:
        name, _, which = each.here.partition("/")
        experiment = found.get(name)
        made = None if experiment is None else getattr(experiment, kind)(which)
        if made is not None:
            out.append(replace(made, title=each.title, text=each.text))
    return tuple(out)


def table(planned: ReportTable, found: Measured, missing: str = NOT_HERE) -> ReportTable:
    """A table with its figures; `missing` is why one has none, where no experiment knows."""
    rows: list[ReportRow] = []
    for row in planned.rows:
        values = tuple(_value(row, at, column, found) for at, column in enumerate(planned.columns))
        rung, reason = _about(row, planned, values, found, missing)
        rows.append(replace(row, values=values, rung=rung, reason=reason))
    for at, column in enumerate(planned.columns):
        if column.measure.startswith(("speedup:", "change:")):
            rows = _speedups(rows, at, column, planned, found)
        if column.measure.startswith("ratio:"):
            rows = _ratios(rows, at, column, planned)
    text = " ".join([planned.text] * bool(planned.text) + _absent(planned, rows, found, missing))
    return replace(planned, rows=tuple(rows), text=text)


def _put(row: ReportRow, at: int, value: Value) -> ReportRow:
    """The row with another figure in this column."""
    return replace(row, values=(*row.values[:at], value, *row.values[at + 1 :]))


def _ratios(rows: list[ReportRow], at: int, column: Column, planned: ReportTable) -> list[ReportRow]:
    """Rows with the column "ratio:A:B": the figure measured in the column whose head is A over the one in column B."""
    heads = [each.head for each in planned.columns]
    over, under = (heads.index(head) for head in column.measure.split(":")[1:])
    out = []
    for row in rows:
        a, b = row.values[over].here, row.values[under].here
        out.append(_put(row, at, replace(row.values[at], here=a / b if a is not None and b else None)))
    return out


def _absent(planned: ReportTable, rows: list[ReportRow], found: Measured, missing: str) -> list[str]:
    """Why whole columns of a table have no figures, a sentence for each."""
    out = []
    for at, column in enumerate(planned.columns):
        name, _, rung = column.here.partition("/")
        experiment = found.get(name)
        if rung and experiment is not None and rows and all(row.values[at].here is None for row in rows):
            out.append(f"{column.head}: {experiment.reason(rung) or missing}.")
    return out


def _value(row: ReportRow, at: int, column: Column, found: Measured) -> Value:
    """Figures of the report and of the authors' own program, and the one measured here."""
    reported, theirs = (
        None if at >= len(figures) or (figure := figures[at]) is None else figure * UNITS[column.unit]
        for figures in (row.reported, row.theirs)
    )
    here = _measured(places(row, column), measure_of(row, column), found)
    return replace(here or Value(), reported=reported, theirs=theirs)


def _measured(here: str | tuple[str, ...], measure: str, found: Measured) -> Value | None:
    """The figure of the first of these places that has one."""
    for place in (here,) if isinstance(here, str) else here:
        name, _, rung = place.partition("/")
        experiment = found.get(name)
        if experiment is not None and measure and (value := experiment.value(rung, measure)) is not None:
            return value
    return None


def _about(
    row: ReportRow, planned: ReportTable, values: tuple[Value, ...], found: Measured, missing: str
) -> tuple[str, str]:
    """The rung of a row, that of several which has figures, and why there are none; `missing` is why, where no
    experiment knows.
    """
    single = row.here if isinstance(row.here, str) else ""
    if row.here in ("", UNMEASURED) or single.endswith("/"):
        return "", ""
    own = [(place, *place.partition("/")[::2]) for place in places(row, planned.columns[0])]
    measures = [measure for column in planned.columns if (measure := measure_of(row, column))]
    giving = [each for each in own if any(_measured(each[0], measure, found) for measure in measures)] or own
    rung_name = ""
    if not single.startswith("@"):
        experiments = ((found.get(name), rung) for _, name, rung in giving if rung)
        rung_name = next((experiment.name_of(rung) for experiment, rung in experiments if experiment), "")
    if not any(rung for _, _, rung in own) or any(value.here is not None for value in values):
        return rung_name, ""
    known = [experiment for _, name, _ in own if (experiment := found.get(name)) is not None]
    for _, name, rung in own:
        experiment = found.get(name)
        if rung and experiment is not None and (reason := experiment.without(rung, row.measure)):
            return rung_name, reason
    begun = any(name in found for _, name, _ in own)
    under_way = begun and (not known or not all(experiment.whole for experiment in known))
    return rung_name, NOT_YET if under_way else missing


def _speedups(rows: list[ReportRow], at: int, column: Column, planned: ReportTable, found: Measured) -> list[ReportRow]:
    """Rows with a column "speedup:MEASURE:first", ":above" or ":over": how many times faster than the first row that
    has the measure, than the one above, or than what the row itself names in `over`; "change:MEASURE:..." is how much
    more it is than there.
    """
    what, measure, over = parts_of(column.measure)
    here = compared(planned.rows, column.measure, found)
    stated: list[float | None] = [None] * len(rows)
    if column.worked_out:
        of = next(number for number, each in enumerate(planned.columns) if each.measure == measure)
        reported = [row.values[of].reported for row in rows]
        stated = [_against(*pair, what) for pair in zip(reported, before(reported, over), strict=True)]
    out = []
    for row, own, worked_out in zip(rows, here, stated, strict=True):
        value = replace(row.values[at], here=own)
        if value.reported is None and worked_out is not None:
            value = replace(value, reported=float(f"{worked_out:.3g}"))
        out.append(_put(row, at, value))
    return out


def parts_of(measure: str) -> tuple[str, str, str]:
    """Parts of "speedup:epoch_seconds:first": the comparison, the measure, and the row that is compared with."""
    what, _, rest = measure.partition(":")
    name, _, over = rest.rpartition(":")
    return what, name, over


def compared(rows: Sequence[ReportRow], measure: str, found: Measured) -> list[float | None]:
    """Measured figure of each row against that of another row, as "speedup:MEASURE:first" requires; None where either
    is not known.
    """
    what, name, over = parts_of(measure)
    here = [_here(row.here, name, found) for row in rows]
    others = [_here(row.over, name, found) for row in rows] if over == "over" else before(here, over)
    return [_against(own, other, what) for own, other in zip(here, others, strict=True)]


def _here(place: str | tuple[str, ...], measure: str, found: Measured) -> float | None:
    value = _measured(place, measure, found)
    return None if value is None else value.here


def before(figures: list[float | None], which: str) -> list[float | None]:
    """For each figure the "first" one that is known above it, or the last; None where nothing is."""
    out: list[float | None] = []
    for number in range(len(figures)):
        known = [figure for figure in figures[:number] if figure is not None]
        out.append(None if not known else known[0] if which == "first" else known[-1])
    return out


def _against(own: float | None, other: float | None, what: str) -> float | None:
    """How many times as fast as another figure, or how much more it is; None where either is not known."""
    if own is None or other is None or not own:
        return None
    return other / own if what == "speedup" else own - other


def lines(planned: Lines, found: Measured) -> Lines:
    """Curves: those that have points."""
    series = [made for each in planned.series if (made := _series(each, planned, found)) is not None]
    return replace(planned, series=tuple(series))


def _series(planned: Series, axes: Lines, found: Measured) -> Series | None:
    if not planned.here:
        x, y = (
            tuple(value * UNITS[axis.unit] for value in values)
            for values, axis in ((planned.x, axes.x), (planned.y, axes.y))
        )
        return replace(planned, x=x, y=y, source="theirs" if planned.source == "theirs" else "reported")
    name, _, rung = planned.here.partition("/")
    experiment = found.get(name)
    points = None if experiment is None else experiment.curve(rung, planned.curve)
    if experiment is None or points is None:
        return None
    return replace(planned, x=tuple(points[0]), y=tuple(points[1]), marks=experiment.marks(rung, planned.curve))


def bars(planned: Bars, found: Measured) -> Bars:
    """A bar for each row."""
    values = [_value(row, 0, planned.column, found) for row in planned.rows]
    if planned.column.measure.startswith("speedup:"):
        faster = compared(planned.rows, planned.column.measure, found)
        values = [
            value if over is None else replace(value, here=over) for value, over in zip(values, faster, strict=True)
        ]
    return replace(planned, labels=tuple(row.label[0] for row in planned.rows), values=tuple(values))
