"""Page of all reports in a folder: a row for each with the measured share and one figure, as reported and measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ....files.atomic import write_atomically
from ....results.report.html import note
from ....results.report.html import table as drawn
from ....results.report.page import document
from ....results.text.words import seconds
from ..results import Column, Reproduction, Value
from ..texts import counted
from .figures import legend, measured, ratio, stated
from .prose import prose


@dataclass(frozen=True)
class Entry:
    """Report in a folder, for the page of all reports.

    name, title : name and title of the report. link : path of its page. found : its results; None if there are none,
    with the reason.
    """

    name: str
    title: str
    link: str
    found: Reproduction | None = None
    reason: str = "not begun yet"


def write_index(entries: Sequence[Entry], path: str | os.PathLike[str]) -> None:
    """Write the page of all reports to a file, atomically."""
    write_atomically(path, index(entries))


def index(entries: Sequence[Entry]) -> str:
    """HTML of the page of all reports."""
    table = drawn("Reports", ("report", "reported", "here"), map(_row, entries), text=(0,))
    quick = any(each.found is not None and each.found.quick for each in entries)
    warning = (
        '<p class="warning">First looks are on parts of the data, with fewer epochs: their accuracies '
        "are those of so little training.</p>"
    )
    values = [figure[2] for each in entries if each.found is not None and (figure := headline(each.found)) is not None]
    signs = "".join(f" {text}." for text in legend(values))
    every = [claim for each in entries if each.found is not None for claim in each.found.claims]
    about = (
        "The experiments of student reports, run again: measured figures stand next to reported ones. "
        "Each report has a page of its own, with all its tables and figures."
    )
    total = prose(counted(every, "the reports"), "conclusion") if every else ""
    content = note(about + signs) + total + warning * quick + table
    return document("Reports, reproduced", "warpladder, reports reproduced", [("start", "", content)])


def _row(entry: Entry) -> tuple[str, list[str]]:
    found = entry.found
    title = f'<span class="options">{escape(entry.title)}</span>'
    if found is None:
        return "none", [escape(entry.name.upper()) + title + _small(entry.reason), "", ""]
    link = f'<a href="{escape(entry.link)}">{escape(entry.name.upper())}</a>{title}{_extent(found)}'
    figure = headline(found)
    if figure is None:
        return "rung", [link + _small("none of it is measured yet"), "", ""]
    label, column, value = figure
    here = f"<b>{escape(measured(value, column.unit))}</b>" if value.here is not None else ""
    return "rung", [
        link + _small(f"a figure of it: {label}"),
        _with(escape(stated(value.reported, column.unit)), column),
        _with(here, column),
    ]


def _with(figure: str, column: Column) -> str:
    """Figure with its unit, as text."""
    return f"{figure} {escape(column.unit)}" if figure and column.unit not in ("", "x") else figure


def _extent(found: Reproduction) -> str:
    """Measured share of a report's experiments and figures, and the machine, as HTML."""
    whole, every = len(found.measured), len(found.measured) + len(found.missing)
    values = [
        value for section in found.sections for table in section.tables for row in table.rows for value in row.values
    ]
    figures = sum(value.here is not None for value in values)
    stated = sum(ratio(value) is not None for value in values)
    made = f"{whole} of {every} experiments{', a first look' if found.quick else ''}"
    where = f"{found.machine.gpu.name}, " if found.machine.gpu else ""
    disturbed = sum(made.disturbed for made in found.experiments.values())
    lines = (
        *[counted(found.claims).rstrip(".")] * bool(found.claims),
        *[f"{disturbed} experiments disturbed by other processes"] * bool(disturbed),
        f"{figures:,} figures, {stated:,} of them reported too, in {seconds(found.seconds)}",
        f"{where}{found.machine.cpu}",
    )
    return "".join(map(_small, (made, *lines)))


def _small(text: str) -> str:
    """HTML of a small line below a report's name."""
    return f'<span class="options">{escape(text)}</span>'


def headline(found: Reproduction) -> tuple[str, Column, Value] | None:
    """Figure that represents a report on the page of all reports: its label, column and value.

    The report's own headline; if that was not measured, the first measured figure that the report states too.
    """
    first = None
    for section in found.sections:
        for table in section.tables:
            for row in table.rows:
                for column, value in zip(table.columns, row.values, strict=True):
                    figure = f"{column.head}: {', '.join(row.label)}", column, value
                    if (table.title, row.label[0], column.head) == found.headline and value.here is not None:
                        return figure
                    if first is None and ratio(value) is not None:
                        first = figure
    return first
