"""Data sets: `load` by name, `arrays` from memory. A data set is one file here and one line in `SOURCES`."""

from __future__ import annotations

import os
from difflib import get_close_matches

from ..errors import DataError
from . import cifar10, csv, digits, fashion, mnist
from .arrays import arrays
from .csv import write_submission
from .dataset import Dataset, pixels
from .local import root
from .source import Request, Source
from .subset import split

SOURCES: tuple[Source, ...] = (digits.SOURCE, mnist.SOURCE, fashion.SOURCE, cifar10.SOURCE, csv.SOURCE)
NAMES: tuple[str, ...] = tuple(source.name for source in SOURCES)

__all__ = ["NAMES", "SOURCES", "Dataset", "Source", "arrays", "load", "pixels", "split", "write_submission"]


def load(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    validation: int = 0,
    seed: int = 0,
    progress: bool = True,
    shape: tuple[int, ...] | None = None,
) -> Dataset:
    """Load a data set: from files at hand, else from the cache, else by download.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_dir : path or None
        A folder that holds the files, gzipped or not, in any usual layout; it is an error if they are not
        there. None looks into the folder that WARPLADDER_DATA names, if any, before it downloads.
    limit : int or None
        Keep this many training rows, chosen by the seed.
    validation : int
        Split this many training rows off as a validation set, chosen by the seed, before the limit.
    seed : int
    progress : bool
        Show the progress of downloads on stderr.
    shape : tuple of int or None
        Shape of one sample, for csv only.

    Raises
    ------
    DataError
        Where files are missing, damaged or of the wrong kind; one line that says what to do.
    """
    source = next((source for source in SOURCES if source.name == name), None)
    if source is None:
        near = get_close_matches(str(name).lower(), NAMES)
        meant = f": did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"there is no data set {str(name)[:40]!r}{meant}; there are {', '.join(NAMES)}")
    if shape is not None and not source.takes_shape:
        raise DataError(f"{name}: the shape of its samples is known, so none can be stated")
    folder = root(data_dir) if name != "digits" else None
    dataset = source.load(Request(folder, data_dir is not None, progress, shape))
    return split(dataset, limit=limit, validation=validation, seed=seed)
