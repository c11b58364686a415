"""Activations of one number, for compiled loops: value and derivative, selected by the function's number.

Compiled code on the CPU, on the rungs loops and native, inlines these functions; Python does not call them.
"""

import math

from ...nets import GELU, Layer, LeakyReLU, Sigmoid, SiLU, Tanh

TANH, SIGMOID, LEAKY_RELU, GELU_ERF, GELU_TANH, SILU = range(6)

NUMBERS: dict[type[Layer], int] = {Tanh: TANH, Sigmoid: SIGMOID, LeakyReLU: LEAKY_RELU, GELU: GELU_ERF, SiLU: SILU}

HALF = math.sqrt(0.5)
ROOT = math.sqrt(2 / math.pi)
CUBE = 0.044715
DENSITY = 1 / math.sqrt(2 * math.pi)


def number(layer: Layer) -> int:
    """Number of an activation layer's function, for `value` and `derivative`."""
    return GELU_TANH if isinstance(layer, GELU) and layer.approximate == "tanh" else NUMBERS[type(layer)]


def slope(layer: Layer) -> float:
    """Slope below 0 of LeakyReLU; 0 of other layers, which do not read it."""
    return float(layer.negative_slope) if isinstance(layer, LeakyReLU) else 0.0


def value(function: int, slope: float, x: float) -> float:
    """Activation f(x) of one number."""
    if function == TANH:
        return math.tanh(x)
    if function == SIGMOID:
        return 1 / (1 + math.exp(-x))
    if function == LEAKY_RELU:
        return x if x > 0 else slope * x
    if function == GELU_ERF:
        return x * 0.5 * math.erfc(-HALF * x)
    if function == GELU_TANH:
        return x / (1 + math.exp(-2 * ROOT * (x + CUBE * x * x * x)))
    return x / (1 + math.exp(-x))


def derivative(function: int, slope: float, saved: float) -> float:
    """Derivative f'(x) of an activation. saved : the output f(x) of Tanh and Sigmoid, the input x of the others."""
    if function == TANH:
        return 1 - saved * saved
    if function == SIGMOID:
        return saved * (1 - saved)
    if function == LEAKY_RELU:
        return 1.0 if saved > 0 else slope
    if function == GELU_ERF:
        return 0.5 * math.erfc(-HALF * saved) + DENSITY * saved * math.exp(-0.5 * saved * saved)
    v, rise = saved, 1.0  # x s(v) with the sigmoid s, and v' = rise
    if function == GELU_TANH:
        v = 2 * ROOT * (saved + CUBE * saved * saved * saved)
        rise = 2 * ROOT * (1 + 3 * CUBE * saved * saved)
    return (1 + saved / (1 + math.exp(v)) * rise) / (1 + math.exp(-v))
