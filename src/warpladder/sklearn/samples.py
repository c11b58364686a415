"""Samples of a fit, in the form that rungs take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Samples(NamedTuple):
    """Training or held-out samples of a fit.

    x : (samples, features). goals : (samples,) int32 class numbers, or (samples, outputs) float32 targets.
    weight : (samples,) weights, or None for equal ones.
    """

    x: np.ndarray
    goals: np.ndarray
    weight: np.ndarray | None = None

    @property
    def mean_weight(self) -> float:
        """Mean weight of a sample: a batch's sum of weights divided by its size."""
        return 1.0 if self.weight is None else float(np.mean(self.weight))
