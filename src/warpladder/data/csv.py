"""csv: tables of pixels as Kaggle's digit-recognizer has them, and the file of predictions it wants.

The label stands first in train.csv. test.csv has the same columns, or lacks the label.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from ..errors import DataError
from .dataset import Dataset
from .local import find_all
from .reader import opened
from .source import Request, Source
from .table import Table, read_table

FOLDERS = ("digit-recognizer", "csv", ".")
_NAMES = (("train.csv", "mnist_train.csv", "fashion-mnist_train.csv"), ("test.csv", "mnist_test.csv", "fashion-mnist_test.csv"))
_LIMIT = 2**32  # bytes of text, unpacked


def load(request: Request) -> Dataset:
    """train.csv and test.csv of a folder as uint8 images; the folder must be named, there is no download."""
    if request.root is None:
        raise DataError("csv: there is no download: give the folder that holds train.csv and test.csv with --data-dir or WARPLADDER_DATA")
    paths = find_all(request.root, FOLDERS, _NAMES)
    if paths is None:
        raise DataError(f"{request.root}: holds no train.csv and test.csv (plain or .gz), nor does digit-recognizer or csv below it")
    train, test = paths
    return read(train, test, request.shape)


def read(train: Path, test: Path, shape: tuple[int, ...] | None = None) -> Dataset:
    """Read a labelled training table and a test table, labelled or not.

    Parameters
    ----------
    train, test : Path
        Cells are whole numbers 0 to 255; a header is taken as such if its first cell is no number.
    shape : tuple of int or None
        Shape of one sample: (features,) or (channels, height, width). None makes square images
        (1, side, side) where the pixels of a row allow it, and (features,) otherwise.
    """
    train_table = _table(train)
    features = train_table.cells.shape[1] - 1
    if features < 1:
        raise DataError(f"{train}: has a single column where a label and pixels are wanted")
    _check_label_first(train, train_table)
    shape = _shape(train, features, shape)
    test_table = _table(test)
    columns = test_table.cells.shape[1]
    if columns not in (features, features + 1):
        raise DataError(f"{test}: has {columns} columns, {train} has {features + 1}: want as many, or one less without labels")
    labelled = columns == features + 1
    if labelled:
        _check_label_first(test, test_table)
    elif test_table.header and "label" in _lower(test_table.header):
        raise DataError(f"{test}: has a label and {columns - 1} pixels, but {train} has {features} pixels")

    def images(cells: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(cells).reshape(len(cells), *shape)

    def labels(cells: np.ndarray) -> np.ndarray:
        return cells[:, 0].astype(np.int32)

    train_x, train_y = images(train_table.cells[:, 1:]), labels(train_table.cells)
    test_x = images(test_table.cells[:, int(labelled) :])
    return Dataset("csv", train_x, train_y, test_x, labels(test_table.cells) if labelled else None, 1 / 255)


def write_submission(path: str | os.PathLike[str], labels: np.ndarray) -> None:
    """Write Kaggle's ImageId,Label table, ids from 1; the file appears whole or not at all.

    Parameters
    ----------
    path : path
    labels : ndarray
        (images,) whole numbers.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{path}: a submission wants whole numbers of shape (images,), got {labels.dtype} of shape {labels.shape}")
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "x", encoding="ascii", newline="\n") as file:
            file.write("ImageId,Label\n")
            file.writelines(f"{number},{label}\n" for number, label in enumerate(labels.tolist(), start=1))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror or error})") from None
    finally:
        draft.unlink(missing_ok=True)


def _table(path: Path) -> Table:
    with opened(path, _LIMIT) as reader:
        return read_table(reader)


def _lower(header: tuple[str, ...]) -> list[str]:
    return [name.lower() for name in header]


def _check_label_first(path: Path, table: Table) -> None:
    if table.header and "label" in _lower(table.header)[1:]:
        raise DataError(f"{path}: column {_lower(table.header).index('label') + 1} is the label where the first column is wanted")


def _shape(path: Path, features: int, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    if shape is None:
        side = math.isqrt(features)
        return (1, side, side) if side * side == features else (features,)
    if len(shape) not in (1, 3) or min(shape) < 1 or math.prod(shape) != features:
        raise DataError(f"{path}: has {features} pixels a row, which do not make the stated shape {shape}")
    return tuple(shape)


SOURCE = Source("csv", "train.csv and test.csv of a folder, label first (Kaggle digit-recognizer)", load, takes_shape=True)
