"""Many samples through small linear layers and a loss, in two launches: a pass over the samples, and an end."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...device import Array, Device
from ..engine.chain import Gather, Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands
from ..small_chain.links import Links, links
from ..small_chain.segment import ChainSegment
from .finish import FINISH, finish_source, small_sums
from .plan import THREADS, PassPlan, planned
from .source import PASS, PassReading, pass_source

PACK = Path(__file__).with_name("pack.cu")
#: Numbers whose sums a block of the end computes; its threads. Rows of blocks that look for the largest inputs.
COLUMNS, FINISHING, LOOKING = 32, 512, 64
#: Largest share of the device's memory for the packed samples.
PACKED = 0.25


class OnePass(ChainSegment):
    """Segment Gather, Linear, functions of one number, Linear, ..., loss for thousands of samples.

    A block takes tiles of samples, and has all that it needs of a tile while it is in shared memory: the first layer's
    outputs on tensor cores, the layers after it, the loss, the way back, and the first layer's weight gradient on
    tensor cores. The blocks' sums are added by a second launch. The first layer's factors are two halves each, bytes
    one, in every precision.
    """

    factors = "fp32"

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        found, samples = links(subgraph), operands.samples
        assert found is not None and samples is not None
        self.bind_settings(found)
        stored = samples.stored
        is_bytes, capacity = stored.dtype == np.uint8, subgraph.capacity
        plan = plan_of(found, subgraph, is_bytes)
        assert plan is not None
        self.plan, self.blocks = plan, min(ceil_div(capacity, plan.rows), plan.resident * device.limits.multiprocessors)
        self.count = found.widths[0] * found.widths[1] + sum(count for _, _, count in small_sums(found))
        self.sums = self.scratch((self.blocks, self.count))
        self.lost, self.hits = self.scratch((self.blocks,), np.float64), self.scratch((self.blocks,), np.int32)
        goal = samples.labels if found.has_labels else samples.targets
        self.goal = stored if goal is None else goal
        self._bind_order(operands, len(stored))
        self._pack(stored)
        pixel = "unsigned char" if is_bytes else "float"
        reading = PassReading(pixel, goal is None, operands.shares is not None)
        self.pass_kernel = device.kernel(pass_source(found, plan, reading), PASS)
        self.finish_kernel = device.kernel(finish_source(found, self.optimizer), FINISH)

    def _bind_order(self, operands: Operands, stored: int) -> None:
        """Set what is read of the order: nothing if every batch has all samples, and no place in it matters."""
        samples, key = operands.samples, operands.mask_key
        assert samples is not None
        is_random = any(layer.is_random for layer in self.layers)
        fixed = self.subgraph.batch >= stored and not is_random and operands.shares is None
        self.order = None if fixed else samples.order
        self.reads_order = self.order is not None
        self.key = key.key if key is not None and is_random else None

    def _pack(self, stored: Array) -> None:
        """Pack the samples, once: they are the same in every epoch."""
        device, n, plan = self.device, len(stored), self.plan
        inputs, rows = plan.widths[0], n + plan.rows
        self.packed = self.scratch((rows, plan.pitch), np.uint8)
        self.sizes = None
        calls: Launches = []
        if stored.dtype == np.uint8:
            kernel = device.kernel(PACK, "pack_bytes")
            calls.append(kernel.bind(rows, THREADS, stored, self.packed, n, inputs, plan.pitch))
        else:
            self.sizes = self.counters(inputs)
            looking, kernel = device.kernel(PACK, "largest_inputs"), device.kernel(PACK, "pack_floats")
            calls.append(looking.bind((ceil_div(inputs, THREADS), LOOKING), THREADS, stored, self.sizes, n, inputs))
            width = ceil_div(inputs, 16) * 16
            calls.append(kernel.bind(rows, THREADS, stored, self.sizes, self.packed, n, inputs, plan.pitch, width))
        for call in calls:
            call.send()
        self.setup = tuple(calls)

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        found, stored = links(subgraph), subgraph.nodes[0]
        if found is None or not isinstance(stored, Gather) or found.functions[0] or subgraph.config is None:
            return False
        plan, most = plan_of(found, subgraph, stored.itemsize == 1), subgraph.limits.memory or math.inf
        return plan is not None and 0 < stored.samples * plan.pitch <= PACKED * most

    def forward(self, part: Slice) -> Launches:
        """Launch of the loss of n samples and of the blocks' sums of the gradients."""
        samples = self.operands.samples
        assert samples is not None
        lost, hits = (self.lost, self.hits) if part.has_loss else (None, None)
        table = None if self.row is None else self.operands.numbers
        goal_scale = samples.scale if self.goal is samples.stored else np.float32(1)
        read = self.packed, self.sizes, np.float32(samples.scale), self.goal, np.float32(goal_scale), self.order
        more = self.log.step, self.key, self.operands.shares, self.setting, table, *self.trained(self.operands.params)
        numbers = part.n, self.subgraph.batch, part.offset, np.float32(1 / part.batch)
        arguments = *read, *more, self.sums, lost, hits, self.row, *numbers
        return [self.pass_kernel.bind(self._blocks(part), self.plan.block, *arguments, shared=self.plan.shared)]

    def backward(self, part: Slice) -> Launches:
        """Launch of the gradients of all parameters, the log, and the update if the batch comes in one slice."""
        weights = part.batch if self.operands.shares is None else 1  # of all samples in the mean
        log = *self.log.entry(part.has_loss), weights, int(part.is_first), int(part.is_last)
        grads = self.trained(self.operands.grads)
        arguments = self.sums, self._blocks(part), *grads, self.lost, self.hits, *self.step(part), *log
        return [self.finish_kernel.bind(ceil_div(self.count, COLUMNS) + 1, FINISHING, *arguments)]

    def _blocks(self, part: Slice) -> int:
        return min(ceil_div(part.n, self.plan.rows), self.blocks)


def plan_of(found: Links, subgraph: Subgraph, is_bytes: bool) -> PassPlan | None:
    """Plan of a chain of bytes or floats; None if it has none."""
    small = sum(count for _, _, count in small_sums(found))
    return planned(found.widths, small, subgraph.capacity, is_bytes, subgraph.limits)
