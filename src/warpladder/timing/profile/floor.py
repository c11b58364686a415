"""Floors of the parts of a training step: the fewest floating-point operations, and bytes to and from memory.

Each input is read once and each output written once, all as float32 unless a number's size is given in bytes. Numbers
that a cache holds between two parts are counted in both.
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
    """Floor of a copy of the layers' weights into another order: read once, written once."""
    return Floor(0, 2 * FLOAT * _weights(net, layers))


def forward(net: Net, layers: range, n: int, size: int = FLOAT) -> Floor:
    """Floor of the forward pass of consecutive layers for n samples: inputs and weights read, outputs written."""
    values = n * (math.prod(net.shapes[layers.start]) + math.prod(net.shapes[layers.stop]))
    return Floor(n * sum(_flops(net, i) for i in layers), size * (values + _weights(net, layers)))


def backward(net: Net, layers: range, n: int, size: int = FLOAT) -> Floor:
    """Floor of the backward pass of consecutive layers for n samples: gradients of weights and, if a layer needs it, of
    inputs.
    """
    wanted = layers.start > net.first_trained
    entering, leaving = (n * math.prod(net.shapes[i]) for i in (layers.start, layers.stop))
    weights = _weights(net, layers)
    flops = sum(_flops(net, i) * (bool(_weights(net, range(i, i + 1))) + (i > net.first_trained)) for i in layers)
    read = leaving + (entering if weights or not wanted else 0) + (weights if wanted else 0)
    return Floor(n * flops, size * (read + weights + (entering if wanted else 0)))


def loss(net: Net, n: int, size: int = FLOAT) -> Floor:
    """Floor of the loss and its gradient: logits and labels (or output and target) read, a gradient written."""
    out = n * math.prod(net.out_shape)
    labelled = isinstance(net.loss, CrossEntropyLoss)
    return Floor(
        out * (4 if labelled else 3), size * (2 * out if labelled else 3 * out) + (LABEL * n if labelled else 0)
    )


def update(
    net: Net, config: TrainConfig, size: int = FLOAT, layers: Collection[int] | None = None, fused: bool = False
) -> Floor:
    """Floor of the update: gradients, parameters and optimizer slots read, parameters and slots written.

    layers : numbers of the layers whose parameters are updated; None for all.
    fused : True if the kernel that computes the gradients updates too, and need not read them from memory.
    """
    count = net.param_count if layers is None else sum(_weights(net, range(i, i + 1)) for i in layers)
    arrays = 3 - fused + 2 * len(config.optimizer.slots)
    return Floor(count * _update_flops(config), size * arrays * count)


def feed(net: Net, n: int, itemsize: int, size: int = FLOAT) -> Floor:
    """Floor of the input conversion: stored samples read, numbers of `size` bytes written."""
    return Floor(n * math.prod(net.in_shape), n * math.prod(net.in_shape) * (itemsize + size))


def step(net: Net, n: int, itemsize: int, update: TrainConfig | None) -> Floor:
    """Floor of a whole step as one part: samples and weights read, gradients written.

    update : settings of a step that includes the update: parameters and optimizer slots are read and written instead.
    """
    arrays = 2 + 2 * len(update.optimizer.slots) if update is not None else 2
    read = n * math.prod(net.in_shape) * itemsize
    own = net.param_count * _update_flops(update) if update is not None else 0
    return Floor(n * net.train_flops + own, read + FLOAT * arrays * net.param_count)


def _update_flops(config: TrainConfig) -> int:
    """Smallest FLOPs of an optimizer's step for one parameter: a multiplication and an addition for each array that it
    changes. Adam takes some more.
    """
    return 2 * (1 + len(config.optimizer.slots))


def _flops(net: Net, index: int) -> int:
    return net.layers[index].flops(net.shapes[index])


def _weights(net: Net, layers: range) -> int:
    return sum(math.prod(shape) for i in layers for shape in net.layers[i].param_shapes(net.shapes[i]).values())
