"""First convolutions of a small net, each with an activation and a max pool or neither, in three launches a step."""

from __future__ import annotations

import numpy as np

from ...device import Array, Device
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import Launches, ceil_div
from ..engine.segments import Operands
from ..update.stepped import StepsInPlace
from .plan import fitting, planned
from .source import BACKWARD, FINISH, FORWARD, backward_source, finish_source, forward_source
from .stages import stages


class SmallConvolutions(StepsInPlace):
    """Segment Gather, Conv2d [activation] [MaxPool2d], Conv2d, ..., whose activations fit in a block's shared memory.

    A block computes all layers of one sample after another; another launch adds up the blocks' weight gradients.
    """

    cost = 2
    masks_dy = True

    def __init__(self, device: Device, subgraph: Subgraph, operands: Operands, block_size: int) -> None:
        super().__init__(device, subgraph, operands, block_size)
        found = stages(subgraph)
        assert found is not None and operands.samples is not None
        plan = fitting(found, device.limits)
        assert plan is not None
        self.plan, self.samples = plan, operands.samples
        capacity, trains = subgraph.capacity, operands.buffers.dy is not None
        self.z, self.argmax = self._outputs(capacity)
        pixel = "unsigned char" if self.samples.stored.dtype == np.uint8 else "float"
        self.forward_kernel = device.kernel(forward_source(plan, pixel), FORWARD)
        self.total = sum(stage.weights + stage.o for stage in found)
        self.bind_step()
        if trains:
            most = max(plan.blocks(n, device.limits, plan.backward_shared) for n in range(1, capacity + 1))
            self.rows = self.scratch((most, self.total))
            self.backward_kernel = device.kernel(backward_source(plan), BACKWARD)
            self.finish_kernel = device.kernel(finish_source(plan, self.optimizer), FINISH)

    def _outputs(self, capacity: int) -> tuple[list[Array], list[Array | None]]:
        """Output of each stage, the segment's for the last one, and argmax indices of those with a pool."""
        found = [each.stage for each in self.plan.stages]
        shapes = [(capacity, stage.o, stage.rows, stage.columns) for stage in found]
        z = [*(self.scratch(shape) for shape in shapes[:-1]), self.buffers.y]
        argmax = [
            self.scratch(shape, np.uint8) if stage.pool > 1 else None
            for stage, shape in zip(found, shapes, strict=True)
        ]
        return z, argmax

    @classmethod
    def takes(cls, subgraph: Subgraph) -> bool:
        found = stages(subgraph)
        return found is not None and planned(found, subgraph.capacity, subgraph.limits) is not None

    @property
    def _stored(self) -> list[Array]:
        """Outputs and argmax indices of the stages, in the order of the kernels' arguments."""
        return [
            array
            for pair in zip(self.z, self.argmax, strict=True)
            for array in pair
            if array is not None
        ]  # fmt: skip

    def _trained(self, arrays: tuple[Array, ...]) -> list[Array]:
        """Weights and biases, or their gradients, without those of layers that have no bias."""
        kept = [flag for each in self.plan.stages for flag in (True, each.stage.has_bias)]
        return [array for array, is_kept in zip(arrays, kept, strict=True) if is_kept]

    def forward(self, part: Slice) -> Launches:
        """Launch of all stages' outputs, the scaled samples x, and the labels."""
        s, shared = self.samples, self.plan.forward_shared
        table = None if self.row is None else self.operands.numbers
        arrays = s.stored, s.scale, s.order, s.step, s.labels, self.operands.target
        written = self.buffers.x, *self._stored, table, self.row
        grid = self.plan.blocks(part.n, self.device.limits, shared)
        numbers = part.n, self.subgraph.batch, part.offset
        parameters = self._trained(self.operands.params)
        return [
            self.forward_kernel.bind(
                grid, self.plan.threads, *arrays, *parameters, *written, *numbers, shared=4 * shared
            )
        ]

    def backward(self, part: Slice) -> Launches:
        """Launches of the gradients of all parameters, and the update if the batch comes in one slice."""
        shared = self.plan.backward_shared
        grid = self.plan.blocks(part.n, self.device.limits, shared)
        weights = self.operands.params[2::2]
        read = self.buffers.x, *self._stored, self.buffers.dy, *weights
        grads = self._trained(self.operands.grads)
        return [
            self.backward_kernel.bind(grid, self.plan.threads, *read, self.rows, part.n, shared=4 * shared),
            self.finish_kernel.bind(
                ceil_div(self.total, 32), self.plan.threads, self.rows, *grads, *self.step(part), grid
            ),
        ]
