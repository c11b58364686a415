"""Order of an epoch's samples, `Order.indices`, computed by JAX on the device.

On the host the order of 60,000 samples takes some milliseconds, in which a GPU trains half an epoch of a small net.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from ....data.order import ORDER_WORDS, ROUNDS
from ....ops.dropout.jax import mixed

#: Samples in an order at most: the network spans up to four times as many values, of which each takes eight bytes
#: meanwhile.
MOST = 1 << 24


def shuffled(words: jax.Array, n: int, half_bits: int) -> jax.Array:
    """Sample (n,) int32 at each position of an order; words : (ORDER_WORDS,) uint32, `Order.words`."""
    values = jnp.arange(1 << 2 * half_bits, dtype=jnp.uint32)
    mask = jnp.uint32((1 << half_bits) - 1)
    left, right = values >> half_bits, values & mask
    for key in words[:ROUNDS]:
        left, right = right, left ^ (mixed(right ^ key) & mask)
    sent = (left << half_bits) | right
    # A value of n or more is permuted again. Each round doubles the number of times, by looking up the result
    # of the result.
    end = jnp.where(values < n, values, sent)
    for _ in range((len(values) - n).bit_length()):
        end = end.at[end].get(mode="promise_in_bounds")
    rows = end.at[sent[:n]].get(mode="promise_in_bounds")
    return jnp.where(words[-1] != 0, rows, values[:n]).astype(jnp.int32)


@cache
def program(n: int, half_bits: int, sharding: SingleDeviceSharding) -> Any:
    """Compiled `shuffled`: a function of an order's words on the device."""
    words = jax.ShapeDtypeStruct((ORDER_WORDS,), jnp.uint32, sharding=sharding)
    return jax.jit(shuffled, static_argnums=(1, 2)).lower(words, n, half_bits).compile()
