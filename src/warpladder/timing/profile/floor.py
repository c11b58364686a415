"""The least that a part of a training step must do: floating-point operations, and bytes to and from memory.

Each input is read once and each output written once, all as float32 unless a number's size is given in bytes; what a
faster memory keeps between two parts is not counted off.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ...config import TrainConfig
from ...nets import CrossEntropyLoss, Net
from ...results.profiled import Floor as Floor

FLOAT = 4  # bytes of a number
LABEL = 4  # bytes


def prepare(net: Net, layers: range) -> Floor:
    """Weights in, and out in another order."""
    return Floor(0, 2 * FLOAT * _weights(net, layers))


def forward(net: Net, layers: range, n: int, size: int = FLOAT) -> Floor:
    """Consecutive layers, from what enters the first to what leaves the last, n samples."""
    values = n * (math.prod(net.shapes[layers.start]) + math.prod(net.shapes[layers.stop]))
    return Floor(n * sum(_flops(net, i) for i in layers), size * (values + _weights(net, layers)))


def backward(net: Net, layers: range, n: int, size: int = FLOAT) -> Floor:
    """Their gradients: of the weights, and of what enters the first, if a layer needs it."""
    wanted = layers.start > net.first_trained
    entering, leaving = (n * math.prod(net.shapes[i]) for i in (layers.start, layers.stop))
    weights = _weights(net, layers)
    flops = sum(_flops(net, i) * (bool(_weights(net, range(i, i + 1))) + (i > net.first_trained)) for i in layers)
    read = leaving + (entering if weights or not wanted else 0) + (weights if wanted else 0)
    return Floor(n * flops, size * (read + weights + (entering if wanted else 0)))


def loss(net: Net, n: int, size: int = FLOAT) -> Floor:
    """The loss and its gradient: logits and labels (or output and target) in, a gradient out."""
    out = n * math.prod(net.out_shape)
    labelled = isinstance(net.loss, CrossEntropyLoss)
    return Floor(
        out * (4 if labelled else 3), size * (2 * out if labelled else 3 * out) + (LABEL * n if labelled else 0)
    )


def update(
    net: Net, config: TrainConfig, size: int = FLOAT, layers: Collection[int] | None = None, fused: bool = False
) -> Floor:
    """Gradients and parameters in, parameters out; the optimizer's slots in and out too.

    layers : numbers of the layers whose parameters are updated; None for all.
    fused : True if the kernel that computes the gradients makes the step too, and so need not read them from memory.
    """
    count = net.param_count if layers is None else sum(_weights(net, range(i, i + 1)) for i in layers)
    arrays = 3 - fused + 2 * len(config.optimizer.slots)
    return Floor(count * _update_flops(config), size * arrays * count)


def feed(net: Net, n: int, itemsize: int, size: int = FLOAT) -> Floor:
    """Stored samples in, numbers of `size` bytes out."""
    return Floor(n * math.prod(net.in_shape), n * math.prod(net.in_shape) * (itemsize + size))


def step(net: Net, n: int, itemsize: int, update: TrainConfig | None) -> Floor:
    """All of a step in one: samples in once, weights in, gradients out; or, with its update, weights, and what the
    optimizer keeps, in and out.
    """
    arrays = 2 + 2 * len(update.optimizer.slots) if update is not None else 2
    read = n * math.prod(net.in_shape) * itemsize
    own = net.param_count * _update_flops(update) if update is not None else 0
    return Floor(n * net.train_flops + own, read + FLOAT * arrays * net.param_count)


def _update_flops(config: TrainConfig) -> int:
    """FLOPs of an optimizer's step for one parameter, at least: a multiplication and an addition for each array that it
    changes; Adam takes some more.
    """
    return 2 * (1 + len(config.optimizer.slots))


def _flops(net: Net, index: int) -> int:
    return net.layers[index].flops(net.shapes[index])


def _weights(net: Net, layers: range) -> int:
    return sum(math.prod(shape) for i in layers for shape in net.layers[i].param_shapes(net.shapes[i]).values())
