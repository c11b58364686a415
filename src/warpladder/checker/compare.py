"""What two arrays that should be equal differ in: nothing, the last digits, or more than rounding explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..proof.tolerance import bound


def rounding(found: np.ndarray, wanted: np.ndarray, length: int) -> bool:
    """Whether rounding explains every difference: normwise, for sums of that length; whole numbers must be equal."""
    for (_, a), (_, b) in zip(_parts(found), _parts(wanted), strict=True):
        if a.dtype.kind != "f":
            same = np.array_equal(a, b)
        elif a.dtype == np.float16:  # no sums are kept in it; one unit in the last place
            same = np.array_equal(np.isnan(a), np.isnan(b)) and bool(
                np.all((abs(a - b) <= np.spacing(abs(b))) | (a == b) | np.isnan(b))
            )
        else:
            finite = np.isfinite(b)
            same = np.array_equal(a[~finite], b[~finite], equal_nan=True)
            limit = bound(b.dtype, length) * np.linalg.norm(b[finite].astype(np.float64))
            same = same and bool(np.linalg.norm(a[finite].astype(np.float64) - b[finite]) <= limit)
        if not same:
            return False
    return True


def first_difference(name: str, found: np.ndarray, wanted: np.ndarray) -> tuple[str, str, str, int]:
    """Where two arrays differ most: the element, its two values, and how many elements differ."""
    for field, a, b in ((field, a, b) for (field, a), (_, b) in zip(_parts(found), _parts(wanted), strict=True)):
        differ = ~((a == b) | ((a != a) & (b != b)))
        if differ.any():
            with np.errstate(invalid="ignore", over="ignore"):
                size = np.where(differ, abs(a.astype(np.float64) - b.astype(np.float64)), -1.0)
            at = np.unravel_index(int(np.where(np.isnan(size), np.inf, size).argmax()), a.shape)
            place = ", ".join(map(str, at))
            return f"{name}[{place}]{'.' + field if field else ''}", f"{a[at]:.9g}", f"{b[at]:.9g}", int(differ.sum())
    return name, "equal", "equal", 0  # but for the bits of NaN or the sign of zero


def _parts(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The array, or the fields of a structured one."""
    for field in array.dtype.names or ("",):
        yield field, np.asarray(array[field] if field else array)
