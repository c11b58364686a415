"""Losses of one element, for compiled loops: value and derivative, selected by the function's number.

Compiled code on the CPU, on the rungs loops and native, inlines these functions; Python does not call them.
"""

import math

import numpy as np

from ...nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss, MSELoss

MSE, L1, HUBER, BINARY = range(4)

NUMBERS: dict[type[Loss], int] = {MSELoss: MSE, L1Loss: L1, HuberLoss: HUBER, BCEWithLogitsLoss: BINARY}


def number(loss: Loss) -> int:
    """Number of an elementwise loss, for `value` and `derivative`."""
    return NUMBERS[type(loss)]


def settings(loss: Loss, outputs: int) -> np.ndarray:
    """Setting (outputs,) float64 of each output: class weight, Huber's delta or pos_weight, else 1."""
    if isinstance(loss, CrossEntropyLoss):
        return np.ones(outputs) if loss.weight is None else np.array(loss.weight)
    if isinstance(loss, HuberLoss):
        return np.full(outputs, loss.delta)
    if isinstance(loss, BCEWithLogitsLoss) and loss.pos_weight is not None:
        return np.resize(np.array(loss.pos_weight), outputs)
    return np.ones(outputs)


def value(function: int, setting: float, x: float, t: float) -> float:
    """Loss f(x, t) of one element. setting : from `settings`, read by HUBER and BINARY."""
    d = x - t
    if function == MSE:
        return d * d
    if function == L1:
        return abs(d)
    if function == HUBER:
        return d * d / 2 if abs(d) <= setting else setting * (abs(d) - setting / 2)
    rest = math.log1p(math.exp(-abs(x)))
    return setting * t * (rest + (-x if x < 0 else 0.0)) + (1 - t) * (rest + (x if x > 0 else 0.0))


def derivative(function: int, setting: float, x: float, t: float) -> float:
    """Derivative df / dx of one element's loss. A NaN stays NaN; L1's derivative is 0 at 0."""
    d = x - t
    if function == MSE:
        return 2 * d
    if function == L1:
        return 1.0 if d > 0 else -1.0 if d < 0 else d
    if function == HUBER:
        return setting if d > setting else -setting if d < -setting else d
    return (1 - t) / (1 + math.exp(-x)) - setting * t / (1 + math.exp(x))
