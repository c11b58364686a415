"""Data set csv: tables of pixels in the format of Kaggle's digit-recognizer, or of features; and the file of
predictions.

The label, a whole number or a name, is the first column of train.csv. test.csv has the same columns, or no label.
"""

from __future__ import annotations

import csv
import io
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..errors.arguments import listed, shown
from ..files.atomic import write_atomically
from .columns import LABELS
from .dataset import Dataset
from .labels import is_text, numbered_parts
from .local import archives, find_all
from .reader import opened
from .source import Request, Source
from .tables.numeric import CsvTable, FindLabel, read_table

FOLDERS = ("digit-recognizer", "csv", ".")
_NAMES = (
    ("train.csv", "mnist_train.csv", "fashion-mnist_train.csv"),
    ("test.csv", "mnist_test.csv", "fashion-mnist_test.csv"),
)
_LIMIT = 2**32  # bytes of text, unpacked
_LARGEST_LABEL = 2**53  # float64 represents it exactly


def load(request: Request) -> Dataset:
    """Load train.csv and test.csv of a folder as uint8 images. The folder is required: the set has no download."""
    if request.root is None:
        raise DataError(
            "csv: there is no download: "
            "give the folder that holds train.csv and test.csv with --data-dir or WARPLADDER_DATA"
        )
    paths = find_all(request.root, FOLDERS, _NAMES)
    if paths is None:
        raise DataError(
            f"{request.root}: holds no train.csv and test.csv (plain or .gz), nor does digit-recognizer or csv below it"
            f"{archives(request.root)}"
        )
    train, test = paths
    return read(train, test, request.shape, request.numbers, request.label)


def read(
    train: Path, test: Path, shape: tuple[int, ...] | None = None, numbers: bool = False, label: str | None = None
) -> Dataset:
    """Read a labelled training table and a test table, labelled or not.

    Parameters
    ----------
    train, test : Path
        Cells are whole numbers 0 to 255. A first line is a header if its first cell is no number. Labels may be names.
        Columns of the test table are found by their headings if both tables have some.
    shape : tuple of int or None
        Shape of one sample: (features,) or (channels, height, width). None makes square images
        (1, side, side) if the number of pixels in a row is a square, else (features,).
    numbers : bool
        True if cells are features of any finite numbers: float32 of scale 1, and no images unless shape is given.
    label : str or None
        Heading of the column with the labels. None takes the first column if it has names, no heading, or a
        heading that means label.
    """
    train_table = _label_first(train, _table(train, numbers, lambda header, _: _label_at(header, label) or 0), label)
    features = train_table.columns - 1
    if features < 1:
        raise DataError(f"{train}: has a single column where a label and pixels are wanted")
    _check_label(train, train_table, label)
    shape = (features,) if numbers and shape is None else _shape(train, features, shape)

    def of_test(header: tuple[str, ...] | None, columns: int) -> int | None:
        """Column of the test table's labels; None without them."""
        if header is None or train_table.header is None:
            return 0 if columns == features + 1 else None
        return header.index(train_table.header[0]) if train_table.header[0] in header else None

    test_table = _same_columns(test, _label_first(test, _table(test, numbers, of_test), label), train_table)
    if test_table.columns not in (features, features + 1):
        raise DataError(
            f"{test}: has {test_table.columns} columns, {train} has {features + 1}: "
            "want as many, or one less without labels"
        )
    labelled = test_table.columns == features + 1
    if not labelled and test_table.names is not None:
        raise DataError(
            f"{test}: column 1 holds names, {shown(str(test_table.names[0]))} first, "
            f"where {features} columns of numbers are wanted"
        )

    def samples(table: CsvTable) -> np.ndarray:
        cells = table.cells[:, table.cells.shape[1] - features :]
        return np.ascontiguousarray(cells).reshape(len(cells), *shape)

    given = {"train": _labels(train, train_table), "test": _labels(test, test_table) if labelled else None}
    if labelled and (train_table.names is None) != (test_table.names is None):
        kinds = [f"names, {shown(str(table.names[0]))} first" if table.names is not None else "numbers"
                 for table in (test_table, train_table)]  # fmt: skip
        raise DataError(f"{test}: labels are {kinds[0]}, but in the training table they are {kinds[1]}")
    labels, classes = numbered_parts("csv", given)
    x, test_x, scale = samples(train_table), samples(test_table), 1.0 if numbers else 1 / 255
    return Dataset("csv", x, labels["train"], test_x, labels.get("test"), scale, class_names=classes)


