"""Conversion of a scikit-learn perceptron and its weights to a net and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..nets import Layer, Linear, Loss, Net, ReLU, Sigmoid, Tanh
from ..nets.params import param_slices

#: Layers of each of scikit-learn's activations.
ACTIVATIONS: dict[str, tuple[Layer, ...]] = {
    "identity": (),
    "relu": (ReLU(),),
    "tanh": (Tanh(),),
    "logistic": (Sigmoid(),),
}


def perceptron(units: Sequence[int], activation: str, loss: Loss) -> Net:
    """Net of a perceptron with these widths.

    units : features, hidden widths and outputs.
    activation : scikit-learn's name.
    """
    layers: list[Layer] = []
    for width in units[1:-1]:
        layers += [Linear(out_features=width), *ACTIVATIONS[activation]]
    layers.append(Linear(out_features=units[-1]))
    return Net("mlp", (units[0],), tuple(layers), loss)


def flat_weights(net: Net, coefs: Sequence[np.ndarray], intercepts: Sequence[np.ndarray]) -> np.ndarray:
    """Flat parameters (param_count,) float32 from coefs_ (inputs, outputs) and intercepts_ (outputs,).

    The single logit of two classes becomes two outputs, its negative half and its half: their difference is this logit.
    """
    if coefs[-1].shape[1] < net.out_shape[0]:
        last, bias = coefs[-1] / 2, intercepts[-1] / 2
        coefs = [*coefs[:-1], np.concatenate([-last, last], axis=1)]
        intercepts = [*intercepts[:-1], np.concatenate([-bias, bias])]
    pairs = [array for coef, bias in zip(coefs, intercepts, strict=True) for array in (coef.T, bias)]
    return np.concatenate([array.astype(np.float32).ravel() for array in pairs])


def coefs_of(net: Net, params: np.ndarray, outputs: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """coefs_ and intercepts_ from flat parameters (param_count,); a single logit is the difference of a net's two
    outputs.
    """
    arrays = [params[place.start : place.stop].reshape(place.shape) for place in param_slices(net)]
    coefs, intercepts = [weight.T.copy() for weight in arrays[::2]], [bias.copy() for bias in arrays[1::2]]
    if outputs < net.out_shape[0]:
        coefs[-1] = coefs[-1][:, 1:] - coefs[-1][:, :1]
        intercepts[-1] = intercepts[-1][1:] - intercepts[-1][:1]
    return coefs, intercepts
