"""Activations for JAX."""

import jax

from ...nets import GELU, Layer, LeakyReLU, Sigmoid, Tanh


def forward(layer: Layer, x: jax.Array) -> jax.Array:
    """y = f(x), images with their channels last."""
    if isinstance(layer, Tanh):
        return jax.numpy.tanh(x)
    if isinstance(layer, Sigmoid):
        return jax.nn.sigmoid(x)
    if isinstance(layer, LeakyReLU):
        return jax.nn.leaky_relu(x, layer.negative_slope)
    if isinstance(layer, GELU):
        return jax.nn.gelu(x, approximate=layer.approximate == "tanh")
    return jax.nn.silu(x)
