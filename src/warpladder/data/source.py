"""`Source`: a data set that is loaded by name, or from a user's Python file that defines `SOURCE`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import DataError
from ..errors.arguments import shown
from ..files.python import call, run_file
from .dataset import Dataset
from .fetch import Remote


@dataclass(frozen=True)
class Request:
    """Request to the loader of a data set.

    Parameters
    ----------
    root : Path or None
        Folder of local files.
    explicit : bool
        True if the folder was named for this call: missing files are then an error, and are not downloaded.
    progress : bool
        True shows the progress of downloads on stderr.
    shape : tuple of int or None
        Shape of one sample, if the files do not state it.
    numbers : bool
        True if samples are features of any finite numbers, to be standardised; a table's rows are then no images.
    label : str or None
        Heading of the column with the labels.
    """

    root: Path | None = None
    explicit: bool = False
    progress: bool = True
    shape: tuple[int, ...] | None = None
    numbers: bool = False
    label: str | None = None


@dataclass(frozen=True)
class Source:
    """Data set: name, a line about it, loader, and its downloads, if any.

    label_names : names of classes 0, 1, ... for tables; labels stay numbers. Empty if classes have no names.
    """

    name: str
    about: str
    load: Callable[[Request], Dataset]
    remotes: tuple[Remote, ...] = ()
    takes_shape: bool = False
    label_names: tuple[str, ...] = ()


def read_source(path: str | os.PathLike[str], taken: Collection[str]) -> Source:
    """Data set defined by a user's Python file.

    Parameters
    ----------
    path : path
        File that ends in .py.
    taken : collection of str
        Names of other data sets, which are refused.

    Raises
    ------
    DataError
        The file has an error; the message is one line with the file and the position. The set's `load` raises it too.
    """
    name = os.fspath(path)
    module = run_file(path, DataError)
    if not hasattr(module, "SOURCE"):
        raise DataError(
            f"{name}: defines no SOURCE: end it with SOURCE = Source(name, about, load), as docs/data.md shows"
        )
    found = module.SOURCE
    if not isinstance(found, Source):
        raise DataError(f"{name}: SOURCE wants to be a warpladder.data.Source, got {type(found).__name__}")
    if not isinstance(found.name, str) or not re.fullmatch(r"[\w.-]{1,40}", found.name):
        raise DataError(f"{name}: SOURCE: name wants letters, digits, - and _, at most 40, got {shown(found.name)}")
    if found.name in taken:
        raise DataError(
            f"{name}: SOURCE: the name {found.name!r} is that of a data set which 'warpladder data' shows: "
            "give this one its own"
        )

    def load(request: Request) -> Dataset:
        made = call(module, name, DataError, lambda: found.load(request))
        if not isinstance(made, Dataset):
            raise DataError(
                f"{name}: load of SOURCE wants to return a warpladder.Dataset, as warpladder.data.arrays makes it, "
                f"got {type(made).__name__}"
            )
        return made.but(name=found.name)

    return replace(found, load=load)
