"""Samples of a fit, in the form that rungs take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.neural_network._base import LOSS_FUNCTIONS


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


def note_held_out(model: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
    """Append the loss on held-out samples, without the penalty, to `validation_loss_curve_`, by scikit-learn's
    arithmetic; y as its early stopping has it.
    """
    goals = model._label_binarizer.transform(y) if is_classifier(model) else y.reshape(len(x), -1)
    name = model.loss
    if name == "log_loss" and model.out_activation_ == "logistic":
        name = "binary_log_loss"
    loss = LOSS_FUNCTIONS[name](goals, model._forward_pass_fast(x, check_input=False), weight)
    model.validation_loss_curve_ = model.validation_loss_curve_ or []
    model.validation_loss_curve_.append(float(loss))
