"""Alignment of several reproductions of one report: all get the same tables and rows, to be shown next to each other.

Launches differ between GPUs, a quick reproduction leaves tables out, and a CPU has other reasons than a GPU: a row of
only one reproduction becomes a row without a figure in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....errors import ResultsError
from ..figure import Value
from ..results import ReportRow, ReportTable, Reproduction, Section

#: Reason why a row has no figure in one of several reproductions.
ELSEWHERE = "no such row there"


def check_alike(every: Sequence[Reproduction], names: Sequence[str]) -> None:
    """Raise `ResultsError` with the first name that is not a reproduction of the same report."""
    first = every[0]
    for other, name in zip(every[1:], names[1:], strict=True):
        if other.report != first.report:
            raise ResultsError(
                f"{name}: reproduces {other.report}, and {names[0]} reproduces {first.report}: only those of "
                "one report are compared"
            )


def aligned(every: Sequence[Reproduction]) -> list[Reproduction]:
    """Reproductions in which each has all sections, tables, rows and claims of all, in one order."""
    if len(every) == 1:
        return list(every)
    sections = _union([each.sections for each in every], lambda section: section.title, _empty_section)
    out = [list(each) for each in sections]
    for at in range(len(out[0])):
        same = [each[at] for each in out]
        tables = _union([section.tables for section in same], _shape, _empty_table)
        for number in range(len(tables[0])):
            rows = _union([each[number].rows for each in tables], _place, _empty_row)
            for own, with_all in zip(tables, rows, strict=True):
                own[number] = replace(own[number], rows=tuple(with_all))
        for number, section in enumerate(same):
            out[number][at] = replace(section, tables=tuple(tables[number]))
    return [replace(each, sections=tuple(own)) for each, own in zip(every, out, strict=True)]


def _union(every: Sequence[Sequence[Any]], name: Any, empty: Any) -> list[list[Any]]:
    """Lists of equal length: each with the items of all, matched by name, in the order of their first appearance;
    `empty` where a list has no such item.
    """
    kinds: list[dict[Any, Any]] = []
    for items in every:
        named: dict[Any, Any] = {}
        for item in items:
            key, count = name(item), 0
            while (key, count) in named:  # the same kernel is launched several times in a step
                count += 1
            named[key, count] = item
        kinds.append(named)
    order = dict.fromkeys(key for named in kinds for key in named)
    first = {key: next(named[key] for named in kinds if key in named) for key in order}
    return [[named[key] if key in named else empty(first[key]) for key in order] for named in kinds]


def _shape(table: ReportTable) -> Any:
    """Identity of a table: its title, heads and columns, since another version of warpladder may have other columns."""
    return table.title, table.heads, table.columns


def _place(row: ReportRow) -> Any:
    return row.label


def _empty_section(section: Section) -> Section:
    tables = tuple(map(_empty_table, section.tables))
    return Section(section.title, section.text, tables=tables)


def _empty_table(table: ReportTable) -> ReportTable:
    return replace(table, rows=tuple(map(_empty_row, table.rows)))


def _empty_row(row: ReportRow) -> ReportRow:
    values = tuple(Value(reported=value.reported, theirs=value.theirs) for value in row.values)
    return replace(row, values=values, reason=ELSEWHERE, rung="")
