"""`warpladder data`: the data sets, or one of them: fetched, checked, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import console, dims

if TYPE_CHECKING:
    import numpy as np


@click.command()
@click.argument("name", required=False)
@click.option("--data-dir", metavar="DIR", type=click.Path(path_type=Path), help="Folder with the data set's files; nothing is downloaded.")
def data(name: str | None, data_dir: Path | None) -> None:
    """Show the data sets, or fetch and check one and say what is in it.

    \b
    Examples:
      warpladder data
      warpladder data mnist
      warpladder data csv --data-dir digit-recognizer
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..data import SOURCES, load

    if name is None:
        table = Table(box=SIMPLE_HEAD)
        table.add_column("name", no_wrap=True)
        table.add_column("what it is", ratio=1)
        table.add_column("comes from", no_wrap=True)
        for source in SOURCES:
            table.add_row(
                source.name, source.about, "download" if source.remote else "scikit-learn" if source.name == "digits" else "your files"
            )
        console().print(table)
        return
    found = load(name, data_dir=data_dir)
    table = Table(title=f"{name}: samples of {dims(found.in_shape)}, {found.classes} classes", box=SIMPLE_HEAD)
    table.add_column("part")
    for head in ("samples", "bytes"):
        table.add_column(head, justify="right")
    table.add_column("values", no_wrap=True)
    table.add_column("samples of each class", ratio=1)
    for part, x, y in (("train", found.train_x, found.train_y), ("test", found.test_x, found.test_y)):
        table.add_row(part, f"{len(x):,}", f"{x.nbytes:,}", _values(x), _counts(y, found.classes))
    console().print(table)


def _values(x: np.ndarray) -> str:
    return f"{x.dtype}, {x.min():g} to {x.max():g}" if x.size else str(x.dtype)


def _counts(y: np.ndarray | None, classes: int) -> str:
    import numpy as np

    return "no labels" if y is None else " ".join(map(str, np.bincount(y, minlength=classes)))
