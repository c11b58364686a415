"""Tables of a reproduced report for a terminal: each cell has the reported figure above the measured one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..results import ReportTable, Reproduction, Value
from ..texts import counted
from .figures import head, legend, measured, stated
from .prose import figure as claim_figure
from .prose import wanted
from .side_by_side import aligned

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Drawn

#: Figures of each cell from top to bottom, and their names in the column of sources.
SOURCES = (("reported", "report"), ("theirs", "its program"), ("here", "here"))


def show(found: Reproduction, out: Console) -> None:
    """Print every table of a report, and the explanations of differences."""
    out.print(
        f"\n[bold]{found.report.upper()}: {found.title}[/bold]" + (" (a first look)" if found.quick else ""),
        soft_wrap=False,
    )
    if found.claims:
        out.print(f"\n{counted(found.claims)}", markup=False)
    once = Once()
    for section in found.sections:
        for each in section.tables:
            out.print()
            if not used(each):
                out.print(f"{each.title}: nothing of it is measured here", markup=False)
            else:
                out.print(drawn(each))
            for line in absent(each, once):
                out.print(line, style="dim", markup=False)
            if each.text:
                out.print(each.text.replace("`", chr(39)), style="dim", markup=False)
        for finding in section.findings:
            out.print(f"\nWhy: {str(finding).replace('`', chr(39))}", markup=False)
        for claim in section.claims:
            figure = f", measured {figure_text}" if (figure_text := claim_figure(claim)) else ""
            bound = f" ({text})" if (text := wanted(claim)) else ""
            why = f": {once(claim.reason)}" if claim.reason else ""
            out.print(f"\nClaim: {claim.claim}{bound}", markup=False)
            out.print(f"  {claim.verdict}{figure}{why}".replace("`", "'"), markup=False, style=STYLES[claim.verdict])
    for line in legend(found.values):
        out.print(f"\n{line}", markup=False)
    if found.missing:
        out.print(f"\nNot measured yet: {', '.join(found.missing)}")
    for note in found.notes:
        out.print(note)


def show_several(every: Sequence[Reproduction], labels: Sequence[str], out: Console) -> None:
    """Print the tables of several reproductions of one report, with a column for each, and their verdicts."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn

    every = aligned(every)
    out.print(f"\n[bold]{every[0].report.upper()}: {every[0].title}[/bold]")
    for label, each in zip(labels, every, strict=True):
        if each.claims:
            out.print(f"{label}: {counted(each.claims)}", markup=False)
    for at, section in enumerate(every[0].sections):
        for number, table in enumerate(section.tables):
            same = [each.sections[at].tables[number] for each in every]
            if not any(used(each) for each in same):
                continue
            made = Drawn(title=table.title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
            made.add_column(", ".join(filter(None, table.heads)), overflow="fold")
            made.add_column("")
            for label in ("report", *labels):
                made.add_column(label, justify="right")
            for i, row in enumerate(table.rows):
                for j, column in enumerate(table.columns):
                    here = [measured(each.rows[i].values[j], column.unit) for each in same]
                    reported = stated(row.values[j].reported, column.unit)
                    if reported or any(here):
                        name = "" if j else ", ".join(filter(None, row.label))
                        made.add_row(name, head(column), reported, *here)
            out.print()
            out.print(made)
    for line in legend(value for each in every for value in each.values):
        out.print(f"\n{line}", markup=False)


#: Style of each printed verdict.
STYLES = {"holds": "green", "holds here only": "yellow", "does not hold": "red", "cannot be judged": "dim"}


def drawn(table: ReportTable) -> Drawn:
    """Table for the terminal: each cell has the reported figure, the authors' own program's, and the measured one."""
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


class Once:
    """Shortener of long reasons that were printed before: `once(reason)` is the whole reason the first time."""

    LETTERS = 60

    def __init__(self) -> None:
        self.printed: set[str] = set()

    def __call__(self, reason: str) -> str:
        if reason in self.printed and len(reason) > 2 * self.LETTERS:
            return f"{reason[: self.LETTERS].rpartition(' ')[0]} ... (as above)"
        self.printed.add(reason)
        return reason


def absent(table: ReportTable, once: Once) -> list[str]:
    """Reasons why rows have no measured figures: a line for each, with its rows."""
    rows: dict[str, list[str]] = {}
    for row in table.rows:
        if row.reason:
            rows.setdefault(row.reason, []).append(" ".join(row.label))
    return [f"{', '.join(labels)}: {once(reason)}" for reason, labels in rows.items()]


def used(table: ReportTable) -> list[tuple[str, str]]:
    """Sources, (field, name), of which the table has figures."""
    values = [value for row in table.rows for value in row.values]
    return [(name, called) for name, called in SOURCES if any(getattr(value, name) is not None for value in values)]


def figure_of(value: Value, source: str, unit: str) -> str:
    """Text of the figure of one source: "reported", "theirs" or "here"."""
    return measured(value, unit) if source == "here" else stated(getattr(value, source), unit)
