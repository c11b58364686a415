"""Conversion of a scikit-learn perceptron and its weights to a net and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..nets import BatchNorm1d, Dropout, Layer, Linear, Loss, Net, ReLU, Sigmoid, Tanh
from ..nets.params import buffer_views, views

#: Layers of each of scikit-learn's activations.
ACTIVATIONS: dict[str, tuple[Layer, ...]] = {
    "identity": (),
    "relu": (ReLU(),),
    "tanh": (Tanh(),),
    "logistic": (Sigmoid(),),
}


def perceptron(
    units: Sequence[int], activation: str, loss: Loss, dropout: float = 0.0, batch_norm: bool = False
) -> Net:
    """Net of a perceptron with these widths.

    units : features, hidden widths and outputs.
    activation : scikit-learn's name.
    dropout, batch_norm : of each hidden layer, after and before its activation.
    """
    layers: list[Layer] = []
    for width in map(int, units[1:-1]):
        layers += [Linear(out_features=width), *[BatchNorm1d()] * bool(batch_norm), *ACTIVATIONS[activation]]
        layers += [Dropout(float(dropout))] * bool(dropout > 0)
    layers.append(Linear(out_features=units[-1]))
    return Net("mlp", (units[0],), tuple(layers), loss)


def flat_weights(net: Net, coefs: Sequence[np.ndarray], intercepts: Sequence[np.ndarray]) -> np.ndarray:
    """Flat parameters (param_count,) float32 from coefs_ (inputs, outputs) and intercepts_ (outputs,); those of
    normalisations are 1 and 0.

    The single logit of two classes becomes two outputs, its negative half and its half: their difference is this logit.
    """
    if coefs[-1].shape[1] < net.out_shape[0]:
        last, bias = coefs[-1] / 2, intercepts[-1] / 2
        coefs = [*coefs[:-1], np.concatenate([-last, last], axis=1)]
        intercepts = [*intercepts[:-1], np.concatenate([-bias, bias])]
    flat = np.zeros(net.param_count, np.float32)
    named = views(net, flat)
    for name, coef, bias in zip(_linears(net), coefs, intercepts, strict=True):
        named[f"{name}.weight"][...], named[f"{name}.bias"][...] = coef.T, bias
    for name in _norms(net).values():
        named[f"{name}.weight"][...] = 1
    return flat


def coefs_of(
    net: Net, params: np.ndarray, outputs: int, buffers: np.ndarray | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """coefs_ and intercepts_ from flat parameters (param_count,); a single logit is the difference of a net's two
    outputs.

    buffers : running statistics (buffer_count,), which are multiplied in, with the normalisations' weights; None leaves
    the normalisations out.
    """
    named, norms = views(net, params), {} if buffers is None else _norms(net)
    coefs, intercepts = [], []
    for name in _linears(net):
        coef, bias = named[f"{name}.weight"].T, named[f"{name}.bias"]
        if buffers is not None and (norm := norms.get(name)) is not None:
            running = buffer_views(net, buffers)
            root = np.sqrt(running[f"{norm}.running_var"].astype(np.float64) + BatchNorm1d().eps)
            scale = named[f"{norm}.weight"] / root
            bias = (bias - running[f"{norm}.running_mean"].astype(np.float64)) * scale + named[f"{norm}.bias"]
            coef = coef * scale
        coefs.append(coef.astype(params.dtype, order="C"))
        intercepts.append(bias.astype(params.dtype))
    if outputs < net.out_shape[0]:
        coefs[-1] = coefs[-1][:, 1:] - coefs[-1][:, :1]
        intercepts[-1] = intercepts[-1][1:] - intercepts[-1][:1]
    return coefs, intercepts


def _linears(net: Net) -> list[str]:
    """Names of the Linear layers, in order."""
    return [name for name, layer in zip(net.names, net.layers, strict=False) if isinstance(layer, Linear)]


def _norms(net: Net) -> dict[str, str]:
    """Names of the normalisations, by the names of the Linear layers before them."""
    pairs = pairwise(zip(net.names, net.layers, strict=False))
    return {before: name for (before, _), (name, layer) in pairs if layer.normalizes}
