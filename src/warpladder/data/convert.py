"""Conversion of a user's samples and labels: arrays of other libraries, the axis of channels, names of classes.

PyTorch's tensors, tables of pandas and lists are taken; none of these libraries is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError

#: Numbers of channels of pictures: grey, RGB, RGB with transparency.
CHANNELS = (1, 3, 4)


def to_numpy(values: Any, what: str) -> np.ndarray:
    """NumPy array of an array, a tensor (of any device, with or without a gradient), a data frame or nested lists.

    Parameters
    ----------
    values : array_like
    what : str
        Name in error messages.

    Raises
    ------
    DataError
        The values make no array: for instance rows of different lengths, or a sparse matrix.
    """
    if callable(getattr(values, "detach", None)) and callable(getattr(values, "cpu", None)):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # which NumPy lacks
            values = values.float()
    if callable(getattr(values, "toarray", None)):
        raise DataError(f"{what} is a sparse {type(values).__name__}: give {what}.toarray()")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise DataError(f"{what} cannot be made an array ({reason:.100}): give rows of one length") from None


def looks_nhwc(shape: tuple[int, ...]) -> bool:
    """True if (n, h, w, c) is a likelier reading of a shape than (n, c, h, w): few channels last, and not first."""
    return len(shape) == 4 and shape[3] in CHANNELS and shape[1] not in CHANNELS and shape[2] not in CHANNELS


def nhwc_hint(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Hint for an error message, if the shape of an array (n, ...) is that of wanted samples (channels, height, width)
    with the channels last; else "".
    """
    if len(shape) == 4 and len(wanted) == 3 and (shape[3], shape[1], shape[2]) == wanted:
        return ": looks like NHWC (n, h, w, c), give (n, c, h, w) by x.transpose(0, 3, 1, 2)"
    return ""


def names_in(labels: np.ndarray) -> tuple[str, ...]:
    """Distinct names among labels (samples,) that are text, sorted as by `numpy.unique`; empty for numbers."""
    if not is_text(labels):
        return ()
    return tuple(np.unique(labels.astype(str)).tolist())


def is_text(labels: np.ndarray) -> bool:
    """True if labels are names: strings, in an array of strings or of objects."""
    return labels.dtype.kind == "U" or (
        labels.dtype == object and labels.size > 0 and all(isinstance(label, str) for label in labels.flat)
    )


def numbered(labels: np.ndarray, names: Sequence[str], what: str) -> np.ndarray:
    """Labels as numbers of classes.

    Parameters
    ----------
    labels : ndarray
        (samples,) names, or numbers, which stay.
    names : sequence of str
        Names of classes, sorted: a label's number is the index of its name. Empty if classes are numbers.
    what : str
        Name of the labels in error messages.

    Returns
    -------
    ndarray
        (samples,) int32, or the given numbers.

    Raises
    ------
    DataError
        A sample has more than one label, or a name is unknown.
    """
    if labels.ndim != 1:
        hint = ": give class numbers, not one-hot rows" if labels.ndim == 2 else ""
        raise DataError(f"{what} must have shape (samples,), got {labels.shape}{hint}")
    if not is_text(labels):
        return labels
    if not names:
        raise DataError(
            f"{what} are names, {str(labels[0])!r:.40} first, but the classes are numbers: give whole numbers from 0"
        )
    text = labels.astype(str)
    index = np.minimum(np.searchsorted(np.asarray(names), text), len(names) - 1)
    unknown = np.asarray(names)[index] != text
    if unknown.any():
        at = int(np.argmax(unknown))
        raise DataError(
            f"{what}: {str(text[at])!r:.40}, the label of sample {at}, "
            f"is none of the classes: {', '.join(names)!r:.200}"
        )
    return index.astype(np.int32)
