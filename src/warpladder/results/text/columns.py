"""Tables with figures in columns next to each other if the terminal is wide enough, else one above the other, so that
no digit is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

#: Heads of the columns of figures, of one line or two; heads of a group share a column in a narrow table.
Groups = Sequence[Sequence[str]]


def add_columns(table: Table, groups: Groups, narrow: bool) -> None:
    """Add a column for each head, or in a narrow table for each group of heads."""
    for group in groups:
        for head in ["\n".join(head.replace("\n", " ") for head in group)] if narrow else group:
            table.add_column(head, justify="right", no_wrap=True)


def cells(groups: Groups, figures: Iterable[str], narrow: bool) -> list[str]:
    """Cells of a row from its figures: one for each head, or in a narrow table one for each group."""
    left = list(figures)
    if not narrow:
        return left
    out = []
    for group in groups:
        out.append("\n".join(left[: len(group)]).rstrip("\n"))
        left = left[len(group) :]
    return out


def fitting(
    title: str, texts: Sequence[str], groups: Groups, rows: Sequence[tuple[Sequence[str], Sequence[str]]], width: int
) -> Table:
    """Table for a terminal of this width: figures next to each other if they fit, else one above the other.

    Parameters
    ----------
    title : str
    texts : heads of the columns of text, at the left; the first is folded in a narrow table.
    groups : heads of the figures.
    rows : texts and figures of each row, in the order of the heads.
    width : int
        Columns of the terminal.
    """
    from rich.console import Console

    wide = _build(title, texts, groups, rows, narrow=False)
    if Console(width=10_000).measure(wide).maximum <= width:
        return wide
    return _build(title, texts, groups, rows, narrow=True)


def _build(
    title: str, texts: Sequence[str], groups: Groups, rows: Sequence[tuple[Sequence[str], Sequence[str]]], narrow: bool
) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for at, head in enumerate(texts):
        table.add_column(head, no_wrap=not (narrow and at == 0), overflow="fold")
    add_columns(table, groups, narrow)
    for own, figures in rows:
        table.add_row(*map(Text, own), *map(Text, cells(groups, figures, narrow)))
    return table
