"""Parameters: one flat float32 buffer, named views into it, and the seeded initial weights.

Order and names are those of PyTorch's `state_dict` of the same `nn.Sequential`: "0.weight", "0.bias", "2.weight", ...
The number is the layer's index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import Net, Shape


@dataclass(frozen=True)
class ParamSlice:
    """Range of one parameter tensor in the flat buffer: elements start to stop."""

    name: str
    layer: int
    shape: Shape
    start: int
    stop: int


@lru_cache(maxsize=64)
def param_slices(net: Net) -> tuple[ParamSlice, ...]:
    """Parameter tensors of a net, in the order of the flat buffer, without gaps."""
    known: dict[str, tuple[ParamSlice, ...]] = vars(net)  # a net does not change: worked out once, as `Net.shapes`
    if "_param_slices" not in known:
        known["_param_slices"] = _param_slices(net)
    return known["_param_slices"]


def _param_slices(net: Net) -> tuple[ParamSlice, ...]:
    out: list[ParamSlice] = []
    start = 0
    for index, layer in enumerate(net.layers):
        for kind, shape in layer.param_shapes(net.shapes[index]).items():
            stop = start + math.prod(shape)
            out.append(ParamSlice(f"{index}.{kind}", index, shape, start, stop))
            start = stop
    return tuple(out)


def views(net: Net, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Named, shaped views into a flat buffer (param_count,). Writing to a view writes to the buffer."""
    if flat.shape != (net.param_count,):
        raise ValueError(f"net {net.name!r} has {net.param_count} parameters, the buffer has shape {flat.shape}")
    return {place.name: flat[place.start : place.stop].reshape(place.shape) for place in param_slices(net)}


def initial(net: Net, seed: int) -> np.ndarray:
    """Initial parameters (param_count,) float32: weights normal with variance 2 / fan_in (He et al. 2015), biases 0.

    Each tensor draws from its own Philox stream, keyed by (seed, tensor number), in float64, and is then rounded: the
    same bits on every rung and platform.
    """
    flat = np.zeros(net.param_count, np.float32)
    for number, place in enumerate(param_slices(net)):
        if len(place.shape) > 1:
            fan_in = math.prod(place.shape[1:])
            stream = np.random.Generator(np.random.Philox(key=[seed, number]))
            values = stream.standard_normal(place.stop - place.start) * math.sqrt(2 / fan_in)
            flat[place.start : place.stop] = values.astype(np.float32)
    return flat
