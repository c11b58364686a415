"""Linear, as the textbook has it. Shapes: x (n, in), w (out, in), b (out,), y (n, out); float64."""

import numpy as np

from ...nets import Linear


def forward(layer: Linear, x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """y[n, o] = b[o] + sum over i of x[n, i] w[o, i]; b may be None."""
    return x @ w.T if b is None else x @ w.T + b


def backward(
    layer: Linear, x: np.ndarray, w: np.ndarray, dy: np.ndarray, needs_dx: bool = True
) -> tuple[np.ndarray, ...]:
    """Gradients (dx, dw, db) from dy (n, out), or (dw, db) of a layer before which nothing is trained."""
    trained = dy.T @ x, dy.sum(axis=0)
    return (dy @ w, *trained) if needs_dx else trained
