"""Losses of one element, for compiled loops: value and derivative by a function's number.

Compiled code on the CPU, on the rungs loops and native, inserts these functions; Python does not call them.
"""

import math

import numpy as np

from ...nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss, MSELoss

MSE, L1, HUBER, BINARY = range(4)

NUMBERS: dict[type[Loss], int] = {MSELoss: MSE, L1Loss: L1, HuberLoss: HUBER, BCEWithLogitsLoss: BINARY}


def number(loss: Loss) -> int:
    """Number of a loss by element."""
    return NUMBERS[type(loss)]


def settings(loss: Loss, outputs: int) -> np.ndarray:
    """Number of each output that a loss reads, (outputs,) float64: weight, Huber's delta or pos_weight, else 1."""
    if isinstance(loss, CrossEntropyLoss):
        return np.ones(outputs) if loss.weight is None else np.array(loss.weight)
    if isinstance(loss, HuberLoss):
        return np.full(outputs, loss.delta)
    if isinstance(loss, BCEWithLogitsLoss) and loss.pos_weight is not None:
        return np.resize(np.array(loss.pos_weight), outputs)
    return np.ones(outputs)


def value(function: int, setting: float, x: float, t: float) -> float:
    """f(x, t). setting : of HUBER and BINARY, as `settings` has it."""
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
    """df / dx. A NaN stays NaN; L1's is 0 at 0."""
    d = x - t
    if function == MSE:
        return 2 * d
    if function == L1:
        return 1.0 if d > 0 else -1.0 if d < 0 else d
    if function == HUBER:
        return setting if d > setting else -setting if d < -setting else d
    return (1 - t) / (1 + math.exp(-x)) - setting * t / (1 + math.exp(x))
