"""Reader of features into one array, class after class, and their scaling in pieces by scikit-learn's
StandardScaler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...errors import DataError
from .inputs import FeaturePart

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

#: Most numbers of a piece: 32 MB in float64.
PIECE = 1 << 22

Report = Callable[[int, int], None]


def read_rows(part: FeaturePart, place: np.ndarray, rows: int, report: Report) -> np.ndarray:
    """Features (rows, width) float32 of a part, each sample at its row.

    place : (samples,) row of each sample, -1 to leave a sample out; the others number `rows`.
    report : called after each batch with the number of finished samples and of all.
    Raises DataError: a feature is NaN or infinite as float32, or there are fewer samples than labels.
    """
    out, done = np.empty((rows, part.width), np.float32), 0
    for batch in part.batches():
        some = place[done : done + len(batch)]
        with np.errstate(over="ignore"):
            batch = np.asarray(batch[some >= 0], np.float32)
        if not np.isfinite(batch).all():
            row = int(np.argmin(np.isfinite(batch).all(axis=1)))
            odd, sample = batch[row][~np.isfinite(batch[row])][0], done + int(np.flatnonzero(some >= 0)[row])
            raise DataError(
                f"{part.what}: the features of sample {sample} hold {odd}, and a classifier needs finite "
                "numbers: clean them first"
            )
        out[some[some >= 0]] = batch
        done += len(some)
        report(done, len(place))
    if done != len(place):
        raise DataError(f"{part.what}: there are {done:,} samples of features, and {len(place):,} labels")
    return out


def fit_scaler(x: np.ndarray) -> StandardScaler:
    """scikit-learn's scaler, fitted to (samples, width) float32: to mean 0 and deviation 1; constant features stay
    unscaled.
    """
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    for piece in pieces(x):
        scaler.partial_fit(x[piece])
    return scaler


def scale(x: np.ndarray, scaler: StandardScaler) -> None:
    """Scale (samples, width) float32 in place, with the rounding of `StandardScaler.transform`."""
    for piece in pieces(x):
        x[piece] = scaler.transform(x[piece])


def gamma_of(x: np.ndarray) -> float:
    """Gamma of SVC's gamma="scale": 1 / (width * variance of all numbers of x), in float64, constant features
    included.
    """
    mean = sum(float(x[piece].sum(dtype=np.float64)) for piece in pieces(x)) / x.size
    variance = sum(float(np.square(x[piece].astype(np.float64) - mean).sum()) for piece in pieces(x)) / x.size
    return 1 / (x.shape[1] * variance) if variance else 1.0


def pieces(x: np.ndarray) -> Iterator[slice]:
    """Ranges of rows, each of at most `PIECE` numbers, or of one row."""
    rows = max(1, PIECE // x.shape[1])
    return (slice(first, min(first + rows, len(x))) for first in range(0, len(x), rows))
