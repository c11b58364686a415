"""Scores of each class, and the confusion matrix, as tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..classes import ClassScores

if TYPE_CHECKING:
    from rich.table import Table

#: Most classes of a printed matrix; more are wider than a terminal.
MOST = 20
#: title of a confusion matrix
CONFUSION = "Confusion: rows are what samples are, columns what they were taken for"


def score_table(scores: ClassScores, title: str) -> Table:
    """Table of class scores, with a row for each class: precision, recall, F1 and number of samples."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("class", no_wrap=True)
    for head in ("precision", "recall", "F1", "samples"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, precision, recall, f1, support in zip(
        scores.names, scores.precision, scores.recall, scores.f1, scores.support, strict=True
    ):
        table.add_row(Text(name), *(f"{100 * share:.1f} %" for share in (precision, recall, f1)), f"{support:,}")
    return table


def confusion_table(scores: ClassScores) -> Table | None:
    """Table of the confusion matrix without its title, which is wider: a row for each true class, a column for each
    predicted class; None for more than `MOST` classes.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if len(scores.names) > MOST:
        return None
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    cells = [[f"{count:,}" if count else "" for count in row] for row in scores.confusion]
    letters = max(4, 60 // len(scores.names) - 1)  # of a head, so that a terminal of 80 columns has room for all
    for c, name in enumerate(scores.names):
        widest = max(letters, *(len(row[c]) for row in cells))
        table.add_column(Text(name[:widest]), justify="right", no_wrap=True)
    for c, (name, row) in enumerate(zip(scores.names, cells, strict=True)):
        table.add_row(Text(name), *(Text(cell, "bold" if other == c else "") for other, cell in enumerate(row)))
    return table
