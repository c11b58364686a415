"""Average pooling for JAX."""

import jax
from jax import lax

from ...nets import AdaptiveAvgPool2d, AvgPool2d


def forward(layer: AvgPool2d | AdaptiveAvgPool2d, x: jax.Array) -> jax.Array:
    """Mean over the windows of images (n, rows, columns, channels)."""
    _, h, w, c = x.shape
    rows, columns, stride = layer.window((c, h, w))
    sums = lax.reduce_window(x, 0.0, lax.add, (1, rows, columns, 1), (1, stride, stride, 1), "VALID")
    return sums / (rows * columns)