def _labels(path: Path, table: CsvTable) -> np.ndarray:
    """Labels (rows,) from the first column: names or whole numbers."""
    if table.names is not None:
        return table.names
    assert table.labels is not None
    column = table.labels
    is_label = (np.abs(column) <= _LARGEST_LABEL) & (column == np.floor(column))
    if not is_label.all():
        odd = column[~is_label][0]
        raise DataError(
            f"{path}: the label column holds {odd:g}: labels are whole numbers, or names; numbers to "
            "predict are read with --data FILE.csv --target NAME"
        )
    return column.astype(np.int64)


def write_submission(path: str | os.PathLike[str], labels: np.ndarray) -> None:
    """Write predictions as Kaggle's ImageId,Label table, with ids from 1, atomically.

    Parameters
    ----------
    path : path
    labels : ndarray
        Labels (images,): whole numbers, or names of classes.
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


def _table(path: Path, numbers: bool, label: FindLabel) -> CsvTable:
    with opened(path, _LIMIT) as reader:
        return read_table(reader, names=True, numbers=numbers, label=label)


def _label_at(header: tuple[str, ...] | None, label: str | None) -> int | None:
    """Number of the column whose heading is requested or means label; None without one."""
    names = [name.lower() for name in header or ()]
    wanted = "label" if label is None else label.lower()
    return names.index(wanted) if wanted in names else None


def _label_first(path: Path, table: CsvTable, label: str | None) -> CsvTable:
    """Table with the column of labels moved to the front, if its heading is requested or means label."""
    if label is None and table.header is None:
        return table
    if table.header is None:
        raise DataError(f"{path}: has no headings, so no column can be called {shown(label)}")
    at = _label_at(table.header, label)
    if at is None:
        return table
    if at == 0 or table.names is not None:
        if at:
            raise DataError(
                f"{path}: column {at + 1} is the label, and column 1 holds text: give --data {path} --label "
                f"{table.header[at]}, which takes such tables"
            )
        return table
    order = [at, *(each for each in range(table.columns) if each != at)]
    return replace(table, header=tuple(table.header[each] for each in order), cells=table.cells[:, order])


def _check_label(path: Path, table: CsvTable, label: str | None) -> None:
    """Raise `DataError` if neither headings nor names show that the first column is the label."""
    if table.header is None or table.names is not None:
        return
    first, last = table.header[0], table.header[-1]
    if label is not None and first.lower() != label.lower():
        raise DataError(f"{path}: has no column {shown(label)}; it has {listed(table.header)!r}")
    if label is None and first.lower() not in LABELS:
        raise DataError(
            f"{path}: nothing says which column is the label, the first is {shown(first)}, the last {shown(last)}: "
            "name it, --label NAME, in Python label=NAME"
        )


def _same_columns(path: Path, table: CsvTable, train: CsvTable) -> CsvTable:
    """Test table with its columns in the order of the training table, by their headings."""
    if table.header is None or train.header is None or table.header == train.header:
        return table
    skipped = table.names is not None  # the first column is not among the cells
    if skipped and table.header[0] != train.header[0]:
        raise DataError(f"{path}: its first column is {shown(table.header[0])}, in training {shown(train.header[0])}")
    wanted = train.header if train.header[0] in table.header else train.header[1:]
    if sorted(wanted) != sorted(table.header):
        odd = [name for name in table.header if name not in train.header]
        lacks = [name for name in wanted if name not in table.header]
        raise DataError(
            f"{path}: its columns are not those of the training table: it lacks {listed(lacks)!r} "
            f"and has {listed(odd)!r}"
        )
    order = [table.header.index(name) - skipped for name in wanted[skipped:]]
    return replace(table, header=tuple(wanted), cells=table.cells[:, order])


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
