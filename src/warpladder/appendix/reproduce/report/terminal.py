"""Tables of a reproduced report for a terminal: in each cell the reported figure above the measured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..results import ReportTable, Reproduction, Value
from .figures import head, measured, stated

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Drawn

#: Figures of each cell from top to bottom, and their names in the column of sources.
SOURCES = (("reported", "report"), ("theirs", "its program"), ("here", "here"))


def show(found: Reproduction, out: Console) -> None:
    """Print every table of a report, and what explains the differences."""
    out.print(
        f"\n[bold]{found.report.upper()}: {found.title}[/bold]" + (" (a first look)" if found.quick else ""),
        soft_wrap=False,
    )
    for section in found.sections:
        for each in section.tables:
            out.print()
            out.print(drawn(each))
            for line in absent(each):
                out.print(line, style="dim", markup=False)
            if each.text:
                out.print(each.text, style="dim", markup=False)
        for finding in section.findings:
            out.print(f"\nWhy: {finding}", markup=False)
    if scaled(found):
        out.print("\n* measured on a part of the work, and scaled up")
    if found.missing:
        out.print(f"\nNot measured yet: {', '.join(found.missing)}")
    for note in found.notes:
        out.print(note)


def scaled(found: Reproduction) -> bool:
    """Whether a figure of a table was scaled up."""
    return any(
        value.scaled
        for section in found.sections
        for table in section.tables
        for row in table.rows
        for value in row.values
    )


def drawn(table: ReportTable) -> Drawn:
    """One table: in each cell the reported figure, that of the authors' own program, and the measured one."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn

    made = Drawn(title=table.title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for text in table.heads:
        made.add_column(text, overflow="fold")
    sources = used(table)
    if len(sources) > 1:
        made.add_column("")
    for column in table.columns:
        made.add_column(head(column), justify="right")
    for row in table.rows:
        own = [
            (name, called) for name, called in sources if any(getattr(value, name) is not None for value in row.values)
        ]
        cells = [
            "\n".join(figure_of(value, name, column.unit) for name, _ in own)
            for value, column in zip(row.values, table.columns, strict=True)
        ]
        names = ["\n".join(called for _, called in own)] if len(sources) > 1 else []
        made.add_row(*row.label, *names, *cells)
    return made


def absent(table: ReportTable) -> list[str]:
    """Why rows have no figures of ours: a line for each reason, with the rows."""
    rows: dict[str, list[str]] = {}
    for row in table.rows:
        if row.reason:
            rows.setdefault(row.reason, []).append(" ".join(row.label))
    return [f"{', '.join(labels)}: {reason}" for reason, labels in rows.items()]


def used(table: ReportTable) -> list[tuple[str, str]]:
    """The sources that the table has figures of."""
    values = [value for row in table.rows for value in row.values]
    return [(name, called) for name, called in SOURCES if any(getattr(value, name) is not None for value in values)]


def figure_of(value: Value, source: str, unit: str) -> str:
    """The figure of one source."""
    return measured(value, unit) if source == "here" else stated(getattr(value, source), unit)
