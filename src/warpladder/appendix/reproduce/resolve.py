"""Resolution of a report: its tables and pictures with places become tables and pictures with figures, or with the
reason for a missing figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import WarpladderError
from ...errors.arguments import shown
from .curves import is_here, lines
from .definition import Definition
from .experiments import NOT_HERE, NOT_QUICK, NOT_YET, Found
from .kinds.launches import launch_table
from .results import UNITS, UNMEASURED, Bars, Classified, Column, Photo, ReportRow, ReportTable, Section, Value
from .texts import Figures


class Measured(dict[str, Found | None]):
    """Measured figures of each experiment, by its name. disturbed : names of experiments whose times are disturbed."""

    disturbed: frozenset[str] = frozenset()


def sections(report: Definition, found: Measured, failed: list[str] | None = None) -> tuple[Section, ...]:
    """Sections of the report with all known figures. A part that fails is left out, and its error appended to
    `failed`.
    """
    made = _Maker(report, found, NOT_QUICK if report.quick else NOT_HERE, [] if failed is None else failed)
    return tuple(map(made.section, report.sections))


#: Errors of a part of a page after which the other parts are still made.
FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    WarpladderError,
)


def places(row: ReportRow, column: Column) -> tuple[str, ...]:
    """Places where a figure is measured: the row's place, or else the column's.

    A row's "EXPERIMENT/" takes the rung of the column's place, its "@limit=100" is the swept value in the column's
    experiment, and its "-" is no place.
    """
    if row.here == UNMEASURED:
        return ()
    here = row.here or column.here
    if isinstance(here, str) and here.startswith("@"):
        here = column.here and column.here + here
    every = (here,) if isinstance(here, str) else here
    return tuple(each + column.here.partition("/")[2] if each.endswith("/") else each for each in every if each)


def measure_of(row: ReportRow, column: Column) -> str:
    """Name of a measure: the row's, or else the column's. A row's ":PART" is appended to the column's measure. Empty
    for figures computed from others.
    """
    if column.measure.startswith(("speedup:", "change:", "ratio:")):
        return ""
    return column.measure + row.measure if row.measure.startswith(":") else row.measure or column.measure


@dataclass
class _Maker:
    """Maker of the parts of sections; a part that fails does not affect the others."""

    report: Definition
    found: Measured
    missing: str
    failed: list[str]

    def __post_init__(self) -> None:
        report = self.report
        self.figures = Figures(
            report.figures, lambda place, measure: _measured(place, measure, self.found), self.found, report.source,
            report.quick,
        )  # fmt: skip

    def each(self, planned: Sequence[Any], make: Callable[[Any], Any]) -> list[Any]:
        """Results of `make` for each item, without failures and None."""
        out = []
        for one in planned:
            try:
                made = make(one)
            except FAULTS as error:
                name = getattr(one, "title", None) or getattr(one, "claim", None) or getattr(one, "text", one)
                self.failed.append(
                    f"left out, since it could not be made: {shown(name)}: {type(error).__name__}: {error}"
                )
                continue
            if made is not None:
                out.append(made)
        return out

    def section(self, planned: Section) -> Section:
        found = self.found
        seen: list[Photo | Classified] = [*planned.photos, *planned.classified]
        wanted = [(each.title, *each.here.partition("/")[::2]) for each in seen]
        lacking = dict.fromkeys(
            f"{title}: {why}."
            for title, name, which in wanted
            if (experiment := found.get(name)) is not None and (why := experiment.reason(which))
        )
        tables = self.each(planned.tables, lambda each: table(each, found, self.missing))
        launched = self.each(planned.launches, lambda each: launch_table(each, found))
        bars_made = self.each(planned.bars, lambda each: bars(each, found))
        lines_made = self.each(planned.lines, lambda each: lines(each, found))
        return replace(
            planned,
            text=" ".join((*[planned.text] * bool(planned.text), *lacking)),
            claims=tuple(self.each(planned.claims, self.figures.judged)),
            findings=tuple(self.each(planned.findings, self.figures.text_of)),
            tables=(*tables, *launched),
            lines=tuple(made for made in lines_made if sum(len(each.x) for each in made.series if is_here(each)) > 1),
            bars=tuple(made for made in bars_made if any(value.here is not None for value in made.values)),
            photos=_pictures(planned.photos, found, "photo"),
            classified=_pictures(planned.classified, found, "classified"),
            diagrams=tuple(self.each(planned.diagrams, self.figures.drawn)),
        )


def _pictures(planned: Sequence[Any], found: Measured, kind: str) -> tuple[Any, ...]:
    """Photos or scores of their experiments, each with the title and text of its place."""
    out = []
    for each in planned:
        name, _, which = each.here.partition("/")
        experiment = found.get(name)
        made = None if experiment is None else getattr(experiment, kind)(which)
        if made is not None:
            out.append(replace(made, title=each.title, text=each.text))
    return tuple(out)


def table(planned: ReportTable, found: Measured, missing: str = NOT_HERE) -> ReportTable:
    """Table with its figures; `missing` is the reason for a missing figure if its experiment gives none."""
    rows: list[ReportRow] = []
    for row in planned.rows:
        values = tuple(_value(row, at, column, found) for at, column in enumerate(planned.columns))
        rung, reason = _about(row, planned, values, found, missing)
        remark = row.remark or _partly(row, planned, values, found)
        rows.append(replace(row, values=values, rung=rung, reason=reason, remark=remark))
    for at, column in enumerate(planned.columns):
        if column.measure.startswith(("speedup:", "change:")):
            rows = _speedups(rows, at, column, planned, found)
        if column.measure.startswith("ratio:"):
            rows = _ratios(rows, at, column, planned)
    text = " ".join([planned.text] * bool(planned.text) + _absent(planned, rows, found, missing))
    return replace(planned, rows=tuple(rows), text=text)


def _put(row: ReportRow, at: int, value: Value) -> ReportRow:
    """Row with another figure in column `at`."""
    return replace(row, values=(*row.values[:at], value, *row.values[at + 1 :]))


def _ratios(rows: list[ReportRow], at: int, column: Column, planned: ReportTable) -> list[ReportRow]:
    """Rows with the column "ratio:A:B": the measured figure of the column with head A divided by column B's."""
    heads = [each.head for each in planned.columns]
    over, under = (heads.index(head) for head in column.measure.split(":")[1:])
    out = []
    for row in rows:
        a, b = row.values[over], row.values[under]
        ratio = a.here / b.here if a.here is not None and b.here else None
        disturbed = ratio is not None and (a.disturbed or b.disturbed)
        out.append(_put(row, at, replace(row.values[at], here=ratio, disturbed=disturbed)))
    return out


