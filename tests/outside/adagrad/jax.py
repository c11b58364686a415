"""Adagrad for JAX."""

from jax import numpy as jnp


def step(w, g, slots, optimizer, numbers):
    total = slots["sum"] + g * g
    return w - numbers[0] * g / (jnp.sqrt(total) + numbers[1]), {"sum": total}
