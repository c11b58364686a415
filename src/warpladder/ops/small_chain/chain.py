"""Small linear layers and a loss: a step in two launches, whatever the number of layers and the functions between."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...device import Array, Device
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands
from ..linear.short_gradients import tile_grid, tile_shared, weight_tile
from .links import links
from .plan import THREADS, fastest, padded, planned
from .segment import ChainSegment
from .source import FORWARD, GRADIENT, Reading, forward_source, gradient_source


class SmallChain(ChainSegment):
    """Segment [Gather,] [functions of one number,] Linear, functions, ..., Linear, loss, whose layers are small.

    A block has a few samples, and needs no other block: it computes all layers forward, the loss, and all layers
    backward. A second launch adds up the gradients of the weights over the samples.
    """

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        found, has_dx = links(subgraph), operands.buffers.dx is not None
        assert found is not None
        widths, capacity = found.widths, subgraph.capacity
        plan = fastest(widths, capacity, device.limits, has_dx, tuple(found.further_rows(has_dx).values()))
        assert plan is not None
        self.plan = plan
        self.bind_settings(found)
        self._bind_samples(operands)
        self.y = [self.scratch((capacity, padded(width))) for width in widths[1:-1]]
        self.g = [self.scratch((capacity, padded(width))) for width in widths[1:]]
        self.lost, self.hits = self.scratch((capacity,), np.float64), self.scratch((capacity,), np.int32)
        pixel = "unsigned char" if self.stored.dtype == np.uint8 else "float"
        reading = Reading(pixel, subgraph.gathers, self.goal is self.stored, operands.shares is not None)
        self.forward_kernel = device.kernel(forward_source(found, plan, reading), FORWARD)
        self.tile = weight_tile(device.limits, list(pairwise(widths)))
        self.gradient_kernel = device.kernel(gradient_source(found, self.pitch, self.tile, self.optimizer), GRADIENT)

    def _bind_samples(self, operands: Operands) -> None:
        """Set the arrays from which samples and goals are read, and `x`, in rows of `pitch` floats, the first layer's
        input.
        """
        samples, inputs, capacity = operands.samples, self.links.widths[0], self.subgraph.capacity
        if samples is not None:
            self.stored, scale, self.order = samples.stored, np.float32(samples.scale), samples.order
            goal = samples.labels if self.links.has_labels else samples.targets
            self.goal = self.stored if goal is None else goal
        else:
            self.stored, scale, self.order = operands.buffers.x, np.float32(1), None
            assert operands.target is not None
            self.goal = operands.target
        self.writes_x = samples is not None or bool(self.links.functions[0])
        self.pitch = padded(inputs) if self.writes_x else inputs
        self.x = self.scratch((capacity, self.pitch)) if self.writes_x else self.stored.reshape((capacity, inputs))
        self.reads_order = self.order is not None or samples is None
        key = None if operands.mask_key is None else operands.mask_key.key
        self.read = self.stored, scale, self.goal, self.order, self.log.step, key, operands.shares

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        found, has_dx = links(subgraph), not subgraph.gathers and subgraph.layers_at.start > 0
        if found is None:
            return False
        further = tuple(found.further_rows(has_dx).values())
        fitting = found.widths, subgraph.capacity, subgraph.limits
        return planned(*fitting, has_dx, further, found.launches(has_dx)) is not None

    def forward(self, part: Slice) -> Launches:
        """Launch of the loss of n samples, the gradients by all layers' outputs, and dx unless None."""
        lost, hits = (self.lost, self.hits) if part.has_loss else (None, None)
        x = self.x if self.writes_x else None
        written = x, self.operands.buffers.dx, *self.y, *self.g, lost, hits, self.row
        numbers = part.n, self.subgraph.batch, part.offset, np.float32(1 / part.batch)
        table = None if self.row is None else self.operands.numbers
        arrays = *self.read, self.setting, table, *self.trained(self.operands.params), *written
        grid = ceil_div(part.n, self.plan.samples)
        return [self.forward_kernel.bind(grid, THREADS, *arrays, *numbers, shared=self.plan.shared)]

    def backward(self, part: Slice) -> Launches:
        """Launch of the gradients of all parameters, the log, and the update if the batch comes in one slice."""
        grids = [tile_grid(self.tile, *layer) for layer in pairwise(self.plan.widths)]
        blocks = sum(across * down for across, down in grids) + 1  # and one for the log
        weights = part.batch if self.operands.shares is None else 1  # of all samples in the mean
        log = *self.log.entry(part.has_loss), part.n, weights, int(part.is_first), int(part.is_last)
        read: tuple[Array, ...] = self.x, *self.y, *self.g
        grads = self.trained(self.operands.grads)
        written = *grads, self.lost, self.hits, *self.step(part)
        return [self.gradient_kernel.bind(blocks, THREADS, *read, *written, *log, shared=tile_shared(self.tile))]
