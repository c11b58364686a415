"""LeakyReLU for JAX."""

from jax import numpy as jnp


def forward(layer, x):
    return jnp.where(x > 0, x, layer.negative_slope * x)
