"""Textbook softmax cross-entropy. Shapes: x (n, classes) float64, label (n,) integers."""

import numpy as np


def forward(x: np.ndarray, label: np.ndarray) -> float:
    """Mean cross-entropy of a batch: mean of log(sum over c of exp(x[n, c])) - x[n, label[n]]."""
    shifted = x - x.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(x)), label]))


def backward(x: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Gradient dx (n, classes) of the mean cross-entropy: (softmax(x) - one-hot(label)) / n."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    dx = e / e.sum(axis=1, keepdims=True)
    dx[np.arange(len(x)), label] -= 1
    return dx / len(x)


def correct(x: np.ndarray, label: np.ndarray) -> int:
    """Number of samples whose largest logit, the first of equals, is their label's."""
    return int(np.count_nonzero(x.argmax(axis=1) == label))
