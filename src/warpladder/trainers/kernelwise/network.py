"""The buffers of a net on a device, for a number of samples at a time, and the ops that are bound to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...device import Array, Device
from ...errors import RungError
from ...nets import Flatten, Layer, Net, ReLU
from ...ops.base import Buffers
from ...ops.kernels import KernelOp, KernelTable, Launches


@dataclass(frozen=True)
class Group:
    """Consecutive layers, first..last-1, that one op computes; Flatten, which computes nothing, has no op."""

    first: int
    last: int
    op: type[KernelOp] | None


def groups(net: Net, table: KernelTable) -> list[Group]:
    """The net as the table computes it: from each layer on, the longest run of layers that the table has and that its op takes."""
    out = []
    first = 0
    while first < len(net.layers):
        if isinstance(net.layers[first], Flatten):
            out.append(Group(first, first + 1, None))
        elif (found := table.longest(net.layers[first:], net.shapes[first])) is not None:
            length, op = found
            out.append(Group(first, first + length, op))
        else:
            raise RungError(f"these kernels have nothing for {type(net.layers[first]).__name__} (layer {first} of net {net.name!r})")
        first = out[-1].last
    return out


def in_place(net: Net, found: list[Group]) -> set[int]:
    """The groups, by number, that may write over their input: a lone ReLU, unless its input is the net's, which MSELoss still needs."""
    out = set()
    untouchable = True
    for number, group in enumerate(found):
        if isinstance(net.layers[group.first], ReLU) and group.last == group.first + 1 and not untouchable:
            out.add(number)
        if group.op is not None:
            untouchable = False
    return out


@dataclass(frozen=True)
class Stage:
    """A part of a step: what is done, to which layers (none for feed, loss, sum and update), by which launches."""

    phase: str
    layers: range
    launches: Launches


@dataclass
class Network:
    """A net bound to a device's memory.

    capacity : samples that the buffers hold.
    x, y : (capacity, *in_shape) and (capacity, *out_shape), what enters the net and what leaves it.
    dy : the gradient by y; None in buffers that only predict.
    ops : each with the number of its first layer.
    activations, gradients : distinct arrays, for the account of memory.
    """

    net: Net
    capacity: int
    x: Array
    y: Array
    dy: Array | None
    ops: list[tuple[int, KernelOp]]
    activations: list[Array] = field(default_factory=list)
    gradients: list[Array] = field(default_factory=list)

    def prepare(self, n: int) -> list[Stage]:
        """What the layers make of their parameters before they see n samples."""
        return [stage for first, op in self.ops if (stage := self._stage("prepare", first, op, op.prepare(n))).launches]

    def forward(self, n: int) -> list[Stage]:
        """All layers, for the first n samples."""
        return [self._stage("forward", first, op, op.forward(n)) for first, op in self.ops]

    def backward(self, n: int) -> list[Stage]:
        """All gradients that somebody needs, from dy."""
        return [
            self._stage("backward", first, op, op.backward(n))
            for first, op in reversed(self.ops)
            if first + len(op.layers) > self.net.first_trained
        ]

    @staticmethod
    def _stage(phase: str, first: int, op: KernelOp, launches: Launches) -> Stage:
        return Stage(phase, range(first, first + len(op.layers)), launches)


def sizes(net: Net, table: KernelTable, capacity: int, train: bool) -> dict[str, int]:
    """Bytes of the buffers that `bind` takes, by what they are for; the ops' own scratch memory is not among them."""
    found = groups(net, table)
    same = in_place(net, found)
    needs: dict[str, int] = {"input": 4 * capacity * math.prod(net.in_shape)}
    for number, group in enumerate(found):
        if group.op is not None and number not in same:
            size = 4 * capacity * math.prod(net.shapes[group.last])
            name = f"layer {group.last - 1} ({type(net.layers[group.last - 1]).__name__})"
            needs[f"output of {name}"] = size
            if train and group.last > net.first_trained:
                needs[f"gradient of {name}"] = size
    return needs


def bind(
    net: Net, table: KernelTable, device: Device, capacity: int, w: Mapping[str, Array], dw: Mapping[str, Array], block_size: int
) -> Network:
    """Take memory for `capacity` samples and bind every op to it.

    Parameters
    ----------
    w, dw : mapping of str to Array
        Parameters and their gradients, by the names of `params.places`; an empty dw binds for prediction alone.
    """
    train = bool(dw)
    found = groups(net, table)
    same = in_place(net, found)
    x = device.empty((capacity, *net.in_shape), np.float32, "input")
    outputs = [x]
    activations = []
    for number, group in enumerate(found):
        shape = (capacity, *net.shapes[group.last])
        if group.op is None or number in same:
            outputs.append(outputs[-1].reshape(shape))
        else:
            outputs.append(device.empty(shape, np.float32, "activations"))
            activations.append(outputs[-1])
    gradients: list[Array | None] = [None] * (len(found) + 1)
    kept = []
    if train:
        for number in reversed(range(len(found) + 1)):
            shape = outputs[number].shape
            above = gradients[number + 1] if number < len(found) else None
            layer = found[number].first if number < len(found) else len(net.layers)
            if layer <= net.first_trained and number < len(found):
                break
            if above is not None and (found[number].op is None or number in same):
                gradients[number] = above.reshape(shape)
            else:
                gradients[number] = device.empty(shape, np.float32, "gradients")
                kept.append(gradients[number])
    ops = []
    rectified = [*(_rectifies(net, found, number) for number in range(len(found))), False]
    for number, group in enumerate(found):
        if group.op is None:
            continue
        layers: tuple[Layer, ...] = net.layers[group.first : group.last]
        at = next((i for i in range(group.first, group.last) if f"{i}.weight" in w), None)
        weights = (views.get(f"{at}.{name}") for views in (w, dw) for name in ("weight", "bias"))
        buffers = Buffers(outputs[number], outputs[number + 1], gradients[number], gradients[number + 1], *weights)
        op = group.op(device, layers, buffers, block_size)
        op.x_rectified, op.dy_rectified = rectified[number], rectified[number + 1]
        ops.append((group.first, op))
    return Network(net, capacity, x, outputs[-1], gradients[-1], ops, activations, [g for g in kept if g is not None])


def _rectifies(net: Net, found: list[Group], number: int) -> bool:
    """Whether a group also computes, on its way out, the gradient of the ReLU that the group before it ends with."""
    op = found[number].op
    return number > 0 and op is not None and op.rectifies and isinstance(net.layers[found[number - 1].last - 1], ReLU)
