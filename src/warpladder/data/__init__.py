"""Data sets: `load` by name or from a file, `arrays` from memory.

It imports errors, files and show. Begin with dataset.py; each set is a `Source` (source.py) and an entry of `SOURCES`.
order.py has the shuffled order of samples that every rung follows. tables/ reads tables of columns with a label or
targets, and has the messages about them; csv.py reads tables of pixels.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import DataError
from ..errors.arguments import called_by_name, meant, shown, wanted
from . import cifar10, csv, digits, mnist
from .arrays import arrays
from .csv import write_submission
from .dataset import Dataset, pixels
from .fetch import fetch_all
from .folders import other_set, read_folder
from .local import root
from .npz import read_npz
from .reader import opened, path_of
from .sniff import looks_like
from .source import Request, Source, read_source
from .standard import Standard
from .subset import split
from .tables.load import is_table, table

SOURCES: tuple[Source, ...] = (digits.SOURCE, mnist.MNIST, mnist.FASHION, cifar10.SOURCE, csv.SOURCE)
NAMES: tuple[str, ...] = tuple(source.name for source in SOURCES)

__all__ = [
    "NAMES", "SOURCES", "Dataset", "Request", "Source", "Standard",
    "arrays", "download", "label_names", "load", "pixels", "split", "table", "write_submission",
]  # fmt: skip


@called_by_name
def load(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    validation: int = 0,
    seed: int = 0,
    progress: bool = True,
    shape: tuple[int, ...] | None = None,
    standardize: bool = False,
    label: str | None = None,
) -> Dataset:
    """Load a data set: from local files, else from the cache, else by download.

    Parameters
    ----------
    name : str
        One of `NAMES`; the file of a table, for which `table` has more options; an .npz file with x_train, y_train,
        x_test and y_test; a folder with one folder of images for each class; or a Python file that defines a `SOURCE`,
        for instance "./mine.py".
    data_dir : path or None
        Folder of the files, gzipped or not, in any usual layout; missing files are an error. None takes the
        folder in the variable WARPLADDER_DATA, if set, else downloads.
    limit : int or None
        Number of training rows to keep, drawn by the seed.
    validation : int
        Number of training rows to split off as a validation set, drawn by the seed, before the limit.
    seed : int
    progress : bool
        Show the progress of downloads on stderr.
    shape : tuple of int or None
        Shape of one sample, for csv only.
    standardize : bool
        True trains on (x - mean) / std, with mean and std of each feature or image channel over the training rows.
        Cells of a csv may then be any finite numbers. A checkpoint stores mean and std, so that predictions take raw
        samples.
    label : str or None
        Heading of the column with the labels, for csv and tables only.

    Raises
    ------
    DataError
        Files are missing, damaged or of the wrong kind. The message is one line and names the remedy.
    """
    wanted("name", name, (str, os.PathLike), "the name of a data set, or the path of a file or folder")
    path_of(name)  # which refuses an address
    if is_table(str(name)):
        if data_dir is not None or shape is not None or standardize:
            raise DataError(f"{name}: a table is loaded by its path alone: leave out data_dir, shape and standardize")
        return table(name, label, validation=validation or None, limit=limit, seed=seed)
    if str(name).lower().endswith(".npz") or os.path.isdir(str(name)):
        if data_dir is not None or shape is not None or label is not None:
            if os.path.isdir(name) and (instead := other_set(Path(name))):
                raise DataError(f"{name}: {instead}")
            raise DataError(f"{name}: is loaded by its path alone: leave out data_dir, shape and label")
        found = read_folder(name, seed) if os.path.isdir(name) else read_npz(name)
        return _standardised(split(found, limit=limit, validation=validation, seed=seed), standardize)
    source = _source(name)
    if source is None:
        near = meant(name, NAMES, 3)
        if os.path.isfile(f"{name}.py"):
            near = f": did you mean the file, ./{name}.py?"
        if os.path.isfile(name):
            with opened(Path(name)) as reader:
                kind = looks_like(head := reader.peek(300))
            first = head[:100].partition(b"\0")[0].decode("utf-8", "replace")  # entry of a tar archive
            if clause := cifar10.known(first if kind == "a tar archive" else Path(name).name):
                raise DataError(f"{name}: {clause}")
            raise DataError(
                f"{name}: looks like {kind}{' (unpack it first)' * kind.startswith('a tar')}; the file of a data set "
                "ends in .csv, .tsv, .txt (tables, gzipped or not), .npz or .py, and images are a folder with one for "
                "each class"
            )
        if clause := cifar10.known(str(name)):
            near = f", for that {clause}" if "100" in clause else near
        raise DataError(f"there is no data set {shown(name)}{near}; there are {', '.join(NAMES)}")
    if shape is not None and not (isinstance(shape, (tuple, list)) and all(isinstance(side, int) for side in shape)):
        raise DataError(f"{name}: shape wants whole numbers such as (3, 32, 32), got {shown(shape)}")
    if shape is not None and not source.takes_shape:
        raise DataError(f"{name}: the shape of its samples is known, so none can be stated")
    if label is not None and not source.takes_shape:
        raise DataError(f"{name}: its labels are known, so no column can be named")
    folder = root(data_dir) if name != "digits" else None
    dataset = source.load(Request(folder, data_dir is not None, progress, shape, standardize, label))
    return _standardised(split(dataset, limit=limit, validation=validation, seed=seed), standardize)


def _standardised(data: Dataset, standardize: bool) -> Dataset:
    return data.but(standard=Standard.fit(data.train_x)) if standardize else data


def label_names(dataset: Dataset) -> tuple[str, ...]:
    """Names of classes 0, 1, ... for tables: the data set's own, else the names given by its authors; empty if
    neither exist.
    """
    source = next((source for source in SOURCES if source.name == dataset.name), None)
    return tuple(map(str, dataset.class_names)) or (() if source is None else source.label_names)


@called_by_name
def download(name: str, data_dir: str | os.PathLike[str] | None = None, *, progress: bool = True) -> list[Path]:
    """Download the missing and damaged files of a data set, for use without a network. Every checksum is verified.

    Parameters
    ----------
    name : str
        Name of a data set with downloads.
    data_dir : path or None
        Parent of the folder for the files, created if missing: `load` finds them by the same `data_dir`, also in
        a copy on another machine. None is the user's cache folder.
    progress : bool
        Show the progress of downloads on stderr.

    Returns
    -------
    list of Path
        Paths of the files.

    Raises
    ------
    DataError
        The set needs no download, no mirror serves a file, or the folder cannot be written.
    """
    source = _source(name)
    if source is None:
        served = ", ".join(source.name for source in SOURCES if source.remotes)
        raise DataError(f"there is no data set {name!r} to fetch; there are {served}")
    if not source.remotes:
        raise DataError(
            f"{name}: {'comes with scikit-learn' if name == 'digits' else 'these are files of your own'}: "
            "there is nothing to fetch"
        )
    folder = None if data_dir is None else Path(data_dir).expanduser() / source.name
    return fetch_all(source.name, source.remotes, folder=folder, progress=progress)


def _source(name: str | os.PathLike[str]) -> Source | None:
    """Data set of a name or file; None if the name is unknown."""
    if str(name).endswith(".py"):
        return read_source(name, NAMES)
    return next((source for source in SOURCES if source.name == name), None)
