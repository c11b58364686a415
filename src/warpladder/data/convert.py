"""Conversion of a user's arrays to NumPy arrays, and the check for channels in the last axis.

PyTorch's tensors, tables of pandas and lists are taken; none of these libraries is imported here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from ..errors.arguments import kind_of, shown

#: Numbers of channels of pictures: grey, RGB, RGB with transparency.
CHANNELS = (1, 3, 4)
_FILL = "fill it in, leave it out, or give a table to wl.data.table, which fills gaps"


def to_numpy(values: Any, what: str) -> np.ndarray:
    """NumPy array from an array, a tensor (of any device, with or without a gradient), a data frame or nested lists.

    Parameters
    ----------
    values : array_like
    what : str
        Name in error messages.

    Raises
    ------
    DataError
        The values form no array: for instance rows of different lengths, or a sparse matrix.
    """
    if getattr(values, "is_meta", False):
        raise DataError(f"{what} is a tensor on the device meta, which has no numbers: give it some, as by to_empty()")
    if callable(getattr(values, "detach", None)) and callable(getattr(values, "cpu", None)):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # which NumPy lacks
            values = values.float()
    if np.ma.is_masked(values):
        raise DataError(f"{what}: masked values have no number: fill them in, by filled(), or leave their samples out")
    if callable(getattr(values, "toarray", None)):
        raise DataError(f"{what}: a {type(values).__name__} is sparse: give a dense array, by its method toarray()")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]
        is_tensor = callable(getattr(values, "to_dense", None))
        todo = "a dense tensor, as to_dense() or dequantize() makes it" if is_tensor else "rows of one length"
        raise DataError(f"{what} cannot be made an array ({reason:.100}): give {todo}") from None


def looks_nhwc(shape: tuple[int, ...]) -> bool:
    """True if a shape is more likely (n, h, w, c) than (n, c, h, w): the last axis looks like channels, and the
    second does not.
    """
    return len(shape) == 4 and shape[3] in CHANNELS and shape[1] not in CHANNELS and shape[2] not in CHANNELS


def nhwc_hint(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Hint for an error message if an array has the wanted sample shape (channels, height, width) but with channels
    last; else "".
    """
    if len(shape) == 4 and len(wanted) == 3 and (shape[3], shape[1], shape[2]) == wanted:
        return ": looks like NHWC (n, h, w, c), give (n, c, h, w) by x.transpose(0, 3, 1, 2)"
    return ""


def to_numbers(values: Any, what: str) -> np.ndarray:
    """NumPy array of numbers, as `to_numpy`; objects and bool become float64.

    Raises
    ------
    DataError
        A value is no number: the message names its column, for a data frame by its heading.
    """
    x = to_numpy(values, what)
    if x.dtype == object and x.ndim == 0:
        raise DataError(f"{what} must be an array of numbers, got {kind_of(x[()])}: make one with numpy.array")
    if x.dtype == bool:
        return x.astype(np.float64)
    if x.dtype != object:
        return x
    try:
        return x.astype(np.float64)
    except (TypeError, ValueError):
        for place in np.ndindex(x.shape):
            try:
                float(x[place])
            except (TypeError, ValueError):
                gap = f"; {_FILL}" if type(x[place]).__name__ in ("NoneType", "NAType", "NaTType") else ""
                raise DataError(
                    f"{what}: {_where(values, place)} holds {shown(x[place])}, which is no number{gap}"
                ) from None
        raise DataError(f"{what} must be numbers, got objects") from None


def check_finite(x: np.ndarray, values: Any, what: str) -> None:
    """Raise `DataError` at the first number of x, float32, that is NaN or infinite; values : the user's original of x,
    of the same shape.
    """
    if not np.isfinite(x).all():
        place = tuple(int(at) for at in np.argwhere(~np.isfinite(x))[0])
        original, where = np.asarray(values)[place], _where(values, place)
        if isinstance(original, (int, float, np.number)) and np.isfinite(original):
            raise DataError(f"{what} leave the range of float32: {original:.3g} in {where}; divide by a larger unit")
        raise DataError(f"{what} hold values that are not finite in float32: {x[place]} in {where}; {_FILL}")


def _where(values: Any, place: tuple[int, ...]) -> str:
    """Text with row and column of a value; the column by its heading if a data frame has one."""
    if len(place) != 2:
        return f"sample {place[0]}"
    columns = getattr(values, "columns", None)
    heading = None if columns is None or callable(columns) else list(columns)[place[1]]
    return f"row {place[0]}, column {place[1] if heading is None else repr(heading)}"
