"""Scores of predicted targets, by scikit-learn, in the targets' units."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.convert import to_numbers
from ..data.dataset import Dataset
from ..data.encoded import Encoded
from ..errors import DataError


def regression_scores(
    out: np.ndarray, target: np.ndarray, units: np.ndarray | None = None
) -> tuple[float | None, float | None]:
    """R2, the mean over the columns, and mean absolute error, in the targets' units, by scikit-learn.

    out, target : (samples, outputs). units : (outputs,) standard deviation of each target, in its own unit.
    R2 is None for one sample; both are None if an output is not finite.
    """
    from sklearn.metrics import mean_absolute_error, r2_score

    if not np.isfinite(out).all():
        return None, None
    factors = 1.0 if units is None else units
    seen, wanted = out.astype(np.float64) * factors, target.astype(np.float64) * factors
    return float(r2_score(wanted, seen)) if len(out) > 1 else None, float(mean_absolute_error(wanted, seen))


def r2_of(out: np.ndarray, y: Any, name: str) -> float:
    """R2 of predictions (samples, *out_shape) of net `name` for targets (samples,) or (samples, outputs).

    Both are in the targets' units; targets of a table's data set, which are deviations, are converted.
    """
    if y is None:
        raise DataError(f"net {name!r}: scoring needs targets: give y")
    target, out = to_numbers(y, "y").astype(np.float64), out.reshape(len(out), -1)
    target = target[:, None] if target.ndim == 1 else target
    if isinstance(y, Encoded) and not isinstance(y.encoding, tuple):
        if y.encoding is None or len(y.encoding.targets) != target.shape[1]:
            raise DataError("y is a part of a table's targets, in deviations: give targets in their units")
        target = y.encoding.in_units(target)
    if target.shape != out.shape or len(out) < 2 or not np.isfinite(target).all():
        raise DataError(f"y wants finite targets of shape {out.shape} for at least 2 samples, got {target.shape}")
    r2, _ = regression_scores(out, target)
    if r2 is None:
        raise DataError(f"net {name!r} predicts numbers that are not finite, so there is no R2")
    return r2


def target_units(data: Dataset) -> np.ndarray | None:
    """Factors (outputs,) from standardised targets of a table to their own units; None if targets are not
    standardised.
    """
    return data.table.target_scale[1] if data.table is not None and data.table.targets else None
