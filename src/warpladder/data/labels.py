"""Labels: names of classes as numbers from 0, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DataError


def names_in(labels: np.ndarray) -> tuple[str, ...]:
    """The distinct names among labels (samples,) that are text, sorted as `numpy.unique` does; nothing where they are
    numbers.
    """
    if not is_text(labels):
        return ()
    return tuple(np.unique(labels.astype(str)).tolist())


def is_text(labels: np.ndarray) -> bool:
    """Whether labels are names: strings, in an array of strings or of objects."""
    return labels.dtype.kind == "U" or (
        labels.dtype == object and labels.size > 0 and all(isinstance(label, str) for label in labels.flat)
    )


def numbered(labels: np.ndarray, names: Sequence[str], what: str) -> np.ndarray:
    """Labels as numbers of classes.

    Parameters
    ----------
    labels : ndarray
        (samples,) names; numbers stay as they are.
    names : sequence of str
        The classes' names, sorted: a label's number is its name's place. Empty where classes have none.
    what : str
        What error messages call the labels.

    Returns
    -------
    ndarray
        (samples,) int32, or the numbers that were given.

    Raises
    ------
    DataError
        There is more than one label a sample, or a name that is none of these.
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
    place = np.minimum(np.searchsorted(np.asarray(names), text), len(names) - 1)
    unknown = np.asarray(names)[place] != text
    if unknown.any():
        at = int(np.argmax(unknown))
        raise DataError(
            f"{what}: {str(text[at])!r:.40}, the label of sample {at}, is none of the classes: {', '.join(names)!r:.200}"
        )
    return place.astype(np.int32)
