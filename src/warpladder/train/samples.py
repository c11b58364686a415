"""Conversion of a caller's samples and labels to arrays that trainers take."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from ..checkpoint import DataMark
from ..data.columns import in_order, is_data_frame
from ..data.convert import nhwc_hint, to_numpy
from ..data.dataset import Dataset, binary_targets
from ..data.encoded import Encoded, is_encoded
from ..data.labels import is_text, label_array, numbered
from ..data.standard import Standard
from ..data.tables.encoding import TableEncoding
from ..data.tables.load import learnt_of, read_frame, samples_of
from ..errors import ArgumentError, DataError
from ..errors.arguments import kind_of, listed, shown
from ..errors.warning import warn
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, Net


def as_samples(values: Any, net: Net, mark: DataMark) -> np.ndarray:
    """Samples (samples, *in_shape) uint8 or float32, C-contiguous.

    values : (samples, *in_shape), (samples, features), or for one channel (samples, height, width); if the net was
    trained on a table, a data frame, the path of a table, or an array of its data set.
    mark : identity of the training data; the values must have its units.
    Raises DataError: the values have another shape or other units, or are not finite in float32.
    """
    if isinstance(values, Dataset):
        raise ArgumentError("x wants an array of samples, got a Dataset: give data.test_x")
    if mark.table is not None:
        values = _rows_encoded(values, mark.table, net)
    x = _shaped(to_numpy(in_order(values, mark.columns, "x"), "x"), net)
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x)
    if x.dtype.kind not in "iufb" and x.dtype != object:
        raise DataError(f"x must hold numbers, got {x.dtype}")
    try:
        with np.errstate(over="ignore"):
            x = np.ascontiguousarray(x, np.float32)
    except (TypeError, ValueError):
        raise DataError("x must hold numbers, got objects that are none") from None
    finite = np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
    if not finite.all():
        sample = int(np.argmin(finite))
        odd = x[sample][~np.isfinite(x[sample])].flat[0]
        raise DataError(f"x holds {odd} in sample {sample}, as float32 has it: clean it first")
    if _prescaled(x, mark):
        raise DataError(
            f"x lies between {x.min():g} and {x.max():g}, but net {net.name!r} was trained on whole numbers "
            f"times {mark.scale:.4g}: "
            "give them as they were, before scaling"
        )
    return x


def mark_of(net: Net, scale: Any, classes: Any) -> DataMark:
    """Identity of unknown training data. scale : factor of its samples; classes : names of the net's outputs, sorted.

    Raises `DataError` if the scale is no finite number above 0, or the names do not fit the net.
    """
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < float("inf"):
        raise DataError(f"scale must be a finite number above 0, got {shown(scale)}")
    names = tuple(map(str, classes))
    outputs = net.out_shape[0] if isinstance(net.loss, CrossEntropyLoss) else 0
    if names and (len(names) != outputs or list(names) != sorted(set(names))):
        raise DataError(
            f"classes wants {outputs} different names in sorted order, one for each output of net "
            f"{net.name!r}, got {len(names)}"
        )
    return DataMark("none", 0, float(scale), {}, names)


def _rows_encoded(values: Any, encoding: TableEncoding, net: Net) -> Any:
    """Encoded rows of a table, or an array of its data set as it is. Raises `DataError` for other arrays, whose numbers
    may be raw or encoded.
    """
    if _is_table(values):
        return samples_of(values, encoding)
    if is_encoded(values, encoding):
        return values
    names = listed(column.name for column in encoding.columns)
    given = "samples of another data set" if isinstance(values, Encoded) else kind_of(values)
    raise DataError(
        f"net {net.name!r} was trained on a table, got {given}: give a data frame with columns {names}, or "
        "its data set's own array, as data.test_x"
    )


def _is_table(values: Any) -> bool:
    return is_data_frame(values) or isinstance(values, (str, os.PathLike))


def learnt_in(values: Any, mark: DataMark) -> Any:
    """Labels or targets that stand in a table next to its samples; None if the values are no table, or lack them."""
    if mark.table is None or not _is_table(values):
        return None
    return learnt_of(read_frame(values), mark.table.learnt, bool(mark.table.targets))


def as_labels(y: Any, samples: int, net: Net, mark: DataMark, classes: np.ndarray) -> np.ndarray:
    """Labels (samples,) as indices of the net's outputs, from entries of `classes` or the data set's own numbers.

    Raises DataError: labels are missing, their number is wrong, or the net has no output for one.
    """
    if y is None:
        raise DataError(f"net {net.name!r}: scoring needs labels")
    labels = label_array(y, "y")
    if len(labels) != samples:
        raise DataError(f"there are {samples:,} samples, but {len(labels):,} labels")
    numbers = _numbered(y, labels, mark)
    if numbers.dtype.kind not in "iuf" or not (numbers == np.floor(numbers)).all():
        raise DataError(f"y holds {labels.dtype} where labels are wanted: {listed(classes)}")
    if not (numbers.min() >= 0 and numbers.max() < net.out_shape[0]):
        raise DataError(
            f"net {net.name!r} has {net.out_shape[0]} outputs, y has labels {numbers.min()} to {numbers.max()}"
        )
    return numbers


def binary_numbers(y: Any, mark: DataMark) -> Any:
    """Labels of two classes (samples,) as numbers 0 and 1, (samples, 1) float32; None stays.

    Raises DataError: a label is neither of the classes.
    """
    if y is None:
        return None
    return np.asarray(_numbered(y, label_array(np.ravel(y), "y"), mark), np.float32).reshape(-1, 1)


def _numbered(y: Any, labels: np.ndarray, mark: DataMark) -> np.ndarray:
    """Class numbers of labels (samples,) that a user gave as y: entries of the classes, or the data set's own array.

    Raises DataError: a label is none of the classes, or they have names and the labels are numbers of another source.
    """
    if is_encoded(y, mark.table or mark.class_names):
        return labels
    if mark.class_names and isinstance(mark.class_names[0], str) and len(labels) and not is_text(labels):
        raise DataError(
            f"y holds numbers, {shown(labels[0].item())} first, where the classes have names: give "
            f"{listed(mark.class_names)}; of class numbers the names are run.classes_[y]"
        )
    return numbered(labels, mark.class_names, "y")


def _shaped(x: np.ndarray, net: Net) -> np.ndarray:
    wanted, features = net.in_shape, math.prod(net.in_shape)
    if x.ndim > 0 and (
        x.shape[1:] == wanted
        or x.shape[1:] == (features,)
        or (len(wanted) == 3 and wanted[0] == 1 and x.shape[1:] == wanted[1:])
    ):
        return x.reshape(len(x), *wanted)
    hint = nhwc_hint(x.shape, wanted)
    if x.shape == wanted or x.shape == (features,):
        hint = ", looks like a single sample: give x[None]"
    raise DataError(f"x has shape {x.shape}, net {net.name!r} takes (n, {', '.join(map(str, wanted))}){hint}")


def _prescaled(x: np.ndarray, mark: DataMark) -> bool:
    """True if samples look like fractions from -1 to 1, although the net was trained on whole numbers with a scale."""
    whole = mark.parts.get("train_x", "").startswith("uint8") and mark.scale < 0.5 and not mark.mean
    return whole and x.size > 0 and np.abs(x).max() <= 4 and not (x == np.floor(x)).all()


def fitted(data: Dataset, net: Net, mark: DataMark) -> Dataset:
    """Data set as a trained net sees it: standardised and with numbered labels like its training data `mark`.

    Raises DataError: a label is none of the net's classes. Warns of numbers where the classes have names.
    """
    if (mark.class_names or data.class_names) and not data.has_targets and not mark.has_targets:
        names = np.array(data.class_names)
        if not len(names) and isinstance(mark.class_names[0], str) and data.train_y is not None:
            first = ", ".join(f"{number} as {shown(name)}" for number, name in enumerate(mark.class_names[:3]))
            warn(
                f"{data.name}: its labels are numbers where the net's classes have names: they are taken as the "
                f"classes' numbers, {first}{', ...' if len(mark.class_names) > 3 else ''}"
            )
        labels = {
            part: numbered(names[y] if len(names) else y, mark.class_names, f"{data.name}: {part[:-2]} labels")
            for part in ("test_y", "valid_y", "train_y")
            if (y := getattr(data, part)) is not None
        }
        whole = {part: y.astype(np.int32) for part, y in labels.items()}
        data = data.but(class_names=mark.class_names, **whole)
    data = binary_targets(data) if isinstance(net.loss, BCEWithLogitsLoss) else data
    return data.but(standard=Standard(mark.mean, mark.std) if mark.mean else None).standardized()


def of_outputs(data: Dataset, net: Net) -> Dataset:
    """Data set whose labels are the numbers of outputs, where they are whole numbers below the number of outputs and
    the net has more outputs than there are classes, as in PyTorch; any other data set unchanged.

    Labels 0, 2 and 4 are the outputs 0, 1 and 2 of a net with three outputs, and 0, 2 and 4 of a net with ten.
    """
    outputs, classes = net.out_shape[0], data.class_names
    values = [value for value in classes if isinstance(value, int) and not isinstance(value, bool)]
    if data.has_targets or not values or len(values) < len(classes) or len(values) >= outputs:
        return data
    if min(values) < 0 or max(values) >= outputs:
        return data
    numbers = np.array(values, np.int32)
    parts = {part: getattr(data, part) for part in ("train_y", "valid_y", "test_y")}
    return data.but(class_names=(), **{part: numbers[y] for part, y in parts.items() if y is not None})
