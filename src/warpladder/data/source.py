"""`Source`: a data set that can be loaded by name, and what its loader is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .dataset import Dataset
from .fetch import Remote


@dataclass(frozen=True)
class Request:
    """What a loader is asked.

    Parameters
    ----------
    root : Path or None
        A folder of files at hand.
    explicit : bool
        The folder was named for this call: what it lacks is an error, not a reason to download.
    progress : bool
        Show the progress of downloads on stderr.
    shape : tuple of int or None
        Shape of one sample, where the files do not say it.
    numbers : bool
        Samples are features in any finite numbers, to be standardised: a table then is no picture.
    """

    root: Path | None = None
    explicit: bool = False
    progress: bool = True
    shape: tuple[int, ...] | None = None
    numbers: bool = False


@dataclass(frozen=True)
class Source:
    """A data set: its name, a line about it, its loader, and the files that are downloaded for it, if any.

    label_names : what its authors call class 0, 1, ..., for tables; labels stay numbers. Empty where classes are their
    numbers.
    """

    name: str
    about: str
    load: Callable[[Request], Dataset]
    remotes: tuple[Remote, ...] = ()
    takes_shape: bool = False
    label_names: tuple[str, ...] = ()
