"""Samples of a fit, in the form that rungs take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.neural_network._base import LOSS_FUNCTIONS
from sklearn.utils.validation import validate_data


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


def given(model: Any, x: Any, y: Any, goals: np.ndarray) -> Samples:
    """Held-out samples that the user gave. goals : those of the training samples. Raises `ValueError` if they differ in
    the number of features or targets, or hold what the training samples may not.
    """
    types = {"accept_sparse": True, "dtype": (np.float64, np.float32)}
    x = validate_data(model, model._rows(x), reset=False, **types)
    found = model._goals(model._encoded(y))
    if len(found) != x.shape[0]:
        raise ValueError(f"X_val has {x.shape[0]} samples, y_val {len(found)}")
    if found.shape[1:] != goals.shape[1:]:
        raise ValueError(f"y_val has {found.shape[1]} targets for each sample, y {goals.shape[1]}")
    return Samples(x if isinstance(x, np.ndarray) else x.toarray(), found)


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
