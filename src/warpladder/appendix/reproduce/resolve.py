"""From a report's file and what was measured to the tables and pictures that are shown: every figure in its place, or
the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .definition import NOTHING, UNMEASURED, BarsOf, ColumnOf, Definition, LinesOf, RowOf, SectionOf, SeriesOf, TableOf
from .experiments import NOT_HERE, NOT_QUICK, NOT_YET, Found
from .launches import launch_table
from .results import UNITS, Bars, Column, Lines, Row, Section, Series, Table, Value

#: What is measured of each experiment, by its name.
Measured = dict[str, Found | None]


def sections(report: Definition, found: Measured) -> tuple[Section, ...]:
    """Each section with what is known."""
    return tuple(_section(each, found, NOT_QUICK if report.quick else NOT_HERE) for each in report.sections)


def places(row: RowOf, column: ColumnOf) -> tuple[str, ...]:
    """Where a figure is measured: where its row says, else its column.

    A row's "EXPERIMENT/" takes the rung of the column's place, its "@limit=100" is what is swept in the column's
    experiment, and its "-" is no place at all.
    """
    if row.here == UNMEASURED:
        return ()
    told = row.here or column.here
    if isinstance(told, str) and told.startswith("@"):
        told = column.here and column.here + told
    every = (told,) if isinstance(told, str) else told
    return tuple(each + column.here.partition("/")[2] if each.endswith("/") else each for each in every if each)


def measure_of(row: RowOf, column: ColumnOf) -> str:
    """What is measured: as the row says, else its column. A row's ":PART" is a part of what its column measures. Empty
    where figures follow from others.
    """
    if column.measure.startswith(("speedup:", "change:", "ratio:")):
        return ""
    return column.measure + row.measure if row.measure.startswith(":") else row.measure or column.measure


def _section(told: SectionOf, found: Measured, missing: str) -> Section:
    photos = [
        replace(photo, title=each.title, text=each.text)
        for each in told.photos
        if (photo := _picture(found, each.here, "photo"))
    ]
    scores = [
        replace(one, title=each.title, text=each.text)
        for each in told.classified
        if (one := _picture(found, each.here, "classified"))
    ]
    lacking = dict.fromkeys(
        f"{each.title}: {why}."
        for each in (*told.photos, *told.classified)
        if (experiment := found.get(each.here.partition("/")[0])) is not None
        and (why := experiment.reason(each.here.partition("/")[2]))
    )
    return Section(
        told.title,
        " ".join((*[told.text] * bool(told.text), *lacking)),
        told.findings,
        (
            *(table(each, found, missing) for each in told.tables),
            *(launch_table(each, found) for each in told.launches),
        ),
        tuple(curves for each in told.lines if (curves := lines(each, found)).series),
        tuple(
            made
            for made in (bars(each, found) for each in told.bars)
            if any(value.here is not None for value in made.values)
        ),
        tuple(photos),
        tuple(scores),
    )


def _picture(found: Measured, here: str, what: str):  # type: ignore[no-untyped-def]
    name, _, which = here.partition("/")
    experiment = found.get(name)
    return None if experiment is None else getattr(experiment, what)(which)


def table(told: TableOf, found: Measured, missing: str = NOT_HERE) -> Table:
    """A table with its figures; `missing` is why one has none, where no experiment knows."""
    rows: list[Row] = []
    for row in told.rows:
        values = tuple(_value(row, at, column, found) for at, column in enumerate(told.columns))
        rows.append(Row(row.label, values, *_about(row, told, values, found, missing), row.remark))
    for at, column in enumerate(told.columns):
        if column.measure.startswith(("speedup:", "change:")):
            rows = _speedups(rows, at, column, told, found)
        if column.measure.startswith("ratio:"):
            rows = _ratios(rows, at, column, told)
    text = " ".join([told.text] * bool(told.text) + _absent(told, rows, found, missing))
    return Table(
        told.title, told.heads, tuple(Column(each.head, each.unit) for each in told.columns), tuple(rows), text
    )


def _ratios(rows: list[Row], at: int, column: ColumnOf, told: TableOf) -> list[Row]:
    """Rows with the column "ratio:A:B": the figure measured in the column whose head is A over the one in column B."""
    heads = [each.head for each in told.columns]
    over, under = (heads.index(head) for head in column.measure.split(":")[1:])
    out = []
    for row in rows:
        a, b = row.values[over].here, row.values[under].here
        value = replace(row.values[at], here=a / b if a is not None and b else None)
        out.append(replace(row, values=(*row.values[:at], value, *row.values[at + 1 :])))
    return out


def _absent(told: TableOf, rows: list[Row], found: Measured, missing: str) -> list[str]:
    """Why whole columns of a table have no figures, a sentence for each."""
    out = []
    for at, column in enumerate(told.columns):
        name, _, rung = column.here.partition("/")
        experiment = found.get(name)
        if rung and experiment is not None and rows and all(row.values[at].here is None for row in rows):
            out.append(f"{column.head}: {experiment.reason(rung) or missing}.")
    return out


def _value(row: RowOf, at: int, column: ColumnOf, found: Measured) -> Value:
    """What a report says, what the authors' own program did, and what was measured."""
    stated = Value(_stated(row.reported, at, column), _stated(row.theirs, at, column))
    here = _measured(places(row, column), measure_of(row, column), found)
    return stated if here is None else replace(here, reported=stated.reported, theirs=stated.theirs)


