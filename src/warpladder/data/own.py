"""A data set from outside the package: a Python file of a user's that defines `SOURCE`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace

from ..errors import DataError
from ..files.python import call, run_file
from .dataset import Dataset
from .source import Request, Source


def source(path: str | os.PathLike[str], taken: Collection[str]) -> Source:
    """The data set that a file defines.

    Parameters
    ----------
    path : path
        Of a file that ends in .py.
    taken : collection of str
        Names that it may not have, since other data sets have them.

    Raises
    ------
    DataError
        One line with the file, the place in it and what is wrong; its `load` raises such a line too.
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
        raise DataError(f"{name}: SOURCE: name wants letters, digits, - and _, at most 40, got {found.name!r:.80}")
    if found.name in taken:
        raise DataError(
            f"{name}: SOURCE: the name {found.name!r} is that of a data set which 'warpladder data' shows: give this one its own"
        )

    def load(request: Request) -> Dataset:
        made = call(module, name, DataError, lambda: found.load(request))
        if not isinstance(made, Dataset):
            raise DataError(
                f"{name}: load of SOURCE wants to return a warpladder.Dataset, as warpladder.data.arrays makes it, got {type(made).__name__}"
            )
        return made.but(name=found.name)

    return replace(found, load=load)
