"""Segments bound to arrays that a test has made, without a trainer around them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from warpladder.config import TrainConfig
from warpladder.device import Array, Device, Limits
from warpladder.nets import CrossEntropyLoss, Layer, Loss, Net, Shape
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import Subgraph, chain, gathering, subgraph
from warpladder.ops.engine.kernels import Log
from warpladder.ops.engine.segments import GatherSegment, KernelTable, LossSegment, Operands, Segment, StoredSamples
from warpladder.trainers.kernelwise.boundaries import Boundaries
from warpladder.trainers.kernelwise.trainer import KernelTrainer

Some = TypeVar("Some", bound=Segment)


def for_layers(
    kind: type[Some],
    device: Device,
    layers: tuple[Layer, ...],
    buffers: Buffers,
    block_size: int = 256,
    relu_output: bool = False,
) -> Some:
    """A segment for layers alone, for as many samples as x holds. relu_output: both what enters and what leaves them is
    a ReLU's output.
    """
    nodes = subgraph(layers, tuple(buffers.x.shape[1:]), len(buffers.x), device.limits)
    params, grads = (
        tuple(a for a in pair if a is not None) for pair in ((buffers.w, buffers.b), (buffers.dw, buffers.db))
    )
    return kind(
        device, nodes, Operands(buffers, params, grads, masks_dx=relu_output, dy_is_masked=relu_output), block_size
    )


def for_gather(
    kind: type[Segment], device: Device, samples: StoredSamples, x: Array, target: Array | None, batch: int, block_size: int = 256
) -> GatherSegment:  # fmt: skip
    """A segment that gathers, for as many samples as x holds, of full batches of `batch`."""
    nodes = replace(gathering(tuple(x.shape[1:]), len(x), device.limits), batch=batch)
    found = kind(device, nodes, Operands(Buffers(x, x), samples=samples, target=target), block_size)
    assert isinstance(found, GatherSegment)
    return found


def for_loss(
    kind: type[Segment], device: Device, loss: Loss, x: Array, target: Array, dx: Array, log: Log, block_size: int = 256
) -> LossSegment:  # fmt: skip
    """A segment for a loss, for as many samples as x holds."""
    nodes = Subgraph((loss,), (None,), (tuple(x.shape[1:]),), len(x), len(x), device.limits, TrainConfig())
    found = kind(device, nodes, Operands(Buffers(x, None, dx), target=target, log=log), block_size)
    assert isinstance(found, LossSegment)
    return found


def stored(
    device: Device, source: np.ndarray, scale: float, labels: np.ndarray | None, order: np.ndarray | None, step: int = 0
) -> StoredSamples:
    """A data set on a device, at this step of an epoch in this order; none takes the rows as they stand."""
    on = device.array
    return StoredSamples(
        on(source, "source"), np.float32(scale), None if labels is None else on(labels.astype(np.int32), "labels"),
        None if order is None else on(order, "order"), on(np.array([step], np.int32), "step"),
    )  # fmt: skip


def step_of(
    layers: tuple[Layer, ...],
    in_shape: Shape,
    limits: Limits,
    capacity: int,
    batch: int,
    gathers: bool,
    loss: Loss | None = None,
) -> Subgraph:
    """The nodes of a step of a net of these layers."""
    net = Net("a step", in_shape, layers, loss or CrossEntropyLoss())
    return chain(net, capacity, batch, limits, TrainConfig(), gathers)


def kinds(trainer: KernelTrainer) -> list[type[Segment]]:
    """The segments of a trainer's chain, in order."""
    assert trainer.chain is not None
    return [type(segment) for segment in trainer.chain.segments]


def boundaries(net: Net, table: KernelTable, device: Device, capacity: int = 1, gathers: bool = True) -> Boundaries:
    """A net's step as a table cuts it."""
    return Boundaries(net, table.cut_net(chain(net, capacity, capacity, device.limits, TrainConfig(), gathers), net))
