"""Conversion of labels of any kind to class numbers: names, bytes, bool, whole numbers, floats. The classes are the
sorted distinct values of the training labels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from ..errors import DataError
from ..errors.arguments import kind_of, listed, shown
from ..errors.warning import warn
from .convert import to_numpy
from .encoded import encoded

#: User's value for a class.
ClassValue = str | bool | int | float
#: Pattern of a text that is a date or a time.
_MONTH = "(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*[.,]?"
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}.*|\d{1,2}[-./]\d{1,2}[-./]\d{2,4}.*|\d{1,2}:\d{2}(:.*)?( ?[ap]\.?m\.?)?"
    rf"|([a-z]+\.?,? )?\d{{1,2}}(st|nd|rd|th|\.)?[ -]?{_MONTH}[ -]\d{{2,4}}.*"
    rf"|([a-z]+\.?,? )?{_MONTH} \d{{1,2}}(st|nd|rd|th)?,? \d{{4}}.*",
    re.IGNORECASE,
)


def is_text(labels: np.ndarray) -> bool:
    """True if labels are names: strings, in an array of strings or of objects."""
    return labels.dtype.kind == "U" or (
        labels.dtype == object and labels.size > 0 and all(isinstance(label, str) for label in labels.flat)
    )


def names_in(labels: np.ndarray) -> tuple[str, ...]:
    """Distinct names in labels (samples,), sorted as by `numpy.unique`; empty for labels that are numbers."""
    if not is_text(labels):
        return ()
    return tuple(np.unique(labels.astype(str)).tolist())


def label_array(values: Any, what: str) -> np.ndarray:
    """Labels (samples,) as an array of names (U), bool, int64 or float64; a column (samples, 1) is flattened.

    Parameters
    ----------
    values : array_like
        Labels; bytes are read as UTF-8.
    what : str
        Name in error messages.

    Raises
    ------
    DataError
        A sample has several labels, a label is missing, or names and numbers are mixed.
    """
    plain = list(values) if isinstance(values, (list, tuple)) else None
    found = to_numpy(values, what)
    if plain and found.dtype.kind == "U" and not all(isinstance(each, str) for each in plain):
        found = np.array(plain, object)  # NumPy has converted numbers to names
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        hint = ": give class numbers, not one-hot rows" if found.ndim == 2 else ""
        raise DataError(f"{what} must have shape (samples,), got {found.shape}{hint}")
    if found.dtype.kind in "ST":  # bytes, or NumPy's strings of any length
        found = found.astype(object)
    if found.dtype == object:
        found = _from_objects(found, what)
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        at = int(np.argmin(np.isfinite(found)))
        raise DataError(f"{what}: the label of sample {at} is {found[at]}: leave out the samples without a label")
    if found.dtype.kind not in "Ubiuf" and found.size:
        dates = ": of dates make numbers, and give them as targets" if found.dtype.kind in "mM" else ""
        raise DataError(f"{what} must be names or numbers, got {found.dtype}{dates}")
    return found


def _from_objects(found: np.ndarray, what: str) -> np.ndarray:
    """Labels of an array of objects, as an array of their own type."""
    each = [label.decode("utf-8", "replace") if isinstance(label, bytes) else label for label in found.tolist()]
    for at, label in enumerate(each):
        if isinstance(label, date | time | timedelta) and label == label:
            raise DataError(
                f"{what}: the label of sample {at} is {kind_of(label)}: of dates make numbers, and give them as targets"
            )
        if not (isinstance(label, (str, bool, int, float, np.generic)) and label == label):
            is_gap = label is None or type(label).__name__ == "NAType" or isinstance(label, float | np.generic)
            todo = "leave out the samples without a label" if is_gap else "labels are names, whole numbers or bool"
            raise DataError(f"{what}: the label of sample {at} is {shown(label)}: {todo}")
    text = [isinstance(label, str) for label in each]
    if any(text) and not all(text):
        name, number = each[text.index(True)], each[text.index(False)]
        raise DataError(f"{what} mix names and numbers, {shown(name)} and {shown(number)}: give all in one type")
    return np.array(each) if each else found


def warn_of_dates(classes: Sequence[ClassValue], what: str) -> None:
    """Warn of classes that are dates or times, each of which is a class by itself."""
    if classes and all(isinstance(each, str) and DATE.fullmatch(each) for each in classes):
        warn(
            f"{what} are dates or times, {shown(classes[0])} first, and each of them a class by itself: to predict a "
            "time make numbers of them, such as days since a date, and give these as targets"
        )


def classes_of(labels: np.ndarray, others: Sequence[np.ndarray] = ()) -> tuple[ClassValue, ...]:
    """Classes of training labels: their sorted distinct values, as Python objects; empty for whole numbers that already
    count classes from 0.

    Parameters
    ----------
    labels : ndarray
        Labels (samples,) from `label_array`.
    others : sequence of ndarray
        Labels of the other parts. Whole numbers count classes if all parts together have every number from 0.
    """
    values = np.unique(labels)
    if values.dtype.kind in "iu":
        every = np.unique(np.concatenate([values, *(each for each in others if each.dtype.kind in "iu")]))
        if np.array_equal(every, np.arange(len(every))):
            return ()
    return tuple(values.tolist())


def numbered(labels: np.ndarray, classes: Sequence[ClassValue], what: str) -> np.ndarray:
    """Class numbers of labels.

    Parameters
    ----------
    labels : ndarray
        Entries of `classes`, (samples,). Numbers are unchanged if classes are empty or names.
    classes : sequence
        Sorted: a label's number is its index. Empty if labels are numbers.
    what : str
        Name of the labels in error messages.

    Returns
    -------
    ndarray
        (samples,) int32, or the given numbers.

    Raises
    ------
    DataError
        A label is none of the classes.
    """
    labels = label_array(labels, what)
    if not classes:
        if not is_text(labels):
            return labels
        raise DataError(
            f"{what} are names, {shown(str(labels[0]))} first, but the classes are numbers: give whole numbers from 0"
        )
    text = isinstance(classes[0], str)
    if text and not is_text(labels):
        return labels
    if is_text(labels) != text:
        raise DataError(f"{what} are names, {shown(str(labels[0]))} first, but the classes are numbers")
    given, known = (labels.astype(str) if text else labels), np.asarray(classes)
    index = np.minimum(np.searchsorted(known, given), len(known) - 1)
    unknown = known[index] != given
    if unknown.any():
        at = int(np.argmax(unknown))
        raise DataError(
            f"{what}: {shown(given[at].item())}, the label of sample {at}, is none of the classes {listed(classes)}"
        )
    return index.astype(np.int32)


def numbered_parts(name: str, given: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], tuple[ClassValue, ...]]:
    """Class numbers of the labels of each labelled part of a data set, and the classes.

    given : labels by part, "train" first; None for a part without labels.
    """
    found = {part: label_array(y, f"{name}: {part} labels") for part, y in given.items() if y is not None}
    if "train" not in found:
        return found, ()
    train = found["train"]
    if train.dtype.kind == "f" and not (train == np.floor(train)).all():
        raise DataError(
            f"{name}: train labels must be whole numbers or names, got {train[train != np.floor(train)][0]:g}: "
            "targets of a regression are given with targets=True"
        )
    if odd := [part for part, y in found.items() if y.size and is_text(y) != is_text(train)]:
        kinds = ("names", "numbers") if is_text(train) else ("numbers", "names")
        raise DataError(f"{name}: train labels are {kinds[0]}, {odd[0]} labels are {kinds[1]}")
    classes = classes_of(train, [y for part, y in found.items() if part != "train"])
    warn_of_dates(classes, f"{name}: train labels")
    numbers = {part: numbered(y, classes, f"{name}: {part} labels") for part, y in found.items()}
    return {part: encoded(y, classes) if classes else y for part, y in numbers.items()}, classes


def unknown_classes(classes: Sequence[Any], most: int) -> str | None:
    """Reason why a list cannot be the classes of a net with `most` outputs; None if it can."""
    kinds = {type(value) for value in classes}
    finite = all(math.isfinite(value) for value in classes if isinstance(value, float))
    if len(kinds) > 1 or not kinds <= {str, bool, int, float} or not finite:
        return "its classes are not all names or all numbers of one type"
    if len(classes) > most or sorted(set(classes)) != list(classes):
        return f"has names of {len(classes)} classes that do not fit a net of {most} outputs"
    return None