def _absent(planned: ReportTable, rows: list[ReportRow], found: Measured, missing: str) -> list[str]:
    """Reasons why whole columns of a table have no figures, a sentence for each."""
    out = []
    for at, column in enumerate(planned.columns):
        name, _, rung = column.here.partition("/")
        experiment = found.get(name)
        if rung and experiment is not None and rows and all(row.values[at].here is None for row in rows):
            out.append(f"{column.head}: {experiment.reason(rung) or missing}.")
    return out


def _value(row: ReportRow, at: int, column: Column, found: Measured) -> Value:
    """Figure of a row and column: the report's, the authors' own program's, and the measured one."""
    reported, theirs = (
        None if at >= len(figures) or (figure := figures[at]) is None else figure * UNITS[column.unit]
        for figures in (row.reported, row.theirs)
    )
    here = _measured(places(row, column), measure_of(row, column), found)
    return replace(here or Value(), reported=reported, theirs=theirs)


def _measured(here: str | tuple[str, ...], measure: str, found: Measured) -> Value | None:
    """Measured figure of the first of these places that has one."""
    for place in (here,) if isinstance(here, str) else here:
        name, _, rung = place.partition("/")
        experiment = found.get(name)
        if experiment is not None and measure and (value := experiment.value(rung, measure)) is not None:
            disturbed = name in getattr(found, "disturbed", ()) and experiment.is_time(measure)
            return replace(value, disturbed=True) if disturbed else value
    return None


