"""Builder of a net's rows: its tensors, the allocated buffers, and the instructions by section."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....nets import CrossEntropyLoss, Net
from ..compiler.vectors import TOGETHER, WIDTH
from ..kernels.tile_sizes import BLOCK, ROWS
from .boundaries import ActivationBoundaries
from .elementwise_operands import ReluGradientOperands
from .fuse import FusedLayer, fuse
from .job import Instruction, Sections
from .layout import LayerWeights, WeightLayout
from .operands import NormOperands, TransposeOperands, UpdateOperands
from .tensors import Arena

#: floats of activations that a block may have: more do not fit the second-level cache, fewer read weights too often
CACHE = 256 * 1024

#: where the weights of Linear layers are stepped: in the update, inside the tile of their gradient, or, by the
#: optimizer's loop, after some tiles
SEPARATE, IN_REGISTERS, BY_LOOP = range(3)


class WorkSharing(NamedTuple):
    """Sharing of the work among threads, see threads/run.py.

    together : True if every instruction is divided among the threads; False if each trains a share of the batch.
    block : samples that pass the layers together. steps_weights : SEPARATE, IN_REGISTERS or BY_LOOP.
    update : the update's operation: "sgd", or "optimizer_loop" for an optimizer with a loop.
    clip_norm : L2 norm to which all gradients are scaled before the update, or None.
    steps_first : as steps_weights, for the first layer.
    """

    together: bool
    block: int
    steps_weights: int
    update: str
    clip_norm: float | None = None
    steps_first: int = SEPARATE


class RowBuilder:
    """Builder of a net's instructions; linear_rows.py, convolution_rows.py and layer_rows.py emit them.

    has_targets : True if the data set has targets; else a net without labels learns its input.
    has_shares : True if samples have weights in the means of their batches.
    """

    def __init__(
        self, net: Net, layout: WeightLayout, threads: int, sharing: WorkSharing, has_targets: bool = False,
        has_shares: bool = False,
    ) -> None:  # fmt: skip
        self.has_targets, self.has_shares = has_targets, has_shares
        self.net, self.layout, self.threads, self.sharing = net, layout, threads, sharing
        self.argmax_count = 0  # numbers of the buffers, handed out so far
        self.packed_count = 0
        self.statistics_count = 0
        self.gradient_count = layout.count
        #: first of the layers whose parameters are updated with their gradients, and the layer after the last
        self.stepped: dict[int, tuple[int, int]] = {}
        self.argmax: dict[int, int] = {}  # offset of a pool's argmax indices, by layer
        self.statistics: dict[int, int] = {}  # offset of a normalisation's statistics, by layer
        self.folded: dict[int, int] = {}  # offset of a convolution's folded weights, by layer
        self.enter, self.nodes = fuse(net)
        self.fused_relu = {node.y for node in self.nodes if node.has_relu}
        first = layout.layers.get(self.nodes[0].index)
        few_outputs = first is not None and first.has_few_outputs
        #: a first layer with few outputs reads the data set itself, unless the samples are also the target
        self.reads_samples = few_outputs and (has_targets or isinstance(net.loss, CrossEntropyLoss))
        small = sharing.block * math.prod(net.in_shape) <= CACHE
        copies = threads if sharing.together and not few_outputs and small else 1
        self.arena = Arena(sharing.block)
        self.boundaries = ActivationBoundaries(net, self.enter, self.nodes, self.arena, copies)
        self.values, self.value_gradients = self.boundaries.values, self.boundaries.gradients
        #: entries of an offset table: a block of pixels, or the elements of a patch
        self.offset_count = max([BLOCK] + [at.taps**2 * at.inputs + ROWS for at in layout.layers.values()])
        self._sections: dict[str, list[Instruction]] = {name: [] for name in Sections._fields}
        self.layers = range(0)  # layers that the next instructions are for

    def emit(self, section: str, operation: str, operands: Any) -> None:
        self._sections[section].append(Instruction(operation, operands, self.layers))

    def finished(self) -> tuple[list[Instruction], Sections]:
        """Rows in the order of their sections, and the first and last row of each section."""
        rows: list[Instruction] = []
        ranges: list[tuple[int, int]] = []
        for part in self._sections.values():
            ranges.append((len(rows), len(rows) + len(part)))
            rows += part
        return rows, Sections(*ranges)

    def enters(self, at: int) -> bool:
        """True if the layer after boundary `at` reads samples from the data set itself."""
        return self.reads_samples and at == self.enter

    def node_of(self, index: int) -> FusedLayer:
        """Node of layer `index`, which is a node of its own, or ends in a fused ReLU."""
        return next(node for node in self.nodes if node.index == index)

    def steps_of(self, node: FusedLayer) -> int:
        """Place of the update of a Linear layer's weights: SEPARATE, IN_REGISTERS or BY_LOOP."""
        return self.sharing.steps_first if node.x == self.enter else self.sharing.steps_weights

    def by_panel(self, panels: int) -> bool:
        """True if threads divide a Linear layer's gradients by panels: all have equally many, at least a tile's."""
        return panels % self.threads == 0 and panels >= TOGETHER * self.threads

    def pack(self, floats: int) -> int:
        """Offset of `floats` floats for rearranged weights, newly allocated."""
        self.packed_count += floats
        return self.packed_count - floats

    def transposed(self, at: LayerWeights, stride: int = 1) -> int:
        """Offset of the weights of a layer's input gradient, transposed at the start of each step."""
        size = at.taps * at.taps * at.inputs * at.outputs
        target, blocks = self.pack(size), size // (WIDTH * WIDTH)
        operands = TransposeOperands(at.weight, at.taps, stride, at.inputs, at.outputs, target, blocks)
        self.emit("prepare", "transpose_weights", operands)
        return target

    def mask(self, at: int) -> None:
        """Emit the backward pass of the ReLU fused before boundary `at`, if any, on the boundary's gradient."""
        if at in self.fused_relu:
            gradient = self.value_gradients[at].view
            self.emit("backward", "relu_gradient", ReluGradientOperands(self.values[at].view, gradient, gradient))

    def update(self, section: str, first: int, last: int, lines: int = 1) -> None:
        """Emit the update of the weights first..last-1, and of `lines - 1` equally long ranges after them."""
        self.emit(section, self.sharing.update, UpdateOperands(first, last, lines, self.sharing.clip_norm is not None))

    def update_others(self) -> None:
        """Emit the update of all weights that are not updated with their gradient."""
        start, count = 0, self.layout.count
        if self.sharing.clip_norm is not None:
            operands = NormOperands(0, count, int(np.float64(self.sharing.clip_norm).view(np.int64)))
            self.emit("update", "sum_squares", operands)
            self.emit("update", "scale_gradients", operands)
        for first, last in [*sorted(self.stepped.values()), (count, count)]:
            if first > start:
                self.update("update", start, first)
            start = last
