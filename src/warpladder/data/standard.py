"""Standardisation: each feature of a table, or channel of an image, with mean 0 and standard deviation 1 over the
training set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import DataError

_ROWS = 2**12  # rows converted at a time, for small float64 copies


@dataclass(frozen=True)
class Standard:
    """Means and standard deviations of every feature, or every channel of an image.

    Parameters
    ----------
    mean, std : tuple of float
        Means and deviations in the units of the stored samples. std is 1 if all values are equal, as in scikit-learn's
        `StandardScaler`.

    Raises
    ------
    DataError
        The two differ in length, a number is not finite, or a std is not above 0.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std):
            raise DataError(
                f"standardisation wants as many means as deviations, got {len(self.mean)} and {len(self.std)}"
            )
        if not all(map(math.isfinite, (*self.mean, *self.std))) or not min(self.std) > 0:
            raise DataError("standardisation wants finite means, and finite deviations above 0")

    @classmethod
    def fit(cls, x: np.ndarray) -> Standard:
        """Mean and standard deviation (divided by n) of samples (n, features) or (n, channels, height, width), in
        float64.
        """
        width = x.shape[1]
        each = x.size // width
        total, square = np.zeros(width), np.zeros(width)
        for part in _parts(x):
            total += part.sum(axis=(0, 2))
        mean = total / each
        for part in _parts(x):
            square += np.square(part - mean[:, None]).sum(axis=(0, 2))
        std = np.sqrt(square / each)
        # A deviation below the rounding error of the mean is replaced by 0.
        std[~(std > each * np.finfo(np.float64).eps * np.abs(mean))] = 1.0
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Standardised samples (x - mean) / std: a new float32 array of the shape of x, computed in float64.

        Raises
        ------
        DataError
            Samples have another number of features or channels, or a result does not fit float32.
        """
        if x.shape[1] != len(self.mean):
            raise DataError(
                f"samples have {x.shape[1]} features or channels, but {len(self.mean)} were standardised in training"
            )
        out = np.empty(x.shape, np.float32)
        mean, std = np.array(self.mean)[:, None], np.array(self.std)[:, None]
        done = 0
        with np.errstate(over="ignore"):
            for part in _parts(x):
                some = out[done : done + len(part)]
                some[...] = ((part - mean) / std).reshape(some.shape)
                done += len(part)
        if not np.isfinite(out).all():
            raise DataError(
                "standardised samples leave the range of float32: look for numbers that are far from all others"
            )
        return out


def _parts(x: np.ndarray) -> Iterator[np.ndarray]:
    """Blocks of samples as float64 (block, features, numbers of each feature)."""
    each = math.prod(x.shape[2:])
    for first in range(0, len(x), _ROWS):
        yield x[first : first + _ROWS].astype(np.float64).reshape(-1, x.shape[1], each)
