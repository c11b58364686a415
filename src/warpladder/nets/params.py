"""Parameters: one flat float32 buffer, named views into it, and the seeded initial weights.

Order and names are as in PyTorch's `state_dict` of the same `nn.Sequential`: "0.weight", "0.bias", "2.weight", ...
The number is the layer's index in the chain; a layer of a `Residual` is "1.layers.0" or "1.projection.0". Buffers,
"1.running_mean" and "1.running_var", are another flat buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from . import Layer, Net, Shape


@dataclass(frozen=True)
class ParamSlice:
    """Range of one parameter tensor in the flat buffer: elements start to stop."""

    name: str
    layer: int
    shape: Shape
    start: int
    stop: int


def param_slices(net: Net) -> tuple[ParamSlice, ...]:
    """Parameter tensors of a net, in the order of the flat buffer, without gaps."""
    return _slices(net, "_param_slices", lambda layer, in_shape: layer.param_shapes(in_shape))


def _slices(net: Net, name: str, shapes: Callable[[Layer, Shape], Mapping[str, Shape]]) -> tuple[ParamSlice, ...]:
    """Slices of a flat buffer with all tensors of a net, layer by layer; `shapes` returns a layer's tensors' shapes by
    name.

    A net does not change: its slices are computed once and stored with it under `name`, as `Net.shapes` is.
    """
    known: dict[str, tuple[ParamSlice, ...]] = vars(net)
    if name not in known:
        out: list[ParamSlice] = []
        start = 0
        for index, layer in enumerate(net.layers):
            for kind, shape in shapes(layer, net.shapes[index]).items():
                stop = start + math.prod(shape)
                out.append(ParamSlice(f"{net.names[index]}.{kind}", index, shape, start, stop))
                start = stop
        known[name] = tuple(out)
    return known[name]


def views(net: Net, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Named, shaped views into a flat buffer (param_count,). Writing to a view writes to the buffer."""
    if flat.shape != (net.param_count,):
        raise ValueError(f"net {net.name!r} has {net.param_count} parameters, the buffer has shape {flat.shape}")
    return {place.name: flat[place.start : place.stop].reshape(place.shape) for place in param_slices(net)}


def buffer_slices(net: Net) -> tuple[ParamSlice, ...]:
    """Buffers of a net, running means and variances, in the order of their flat buffer (buffer_count,)."""
    return _slices(net, "_buffer_slices", lambda layer, in_shape: layer.buffer_shapes(in_shape))


def buffer_views(net: Net, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Named, shaped views into a flat buffer (buffer_count,)."""
    return {place.name: flat[place.start : place.stop].reshape(place.shape) for place in buffer_slices(net)}


def tensor_shapes(net: Net) -> dict[str, Shape]:
    """Shapes of all tensors, parameters and buffers, under their names in PyTorch's `state_dict`, in its order."""
    return {
        f"{net.names[index]}.{kind}": shape
        for index, layer in enumerate(net.layers)
        for of_kind in (layer.param_shapes, layer.buffer_shapes)
        for kind, shape in of_kind(net.shapes[index]).items()
    }


def tensors(net: Net, params: np.ndarray, buffers: np.ndarray) -> dict[str, np.ndarray]:
    """Views of parameters (param_count,) and buffers (buffer_count,) by name, in the order of `tensor_shapes`."""
    both = views(net, params) | buffer_views(net, buffers)
    return {name: both[name] for name in tensor_shapes(net)}


def joined(places: tuple[ParamSlice, ...], named: Mapping[str, np.ndarray]) -> np.ndarray:
    """Flat array (numbers,) of the tensors at `places`, from arrays by name, without gaps."""
    return np.concatenate([named[place.name].ravel() for place in places])


def initial_buffers(net: Net) -> np.ndarray:
    """Buffers (buffer_count,) float32 before the first batch: means 0 and variances 1."""
    flat = np.zeros(net.buffer_count, np.float32)
    for name, view in buffer_views(net, flat).items():
        view[...] = name.endswith("running_var")
    return flat


def initial(net: Net, seed: int, rule: str | None = None) -> np.ndarray:
    """Initial parameters (param_count,) float32; a normalisation's weights are 1 and its biases 0.

    rule : "he", as None, draws weights from a normal distribution of variance 2 / fan_in (He et al. 2015), "glorot"
    uniformly within sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010), both with biases 0; "pytorch" draws weights
    and biases uniformly within 1 / sqrt(fan_in), as PyTorch does.

    Each tensor draws from its own Philox stream, keyed by (seed, tensor number), in float64, and is then rounded: the
    same bits on every rung and platform.
    """
    flat = np.zeros(net.param_count, np.float32)
    places = param_slices(net)
    weights = {place.layer: place.shape for place in places if len(place.shape) > 1}
    for number, place in enumerate(places):
        part = flat[place.start : place.stop]
        if place.layer not in weights:
            part[:] = place.name.endswith("weight")
        elif len(place.shape) > 1 or rule == "pytorch":
            stream = np.random.Generator(np.random.Philox(key=[seed, number]))
            part[:] = _drawn(stream, rule or "he", weights[place.layer], len(part)).astype(np.float32)
    return flat


def _drawn(stream: np.random.Generator, rule: str, weight: Shape, count: int) -> np.ndarray:
    """Drawn values (count,) float64. weight : shape of the layer's weights, (outputs, inputs, ...)."""
    fan_in, fan_out = math.prod(weight[1:]), weight[0] * math.prod(weight[2:])
    if rule == "he":
        return stream.standard_normal(count) * math.sqrt(2 / fan_in)
    most = {"pytorch": 1 / math.sqrt(fan_in), "glorot": math.sqrt(6 / (fan_in + fan_out))}[rule]
    return stream.uniform(-most, most, count)