def _stated(values: tuple[float, ...], at: int, column: ColumnOf) -> float | None:
    return None if at >= len(values) or values[at] <= NOTHING else values[at] * UNITS[column.unit]


def _measured(here: str | tuple[str, ...], measure: str, found: Measured) -> Value | None:
    """The figure of the first of these places that has one."""
    for place in (here,) if isinstance(here, str) else here:
        name, _, rung = place.partition("/")
        experiment = found.get(name)
        if experiment is not None and measure and (value := experiment.value(rung, measure)) is not None:
            return value
    return None


def _about(row: RowOf, told_in: TableOf, values: tuple[Value, ...], found: Measured, missing: str) -> tuple[str, str]:
    """The rung of a row, that of several which has figures, and why there are none; `missing` is why, where no
    experiment knows.
    """
    told = places(row, told_in.columns[0])
    swept = isinstance(row.here, str) and row.here.startswith("@")
    if row.here in ("", UNMEASURED) or (isinstance(row.here, str) and row.here.endswith("/")):
        return "", ""
    rungs = [(found.get(name), rung) for name, _, rung in (place.partition("/") for place in told) if rung]
    measures = [measure for column in told_in.columns if (measure := measure_of(row, column))]
    giving = [place for place in told if any(_measured(place, each, found) for each in measures)] or told
    named = (
        []
        if swept
        else [(found.get(name), rung) for name, _, rung in (place.partition("/") for place in giving) if rung]
    )
    called = next((experiment.name_of(rung) for experiment, rung in named if experiment is not None), "")
    if not rungs or any(value.here is not None for value in values):
        return called, ""
    why = next(
        (
            reason
            for experiment, rung in rungs
            if experiment is not None and (reason := experiment.without(rung, row.measure))
        ),
        "",
    )
    begun = [found[name] for name in (place.partition("/")[0] for place in told) if name in found]
    known = [experiment for experiment in begun if experiment is not None]
    under_way = begun and (not known or not all(experiment.whole for experiment in known))
    return called, why or (NOT_YET if under_way else missing)


def _speedups(rows: list[Row], at: int, column: ColumnOf, told: TableOf, found: Measured) -> list[Row]:
    """Rows with a column "speedup:MEASURE:first", ":above" or ":over": how many times faster than the first row that
    has the measure, than the one above, or than what the row itself names in `over`; "change:MEASURE:..." is how much
    more it is than there.
    """
    what, measure, over = parts_of(column.measure)
    here = compared(told.rows, column.measure, found)
    stated: list[float | None] = [None] * len(rows)
    if column.worked_out:
        of = next(number for number, each in enumerate(told.columns) if each.measure == measure)
        reported = [row.values[of].reported for row in rows]
        stated = [_against(*pair, what) for pair in zip(reported, before(reported, over), strict=True)]
    out = []
    for row, own, worked_out in zip(rows, here, stated, strict=True):
        value = replace(row.values[at], here=own)
        if value.reported is None and worked_out is not None:
            value = replace(value, reported=float(f"{worked_out:.3g}"))
        out.append(replace(row, values=(*row.values[:at], value, *row.values[at + 1 :])))
    return out


def parts_of(measure: str) -> tuple[str, str, str]:
    """Of "speedup:epoch_seconds:first" what is asked, of which measure, and against which row."""
    what, _, rest = measure.partition(":")
    name, _, over = rest.rpartition(":")
    return what, name, over


def compared(rows: Sequence[RowOf], measure: str, found: Measured) -> list[float | None]:
    """Of each row its measured figure against that of another row, as "speedup:MEASURE:first" asks; None where either
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


def lines(told: LinesOf, found: Measured) -> Lines:
    """Curves: those that have points."""
    series = [made for each in told.series if (made := _series(each, told, found)) is not None]
    return Lines(
        told.title,
        Column(told.x.head, told.x.unit),
        Column(told.y.head, told.y.unit),
        tuple(series),
        told.log,
        told.text,
    )


def _series(told: SeriesOf, axes: LinesOf, found: Measured) -> Series | None:
    if not told.here:
        x, y = (
            tuple(value * UNITS[axis.unit] for value in values) for values, axis in ((told.x, axes.x), (told.y, axes.y))
        )
        return Series(told.label, x, y, told.source)
    name, _, rung = told.here.partition("/")
    experiment = found.get(name)
    points = None if experiment is None else experiment.curve(rung, told.curve)
    marks = () if experiment is None else experiment.marks(rung, told.curve)
    return None if points is None else Series(told.label, tuple(points[0]), tuple(points[1]), marks=marks)


def bars(told: BarsOf, found: Measured) -> Bars:
    """A bar for each row."""
    values = tuple(_value(row, 0, told.column, found) for row in told.rows)
    if told.column.measure.startswith("speedup:"):
        faster = compared(told.rows, told.column.measure, found)
        values = tuple(
            value if over is None else replace(value, here=over) for value, over in zip(values, faster, strict=True)
        )
    return Bars(
        told.title,
        Column(told.column.head, told.column.unit),
        tuple(row.label[0] for row in told.rows),
        values,
        told.log,
        told.text,
    )
