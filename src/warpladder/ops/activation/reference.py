"""Textbook formulas of the activations, in float64: value and derivative of each."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...nets import GELU, Layer, LeakyReLU, Sigmoid, SiLU, Tanh
from ..relu.reference import margin as margin_of_zero

#: A function of a layer and an array.
Function = Callable[[Any, np.ndarray], np.ndarray]

ROOT = np.sqrt(2 / np.pi)
CUBE = 0.044715


def erfc(x: np.ndarray) -> np.ndarray:
    """Complementary error function, 1 - erf(x)."""
    from scipy.special import erfc  # type: ignore[import-untyped] # here, since it takes a quarter of a second

    return erfc(x)


def expit(x: np.ndarray) -> np.ndarray:
    """Logistic sigmoid, 1 / (1 + exp(-x))."""
    from scipy.special import expit

    return expit(x)


def _cubic(x: np.ndarray) -> np.ndarray:
    """Argument v of the sigmoid s in GELU's approximation: P(X <= x) ~ s(v), with v = 2 ROOT (x + CUBE x^3)."""
    return 2 * ROOT * (x + CUBE * x**3)


def _gelu(layer: GELU, x: np.ndarray) -> np.ndarray:
    return x * (erfc(-x / np.sqrt(2)) / 2 if layer.approximate == "none" else expit(_cubic(x)))


def _gelu_derivative(layer: GELU, x: np.ndarray) -> np.ndarray:
    """GELU's derivative P(X <= x) + x p(x) for a standard normal X, or the derivative of its tanh approximation."""
    if layer.approximate == "none":
        return erfc(-x / np.sqrt(2)) / 2 + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    v, rise = _cubic(x), 2 * ROOT * (1 + 3 * CUBE * x**2)
    return expit(v) * (1 + x * expit(-v) * rise)


#: Value by x, and derivative by y if the layer `reads_output`, else by x.
FUNCTIONS: dict[type[Layer], tuple[Function, Function]] = {
    Tanh: (lambda layer, x: np.tanh(x), lambda layer, y: 1 - y**2),
    Sigmoid: (lambda layer, x: expit(x), lambda layer, y: y * (1 - y)),
    LeakyReLU: (
        lambda layer, x: np.where(x > 0, x, layer.negative_slope * x),
        lambda layer, x: np.where(x > 0, 1, layer.negative_slope),
    ),
    GELU: (_gelu, _gelu_derivative),
    SiLU: (lambda layer, x: x * expit(x), lambda layer, x: expit(x) * (1 + x * expit(-x))),
}


def forward(layer: Layer, x: np.ndarray, w: None = None, b: None = None) -> np.ndarray:
    """Activation y = f(x) in float64."""
    return FUNCTIONS[type(layer)][0](layer, x)


def backward(layer: Layer, x: np.ndarray, w: None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Input gradient (dx,) of an activation: dx = f'(x) dy, in float64."""
    saved = forward(layer, x) if layer.reads_output else x
    return (FUNCTIONS[type(layer)][1](layer, saved) * dy,)


def has_kinks(layer: Layer) -> bool:
    """True if the activation's derivative jumps at some x."""
    return isinstance(layer, LeakyReLU) and layer.negative_slope != 1


def margin(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Distance (n,) of each sample's closest x from LeakyReLU's kink at 0; inf for smooth functions."""
    return margin_of_zero(layer, x) if has_kinks(layer) else np.full(len(x), np.inf)  # type: ignore[arg-type]
