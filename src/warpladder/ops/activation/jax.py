"""Activations for JAX."""

import jax

from ...nets import GELU, Layer, LeakyReLU, Sigmoid, Tanh


def forward(layer: Layer, x: jax.Array) -> jax.Array:
    """Output y = f(x) of an activation layer; x and y are images (n, rows, columns, channels) or vectors."""
    if isinstance(layer, Tanh):
        return jax.numpy.tanh(x)
    if isinstance(layer, Sigmoid):
        return jax.nn.sigmoid(x)
    if isinstance(layer, LeakyReLU):
        return jax.nn.leaky_relu(x, layer.negative_slope)
    if isinstance(layer, GELU):
        return jax.nn.gelu(x, approximate=layer.approximate == "tanh")
    return jax.nn.silu(x)
