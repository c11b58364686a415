"""Samples of a fit, as rungs take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Samples(NamedTuple):
    """Samples of a fit, or those that are held out.

    x : (samples, features). goals : (samples,) int32 numbers of classes, or (samples, outputs) float32 targets.
    weight : (samples,), or None if all count alike.
    """

    x: np.ndarray
    goals: np.ndarray
    weight: np.ndarray | None = None

    @property
    def mean_weight(self) -> float:
        """Mean weight of a sample, by which a batch's sum of weights differs from its size."""
        return 1.0 if self.weight is None else float(np.mean(self.weight))
