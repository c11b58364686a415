"""Representation of a climb in Python: as text, and as HTML in a notebook."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ...show import as_html
from .. import Results
from .table import table

if TYPE_CHECKING:
    from rich.console import RenderableType

LEAST_WIDTH = 80  # fewest columns without cut words


def as_plain(results: Results) -> str:
    """Table of a climb as plain text, as wide as the terminal, or 80 columns without one."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, color_system=None, highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    console.print(table(results))
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines())


def as_cell(results: Results) -> str:
    """Table of a climb as HTML, for a notebook's cell."""
    made = table(results)
    heads = [_words(column.header).replace("\n", " ") for column in made.columns]
    rows = list(zip(*([_words(cell) for cell in column.cells] for column in made.columns), strict=True))
    return as_html(_words(made.title or ""), heads, rows, below=_words(made.caption or ""))


def _words(cell: RenderableType) -> str:
    """Text of a cell without its style."""
    return str(getattr(cell, "plain", cell))
