"""Tables whose figures stand side by side where there is room, and one above the other where there is not: no terminal costs a digit."""

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