def _about(
    row: ReportRow, planned: ReportTable, values: tuple[Value, ...], found: Measured, missing: str
) -> tuple[str, str]:
    """Rung of a row (of several the one with figures), and the reason for missing figures; `missing` if its experiment
    gives none.
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


def _partly(row: ReportRow, planned: ReportTable, values: tuple[Value, ...], found: Measured) -> str:
    """Reason why a row with figures lacks one that its rung could have; empty if none is missing."""
    if all(value.here is None for value in values):
        return ""
    for column, value in zip(planned.columns, values, strict=True):
        for place in places(row, column) if value.here is None and measure_of(row, column) else ():
            name, _, rung = place.partition("/")
            experiment = found.get(name)
            if rung and experiment is not None and (reason := experiment.reason(rung)):
                return reason
    return ""


def _speedups(rows: list[ReportRow], at: int, column: Column, planned: ReportTable, found: Measured) -> list[ReportRow]:
    """Rows with a column "speedup:MEASURE:first", ":above" or ":over": time of the first row that has the measure, of
    the row above, or of the place `over`, divided by the row's time. "change:MEASURE:..." is the row's figure minus the
    other.
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
        value = replace(own or Value(), reported=row.values[at].reported, theirs=row.values[at].theirs)
        if value.reported is None and worked_out is not None:
            value = replace(value, reported=float(f"{worked_out:.3g}"))
        out.append(_put(row, at, value))
    return out


def parts_of(measure: str) -> tuple[str, str, str]:
    """Parts of "speedup:epoch_seconds:first": comparison, measure, and the row to compare with."""
    what, _, rest = measure.partition(":")
    name, _, over = rest.rpartition(":")
    return what, name, over


def compared(rows: Sequence[ReportRow], measure: str, found: Measured) -> list[Value | None]:
    """Measured figure of each row compared with another row's, as "speedup:MEASURE:first" requires; None if either is
    missing.
    """
    what, name, over = parts_of(measure)
    here = [_measured(row.here, name, found) for row in rows]
    others = [_measured(row.over, name, found) for row in rows] if over == "over" else before(here, over)
    out: list[Value | None] = []
    for own, other in zip(here, others, strict=True):
        gain = None if own is None or other is None else _against(own.here, other.here, what)
        disturbed = own is not None and other is not None and (own.disturbed or other.disturbed)
        least, most = (None, None) if what != "speedup" else _range(own, other)
        out.append(None if gain is None else Value(here=gain, least=least, most=most, disturbed=disturbed))
    return out


def _range(own: Value | None, other: Value | None) -> tuple[float | None, float | None]:
    """Range of a speedup from the ranges of both times; (None, None) if either has no range."""
    if own is None or other is None or not own.least or not own.most or other.least is None or other.most is None:
        return None, None
    return other.least / own.most, other.most / own.least


def before(figures: list[Any], which: str) -> list[Any]:
    """Figure to compare each figure with: of the "first" row, or of the row above; None if that row has none."""
    if which == "first":
        return [figures[0] if number else None for number in range(len(figures))]
    return [None, *figures[:-1]] if figures else []


def _against(own: float | None, other: float | None, what: str) -> float | None:
    """Speedup over another time, other / own, or difference own - other; None if either is missing."""
    if own is None or other is None or not own:
        return None
    return other / own if what == "speedup" else own - other


def bars(planned: Bars, found: Measured) -> Bars:
    """Bars with the figures of each row."""
    values = [_value(row, 0, planned.column, found) for row in planned.rows]
    if planned.column.measure.startswith("speedup:"):
        faster = compared(planned.rows, planned.column.measure, found)
        values = [
            value if over is None else replace(over, reported=value.reported, theirs=value.theirs)
            for value, over in zip(values, faster, strict=True)
        ]
    return replace(planned, labels=tuple(row.label[0] for row in planned.rows), values=tuple(values))
