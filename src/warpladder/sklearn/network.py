"""A scikit-learn perceptron as a net, and its weights there and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..nets import CrossEntropyLoss, Linear, Net, ReLU
from ..nets.params import param_slices


def perceptron(units: Sequence[int], activation: str) -> Net:
    """The net of a perceptron.

    units : features, hidden widths and outputs; a single output, that of two classes, becomes two.
    activation : "relu" or "identity".
    """
    layers: list[Linear | ReLU] = []
    for width in units[1:-1]:
        layers += [Linear(out_features=width), *([ReLU()] if activation == "relu" else [])]
    layers.append(Linear(out_features=max(2, units[-1])))
    return Net("mlp", (units[0],), tuple(layers), CrossEntropyLoss())


def flat_weights(net: Net, coefs: Sequence[np.ndarray], intercepts: Sequence[np.ndarray]) -> np.ndarray:
    """(param_count,) float32 of coefs_ (inputs, outputs) and intercepts_ (outputs,).

    The single logit of two classes is halved and subtracted: the difference of the two outputs is that logit.
    """
    if coefs[-1].shape[1] == 1:
        last, bias = coefs[-1] / 2, intercepts[-1] / 2
        coefs = [*coefs[:-1], np.concatenate([-last, last], axis=1)]
        intercepts = [*intercepts[:-1], np.concatenate([-bias, bias])]
    pairs = [array for coef, bias in zip(coefs, intercepts, strict=True) for array in (coef.T, bias)]
    return np.concatenate([array.astype(np.float32).ravel() for array in pairs])


def coefs_of(net: Net, params: np.ndarray, outputs: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """coefs_ and intercepts_ of parameters (param_count,); with one output that of the difference of two."""
    arrays = [params[place.start : place.stop].reshape(place.shape) for place in param_slices(net)]
    coefs, intercepts = [weight.T.copy() for weight in arrays[::2]], [bias.copy() for bias in arrays[1::2]]
    if outputs == 1:
        coefs[-1] = coefs[-1][:, 1:] - coefs[-1][:, :1]
        intercepts[-1] = intercepts[-1][1:] - intercepts[-1][:1]
    return coefs, intercepts
