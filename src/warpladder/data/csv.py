"""Data set csv: tables of pixels in the form of Kaggle's digit-recognizer, or of features; and the file of predictions.

The label, a whole number or a name, is the first column of train.csv. test.csv has the same columns, or no label.
"""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..files.atomic import write_atomically
from .labels import ClassValue, classes_of, is_text, numbered
from .dataset import Dataset
from .local import find_all
from .reader import opened
from .source import Request, Source
from .table import CsvTable, read_table

FOLDERS = ("digit-recognizer", "csv", ".")
_NAMES = (
    ("train.csv", "mnist_train.csv", "fashion-mnist_train.csv"),
    ("test.csv", "mnist_test.csv", "fashion-mnist_test.csv"),
)
_LIMIT = 2**32  # bytes of text, unpacked
_MOST_CLASSES = 2**20


def load(request: Request) -> Dataset:
    """Load train.csv and test.csv of a folder as uint8 images. The folder must be named: there is no download."""
    if request.root is None:
        raise DataError(
            "csv: there is no download: "
            "give the folder that holds train.csv and test.csv with --data-dir or WARPLADDER_DATA"
        )
    paths = find_all(request.root, FOLDERS, _NAMES)
    if paths is None:
        raise DataError(
            f"{request.root}: holds no train.csv and test.csv (plain or .gz), nor does digit-recognizer or csv below it"
        )
    train, test = paths
    return read(train, test, request.shape, request.numbers)


def read(train: Path, test: Path, shape: tuple[int, ...] | None = None, numbers: bool = False) -> Dataset:
    """Read a labelled training table and a test table, labelled or not.

    Parameters
    ----------
    train, test : Path
        Cells are whole numbers 0 to 255. A first line is a header if its first cell is no number. Labels may be names.
    shape : tuple of int or None
        Shape of one sample: (features,) or (channels, height, width). None makes square images
        (1, side, side) where the pixels of a row allow it, and (features,) otherwise.
    numbers : bool
        True if cells are features of any finite numbers: float32 of scale 1, and no pictures unless shape is given.
    """
    train_table = _table(train, numbers)
    features = train_table.columns - 1
    if features < 1:
        raise DataError(f"{train}: has a single column where a label and pixels are wanted")
    _check_label_first(train, train_table)
    shape = (features,) if numbers and shape is None else _shape(train, features, shape)
    test_table = _table(test, numbers)
    if test_table.columns not in (features, features + 1):
        raise DataError(
            f"{test}: has {test_table.columns} columns, {train} has {features + 1}: "
            "want as many, or one less without labels"
        )
    labelled = test_table.columns == features + 1
    if labelled:
        _check_label_first(test, test_table)
    elif test_table.header and "label" in _lower(test_table.header):
        raise DataError(f"{test}: has a label and {test_table.columns - 1} pixels, but {train} has {features} pixels")
    elif test_table.names is not None:
        raise DataError(
            f"{test}: column 1 holds names, {str(test_table.names[0])!r:.40} first, "
            f"where {features} columns of numbers are wanted"
        )
    names = () if train_table.names is None else classes_of(train_table.names)

    def samples(table: CsvTable) -> np.ndarray:
        cells = table.cells[:, table.cells.shape[1] - features :]
        return np.ascontiguousarray(cells).reshape(len(cells), *shape)

    train_y = _labels(train, train_table, names)
    test_y = _labels(test, test_table, names) if labelled else None
    return Dataset(
        "csv",
        samples(train_table),
        train_y,
        samples(test_table),
        test_y,
        1.0 if numbers else 1 / 255,
        class_names=names,
    )


def _labels(path: Path, table: CsvTable, names: tuple[ClassValue, ...]) -> np.ndarray:
    """Labels (rows,) int32: the first column."""
    if table.names is not None:
        return numbered(table.names, names, f"{path}: labels")
    if names:
        raise DataError(
            f"{path}: labels are numbers, but in the training table they are names, {names[0]!r:.40} among them"
        )
    column = table.cells[:, 0]
    is_label = (column >= 0) & (column <= _MOST_CLASSES) & (column == np.floor(column))
    if not is_label.all():
        odd = column[~is_label][0]
        raise DataError(f"{path}: the first column is the label: whole numbers from 0, or names; it holds {odd:g}")
    return column.astype(np.int32)


def write_submission(path: str | os.PathLike[str], labels: np.ndarray) -> None:
    """Write Kaggle's ImageId,Label table, ids from 1, whole or not at all.

    Parameters
    ----------
    path : path
    labels : ndarray
        (images,) whole numbers, or names of classes.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or not (np.issubdtype(labels.dtype, np.integer) or is_text(labels)):
        raise DataError(
            f"{path}: a submission wants names or whole numbers of shape (images,), "
            f"got {labels.dtype} of shape {labels.shape}"
        )
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("ImageId", "Label"))
    table.writerows(enumerate(labels.tolist(), start=1))
    try:
        write_atomically(path, text.getvalue())
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from None


def _table(path: Path, numbers: bool) -> CsvTable:
    with opened(path, _LIMIT) as reader:
        return read_table(reader, names=True, numbers=numbers)


def _lower(header: tuple[str, ...]) -> list[str]:
    return [name.lower() for name in header]


def _check_label_first(path: Path, table: CsvTable) -> None:
    if table.header and "label" in _lower(table.header)[1:]:
        raise DataError(
            f"{path}: column {_lower(table.header).index('label') + 1} is the label where the first column is wanted"
        )


def _shape(path: Path, features: int, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    if shape is None:
        side = math.isqrt(features)
        return (1, side, side) if side * side == features else (features,)
    if len(shape) not in (1, 3) or min(shape) < 1 or math.prod(shape) != features:
        raise DataError(f"{path}: has {features} pixels a row, which do not make the stated shape {shape}")
    return tuple(shape)


SOURCE = Source(
    "csv", "train.csv and test.csv of a folder, label first (Kaggle digit-recognizer)", load, takes_shape=True
)
