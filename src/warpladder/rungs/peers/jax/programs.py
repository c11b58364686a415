"""Compiled programs of JAX: training steps and predictions, one for each shape of the data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from ....data.order import ORDER_WORDS
from ....errors import RungError
from ....nets import Conv2d, Linear, Net
from ....nets.params import buffer_slices, param_slices
from .net import Tree, forward
from .steps import WIDTH, Held, Length, Rule, pixels, steps


class SampleArrays(NamedTuple):
    """Shapes and dtypes of a data set's arrays on the device.

    shape, dtype : shape and dtype of the samples.
    goal : shape of a sample's label, (), or target, (outputs,); None if the net learns its input.
    is_scaled : True if a program multiplies the samples by their scale. is_weighted : True if goals end in a sample's
    weight.
    """

    shape: tuple[int, ...]
    dtype: str
    goal: tuple[int, ...] | None
    is_scaled: bool
    is_weighted: bool
    sharding: SingleDeviceSharding


def device(platform: str) -> jax.Device:
    """First device of a platform, "cpu" or "gpu". Raises `RungError` if there is none."""
    try:
        return jax.devices(platform)[0]
    except RuntimeError as error:
        raise RungError(f"JAX has no {platform} here: {str(error).splitlines()[0]}") from error


def seen(x: jax.Array, scale: jax.Array, precision: str) -> jax.Array:
    """Samples x times scale, as the net's input, in the format of the products' factors."""
    out = jax.jit(pixels)(x, scale)
    return out.astype(jnp.bfloat16) if precision == "bf16" else out


@lru_cache(maxsize=256)
def program(net: Net, rule: Rule, precision: str, length: Length, samples: SampleArrays) -> Any:
    """Compiled `steps` for data of this shape; equal rules share it."""

    def array(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=samples.sharding)

    shape, params = samples.shape, tensors(net, samples.sharding)
    held = Held(params, dict.fromkeys(rule.slots, params), running(net, samples.sharding))
    table = array((WIDTH,) if rule.steady else (length.count, WIDTH), np.float32)
    scale = array((), np.float32) if samples.is_scaled else None
    goal = samples.goal
    y = None if goal is None else array((shape[0], *goal), np.float32 if goal else np.int32)
    place: Any = None if length.whole else (array(shape[:1], np.int32), array((), np.int32))
    if length.half_bits is not None:
        place = array((ORDER_WORDS,), np.uint32)
    keys = array((2,), np.uint32) if net.is_random else None
    work = jax.jit(steps(net, rule, precision, length, samples.is_weighted), donate_argnums=0)
    return work.lower(held, table, scale, array(shape, samples.dtype), y, place, keys).compile()


@lru_cache(maxsize=256)
def prediction(net: Net, precision: str, shape: tuple[int, ...], dtype: str, sharding: SingleDeviceSharding) -> Any:
    """Compiled program from stored samples of this shape to the net's output."""

    def work(params: Tree, buffers: Tree, rates: jax.Array, x: jax.Array) -> jax.Array:
        return forward(net, params, buffers, pixels(x, rates[0]), precision)[0]

    shapes = (
        jax.ShapeDtypeStruct((1,), np.float32, sharding=sharding),
        jax.ShapeDtypeStruct(shape, dtype, sharding=sharding),
    )
    return jax.jit(work).lower(tensors(net, sharding), running(net, sharding), *shapes).compile()


def tensors(net: Net, sharding: SingleDeviceSharding) -> dict[str, Any]:
    """`jax.ShapeDtypeStruct` of each parameter by name, in this peer's layout."""
    out = {}
    for place in param_slices(net):
        shape = place.shape
        if isinstance(net.layers[place.layer], Linear) and len(shape) == 2:
            shape = shape[::-1]
        elif isinstance(net.layers[place.layer], Conv2d) and len(shape) == 4:
            shape = (*shape[2:], shape[1], shape[0])
        out[place.name] = jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
    return out


def running(net: Net, sharding: SingleDeviceSharding) -> dict[str, Any]:
    """`jax.ShapeDtypeStruct` of each running statistic by name."""
    return {
        place.name: jax.ShapeDtypeStruct(place.shape, np.float32, sharding=sharding) for place in buffer_slices(net)
    }
