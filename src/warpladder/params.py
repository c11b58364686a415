"""Parameters: one flat float32 buffer, named views into it, and the seeded initial weights.

Order and names are those of PyTorch's `state_dict` of the equal `nn.Sequential`:
"0.weight", "0.bias", "2.weight", ... where the number is the layer's index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .nets import Net, Shape


@dataclass(frozen=True)
class Slot:
    """Where one parameter tensor lies in the flat buffer, in elements."""

    name: str
    layer: int
    shape: Shape
    start: int
    stop: int


def slots(net: Net) -> tuple[Slot, ...]:
    """The parameter tensors of a net, in the order of the flat buffer, without gaps."""
    out: list[Slot] = []
    start = 0
    for index, layer in enumerate(net.layers):
        for kind, shape in layer.param_shapes(net.shapes[index]).items():
            stop = start + math.prod(shape)
            out.append(Slot(f"{index}.{kind}", index, shape, start, stop))
            start = stop
    return tuple(out)


def views(net: Net, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Named, shaped views into a flat buffer (param_count,); writing to a view writes to the buffer."""
    if flat.shape != (net.param_count,):
        raise ValueError(f"net {net.name!r} has {net.param_count} parameters, the buffer has shape {flat.shape}")
    return {slot.name: flat[slot.start : slot.stop].reshape(slot.shape) for slot in slots(net)}


def initial(net: Net, seed: int) -> np.ndarray:
    """(param_count,) float32: weights normal with variance 2 / fan_in (He et al. 2015), biases 0.

    Each tensor draws from its own Philox stream keyed by (seed, tensor number), in float64, and
    is then rounded: the same bits on every rung and platform.
    """
    flat = np.zeros(net.param_count, np.float32)
    for number, slot in enumerate(slots(net)):
        if len(slot.shape) > 1:
            fan_in = math.prod(slot.shape[1:])
            stream = np.random.Generator(np.random.Philox(key=[seed, number]))
            values = stream.standard_normal(slot.stop - slot.start) * math.sqrt(2 / fan_in)
            flat[slot.start : slot.stop] = values.astype(np.float32)
    return flat
