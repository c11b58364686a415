"""Dropout in JAX: the masks of the epoch's order, by the hash of `data/order.py`."""

import math

import jax
import jax.numpy as jnp

from ...data.order import layer_offset
from ...nets import Dropout, Shape


def mixed(x: jax.Array) -> jax.Array:
    """Hash `order.mix32` of uint32 numbers."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def masked(layer: Dropout, x: jax.Array, keys: jax.Array, number: int, image: Shape | None) -> jax.Array:
    """Product x m with the masks of a batch, images with their channels last.

    keys : (2,) uint32, the epoch's mask key and the position of the first sample. number : the layer's. image : shape
    (channels, height, width) of an image that is flattened, channels last; else None.
    """
    if x.ndim == 4:
        image = (x.shape[3], *x.shape[1:3])
    elements = jnp.arange(math.prod(x.shape[1:]), dtype=jnp.uint32)
    if image is not None:
        elements = elements.reshape(image).transpose(1, 2, 0)
    of_sample = mixed(
        (keys[1] + jnp.arange(len(x), dtype=jnp.uint32)) ^ mixed(keys[0] + jnp.uint32(layer_offset(number)))
    )
    hashes = mixed(of_sample[:, None] ^ elements.reshape(1, -1)).reshape(x.shape)
    return jnp.where(hashes >= jnp.uint32(layer.threshold), x * jnp.asarray(layer.scale, x.dtype), 0)
