"""Textbook losses in float64: value and gradient of each sample.

Shapes: x (n, *out_shape); label (n,) integers, or target of the shape of x; shares (n,).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss, MSELoss

#: A function of a loss, outputs and targets.
Function = Callable[[Any, np.ndarray, np.ndarray], np.ndarray]


def softplus(x: np.ndarray) -> np.ndarray:
    """Softplus log(1 + exp(x))."""
    return np.logaddexp(0, x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Sigmoid 1 / (1 + exp(-x)), both tails to full precision."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _huber(loss: HuberLoss, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    d = np.abs(x - t)
    return np.where(d <= loss.delta, d**2 / 2, loss.delta * (d - loss.delta / 2))


def _factor(loss: BCEWithLogitsLoss, x: np.ndarray) -> np.ndarray | float:
    """Weight of positive targets, `pos_weight`, as a number or an array (*out_shape) that broadcasts over x."""
    if loss.pos_weight is None or len(loss.pos_weight) == 1:
        return 1.0 if loss.pos_weight is None else loss.pos_weight[0]
    return np.reshape(loss.pos_weight, x.shape[1:])


def _binary(loss: BCEWithLogitsLoss, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.asarray(_factor(loss, x) * t * softplus(-x) + (1 - t) * softplus(x))


def _binary_slope(loss: BCEWithLogitsLoss, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.asarray((1 - t) * sigmoid(x) - _factor(loss, x) * t * sigmoid(-x))


#: Value and derivative by x of each element.
FUNCTIONS: dict[type[Loss], tuple[Function, Function]] = {
    MSELoss: (lambda loss, x, t: (x - t) ** 2, lambda loss, x, t: 2 * (x - t)),
    L1Loss: (lambda loss, x, t: np.abs(x - t), lambda loss, x, t: np.sign(x - t)),
    HuberLoss: (_huber, lambda loss, x, t: np.clip(x - t, -loss.delta, loss.delta)),
    BCEWithLogitsLoss: (_binary, _binary_slope),
}


def wanted(loss: CrossEntropyLoss, label: np.ndarray, classes: int) -> np.ndarray:
    """Target q (n, classes) of a cross-entropy: w[label] (1 - s) at the label, plus w[c] s / classes at every class c;
    s is the smoothing.
    """
    w = np.ones(classes) if loss.weight is None else np.array(loss.weight)
    q = np.tile(w * (loss.label_smoothing / classes), (len(label), 1))
    q[np.arange(len(label)), label] += w[label] * (1 - loss.label_smoothing)
    return q


def factors(loss: Loss, y: np.ndarray | None, n: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Weight (n,) of each sample in the divisor of a mean: its own weight, times its class's."""
    out = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if isinstance(loss, CrossEntropyLoss) and loss.weight is not None:
        assert y is not None
        return out * np.array(loss.weight)[y]
    return out


def shares(loss: Loss, y: np.ndarray | None, n: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Share (n,) of each sample in their mean: its weight over the sum of `factors`; 0 where that sum is 0."""
    total = factors(loss, y, n, weights).sum()
    own = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    return own / total if total > 0 else np.zeros(n)


def values(loss: Loss, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Loss (n,) of each sample: -sum of q log softmax(x), or the mean over its elements."""
    if isinstance(loss, CrossEntropyLoss):
        shifted = x - x.max(axis=1, keepdims=True)
        surprise = np.log(np.exp(shifted).sum(axis=1, keepdims=True)) - shifted
        if loss.is_plain:
            return np.asarray(surprise[np.arange(len(x)), y])
        return np.asarray((wanted(loss, y, x.shape[1]) * surprise).sum(axis=1))
    return np.asarray(FUNCTIONS[type(loss)][0](loss, x, y).reshape(len(x), -1).mean(axis=1))


def slopes(loss: Loss, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Gradient of each sample's loss by its outputs, shaped as x: softmax(x) sum(q) - q, or f' / size by element."""
    if isinstance(loss, CrossEntropyLoss):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        if loss.is_plain:
            p[np.arange(len(x)), y] -= 1
            return np.asarray(p)
        q = wanted(loss, y, x.shape[1])
        return np.asarray(p * q.sum(axis=1, keepdims=True) - q)
    return np.asarray(FUNCTIONS[type(loss)][1](loss, x, y) / max(1, x[0].size))


def curvature(loss: Loss, x: np.ndarray) -> np.ndarray | float:
    """Largest |f''| of a loss by element, f for outputs x near these and any target: of BCEWithLogitsLoss for each
    output, else one number.
    """
    if isinstance(loss, BCEWithLogitsLoss):
        return max((1.0, *(loss.pos_weight or ()))) * sigmoid(x) * sigmoid(-x)
    return {MSELoss: 2.0, HuberLoss: 1.0, L1Loss: 0.0}[type(loss)]


def forward(loss: Loss, x: np.ndarray, y: np.ndarray, share: np.ndarray | None = None) -> float:
    """Loss of a batch: the mean of `values`, or their sum weighted by `share`."""
    found = values(loss, x, y)
    return float(np.mean(found) if share is None else share @ found)


def backward(loss: Loss, x: np.ndarray, y: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """Gradient dx of a batch's loss: `slopes` / n, or times `share`."""
    found = slopes(loss, x, y)
    return found / len(x) if share is None else found * share.reshape(-1, *[1] * (x.ndim - 1))


def correct(loss: Loss, x: np.ndarray, y: np.ndarray) -> int:
    """Number of samples whose largest logit, the first of equals, is their label's; 0 without labels."""
    return int(np.count_nonzero(x.argmax(axis=1) == y)) if isinstance(loss, CrossEntropyLoss) else 0
