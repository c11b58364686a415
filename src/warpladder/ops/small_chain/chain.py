"""Small linear layers and cross-entropy: a step in two launches, whatever the number of layers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...device import Array, Device
from ...nets import Linear
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands
from ..linear.short_gradients import tile_grid, tile_shared, weight_tile
from ..update.fused import UpdatesInPlace, settings
from .plan import THREADS, ChainPlan, padded, planned
from .source import FORWARD, GRADIENT, forward_source, gradient_source


class SmallChain(UpdatesInPlace):
    """Segment [Gather,] Linear, ReLU, ..., Linear, cross-entropy, if the layers' weights fit into shared memory.

    A block has a few samples, and needs no other block: it computes all layers forward, the loss, and all layers
    backward. A second launch adds up the gradients of the weights over the samples.
    """

    cost = 2

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        plan, log = _plan(subgraph, operands.buffers.dx is not None), operands.log
        assert plan is not None and log is not None
        self.plan, self.log, widths, capacity = plan, log, plan.widths, subgraph.capacity
        samples = operands.samples
        self.read: tuple[Array | np.float32 | None, ...]
        self.gathers = samples is not None
        if samples is not None:
            assert samples.labels is not None
            self.read = samples.stored, np.float32(samples.scale), samples.labels, samples.order, samples.step
            self.pitch = padded(widths[0])
            self.x = self.scratch((capacity, self.pitch))
        else:
            assert operands.target is not None
            self.x, self.pitch = operands.buffers.x.reshape((capacity, widths[0])), widths[0]
            self.read = self.x, np.float32(1), operands.target, None, None
        self.reads_order = samples is None or samples.order is not None
        self.y = [self.scratch((capacity, padded(width))) for width in widths[1:-1]]
        self.g = [self.scratch((capacity, padded(width))) for width in widths[1:]]
        self.lost, self.hits = self.scratch((capacity,), np.float64), self.scratch((capacity,), np.int32)
        stored = self.x if samples is None else samples.stored
        pixel = "unsigned char" if stored.dtype == np.uint8 else "float"
        self.forward_kernel = device.kernel(forward_source(plan, pixel, self.gathers), FORWARD)
        self.tile = weight_tile(device.limits, list(pairwise(widths)))
        self.gradient_kernel = device.kernel(gradient_source(widths, self.pitch, self.tile), GRADIENT)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        return _plan(subgraph, not subgraph.gathers) is not None

    def forward(self, part: Slice) -> Launches:
        """Launch of the loss of n samples, the gradients by all layers' outputs, and dx unless None."""
        lost, hits = (self.lost, self.hits) if part.has_loss else (None, None)
        written = self.x if self.gathers else None, self.operands.buffers.dx, *self.y, *self.g, lost, hits
        numbers = part.n, self.subgraph.batch, part.offset, np.float32(1 / part.batch)
        grid = ceil_div(part.n, self.plan.samples)
        arrays = *self.read, *self.operands.params, *written
        return [self.forward_kernel.bind(grid, THREADS, *arrays, *numbers, shared=self.plan.shared)]

    def backward(self, part: Slice) -> Launches:
        """Launch of the gradients of all parameters, the log, and the update if the batch comes in one slice."""
        grids = [tile_grid(self.tile, *layer) for layer in pairwise(self.plan.widths)]
        blocks = sum(across * down for across, down in grids) + 1  # and one for the log
        log = *self.log.entry(part.has_loss), part.n, part.batch, int(part.is_first), int(part.is_last)
        read: tuple[Array, ...] = self.x, *self.y, *self.g
        written = *self.operands.grads, self.lost, self.hits, *settings(self.operands.update, part)
        return [self.gradient_kernel.bind(blocks, THREADS, *read, *written, *log, shared=tile_shared(self.tile))]


def _plan(subgraph: Subgraph, has_dx: bool) -> ChainPlan | None:
    """Plan for a segment's layers; None if others compute them.

    has_dx : True if the gradient by the input is computed.
    """
    layers = [layer for layer in subgraph.layers if isinstance(layer, Linear)]
    (inputs,) = subgraph.shapes[subgraph.gathers]
    widths = inputs, *(layer.out_features for layer in layers)
    return planned(widths, subgraph.capacity, subgraph.limits, has_dx)
