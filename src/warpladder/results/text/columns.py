"""Tables whose figures stand side by side where there is room, and one above the other where there is not: no terminal
costs a digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of figures by their heads, of one line or two; those in one group share a column where a table is narrow.
Groups = Sequence[Sequence[str]]


def add_columns(table: Table, groups: Groups, narrow: bool) -> None:
    """Add a column for each head, or for each group."""
    for group in groups:
        for head in ["\n".join(head.replace("\n", " ") for head in group)] if narrow else group:
            table.add_column(head, justify="right", no_wrap=True)


def cells(groups: Groups, figures: Iterable[str], narrow: bool) -> list[str]:
    """The cells for these figures, one a head."""
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
    """A table that fits into so many columns of a terminal: figures side by side if they can be, else one above the
    other.

    Parameters
    ----------
    title : str
    texts : heads of the columns of text, which stand left; the first is folded where room is short.
    groups : heads of the figures.
    rows : for each row its texts and its figures, in the order of the heads.
    width : int
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
