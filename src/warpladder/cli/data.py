"""`warpladder data`: lists the data sets, checks one and shows its contents, or downloads some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import DataError
from ..show import dims
from .shared.console import console
from .shared.options import data_dir_option

if TYPE_CHECKING:
    import numpy as np


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--fetch", is_flag=True, help="Download the sets named, or 'all' of them, to have them without a network."
)
@data_dir_option("Folder with the data set's files, and nothing is downloaded; with --fetch, where they go.")
@click.option(
    "--scale-features",
    is_flag=True,
    help="Take cells of a csv that are any numbers, as training with this option does.",
)
@click.option("--label", metavar="NAME", help="Column of a table with the labels.")
def data(names: tuple[str, ...], fetch: bool, data_dir: Path | None, scale_features: bool, label: str | None) -> int:
    """Show the data sets; check one and show its contents; or download some for a machine without a network.

    \b
    Examples:
      warpladder data
      warpladder data mnist
      warpladder data csv --data-dir digit-recognizer
      warpladder data csv --data-dir measured --scale-features
      warpladder data bank.csv --label answer
      warpladder data --fetch all --data-dir class-data
    """
    if fetch:
        return _fetch(names, data_dir)
    if not names:
        _overview()
    for name in names:
        _details(name, data_dir, scale_features, label)
    return 0


def _overview() -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..data import SOURCES

    table = Table(box=SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", ratio=1)
    table.add_column("comes from", no_wrap=True)
    for source in SOURCES:
        whence = "download" if source.remotes else "scikit-learn" if source.name == "digits" else "your files"
        table.add_row(source.name, source.about, whence)
    console().print(table)


def _details(name: str, data_dir: Path | None, scale_features: bool, label: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..data import load

    found = load(name, data_dir=data_dir, standardize=scale_features, label=label)
    table = Table(title=f"{name}: samples of {dims(found.in_shape)}, {found.classes} classes", box=SIMPLE_HEAD)
    table.add_column("part")
    for head in ("samples", "bytes"):
        table.add_column(head, justify="right")
    table.add_column("values", no_wrap=True)
    table.add_column("samples of each class", ratio=1)
    parts = [("train", found.train_x, found.train_y), ("test", found.test_x, found.test_y)]
    if found.valid_x is not None:
        parts.insert(1, ("valid", found.valid_x, found.valid_y))
    for part, x, y in parts:
        table.add_row(part, f"{len(x):,}", f"{x.nbytes:,}", _values(x), _counts(y, found.classes))
    console().print(table)


def _fetch(names: tuple[str, ...], data_dir: Path | None) -> int:
    """Download one set after the other; a failure does not stop the others."""
    from ..data import SOURCES, download

    remote = [source.name for source in SOURCES if source.remotes]
    if not names:
        raise click.UsageError(f"--fetch wants names, of {', '.join(remote)}, or all", click.get_current_context())
    failed, folder = 0, None
    for name in dict.fromkeys(each for given in names for each in (remote if given == "all" else [given])):
        if name == "digits":
            click.echo("digits: comes with scikit-learn, there is nothing to fetch")
            continue
        try:
            paths = download(name, data_dir)
        except DataError as error:
            click.echo(f"warpladder: {error}", err=True)
            failed += 1
            continue
        size = sum(path.stat().st_size for path in paths)
        click.echo(
            f"{name}: {len(paths)} file{'s' * (len(paths) > 1)}, {size / 1e6:,.1f} MB, sums right, in {paths[0].parent}"
        )
        folder = paths[0].parent.parent
    if failed == 0 and folder is not None:
        click.echo(
            f"For a machine without a network: copy {folder} there, and name the copy with --data-dir or "
            "WARPLADDER_DATA"
        )
    return 2 if failed else 0


def _values(x: np.ndarray) -> str:
    return f"{x.dtype}, {x.min():g} to {x.max():g}" if x.size else str(x.dtype)


def _counts(y: np.ndarray | None, classes: int) -> str:
    import numpy as np

    return "no labels" if y is None else " ".join(map(str, np.bincount(y, minlength=classes)))
