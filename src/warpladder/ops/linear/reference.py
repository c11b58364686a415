"""Textbook linear layer in float64. Shapes: x (n, in), w (out, in), b (out,), y (n, out)."""

import numpy as np

from ...nets import Linear


def forward(layer: Linear, x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """Output y: y[n, o] = b[o] + sum over i of x[n, i] w[o, i]; b may be None."""
    return x @ w.T if b is None else x @ w.T + b


def backward(
    layer: Linear, x: np.ndarray, w: np.ndarray, dy: np.ndarray, needs_dx: bool = True
) -> tuple[np.ndarray, ...]:
    """Gradients (dx, dw, db) from dy (n, out); (dw, db) if not needs_dx."""
    trained = dy.T @ x, dy.sum(axis=0)
    return (dy @ w, *trained) if needs_dx else trained
