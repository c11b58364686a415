"""The launches of chain.cu: forward with the loss, and the gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...device import Array
from ..kernels import Launches, Log, OnDevice, ceil_div

CHAIN = Path(__file__).with_name("chain.cu")

#: Outputs of a layer at most: all of a sample's stay in registers.
MOST = 16

THREADS = 256

#: Samples up to which a block takes one, with eight warps for it: there are too few to fill the device otherwise.
FEW = 1024

#: Samples of a slab at least.
SLAB = 64


class ChainLaunches:
    """One or two thin linear layers and cross-entropy.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    source, scale : Array, float
        (samples, inputs) uint8 or float32, and what its numbers are multiplied by.
    labels : Array
        (samples,) int32.
    order : Array or None
        None takes samples as they stand.
    log : Log
    whole, capacity : int
        Samples of a full batch, and at a time.
    weights, gradients : list of Array
        w1, b1 and perhaps w2, b2.
    dx : Array or None
        (samples, inputs) float32, the gradient by what enters, where it is wanted.
    """

    def __init__(
        self, owner: OnDevice, source: Array, scale: float, labels: Array, order: Array | None, log: Log, whole: int, capacity: int,
        weights: list[Array], gradients: list[Array], dx: Array | None = None,
    ) -> None:  # fmt: skip
        self.device, self.source, self.scale, self.labels, self.order, self.log = (
            owner.device,
            source,
            np.float32(scale),
            labels,
            order,
            log,
        )
        self.whole, self.weights, self.gradients, self.dx = whole, weights, gradients, dx
        outputs = [bias.size for bias in weights[1::2]]
        self.hidden = outputs[0] if len(outputs) == 2 else 0
        self.out, self.width = outputs[-1], outputs[0]
        self.inputs = source.size // len(source)
        self.small = self.hidden + self.out + self.hidden * self.out if self.hidden else self.out
        self.wide = 1 if self.inputs % 4 else 4
        self.pixel = "unsigned char" if source.dtype == np.uint8 else "float"
        sizes = {capacity, min(capacity, FEW)}
        blocks = max(self._forward(n)[2] for n in sizes)
        slabs = max(self._gradient(n)[3] for n in sizes)
        self.rows = None
        if order is not None:
            self.rows = owner.scratch((capacity,), np.int32)
            self.device.fill(self.rows, 0)
        self.g = owner.scratch((capacity, self.width))
        self.sums = owner.scratch((blocks, self.small))
        self.lost, self.hits = owner.scratch((blocks,), np.float64), owner.scratch((blocks,), np.int32)
        self.parts = owner.scratch((slabs, self.width * self.inputs)) if slabs > 1 else None

    def forward(self, n: int, batch: int, offset: int) -> Launches:
        """The loss of n samples, and its gradient by the first layer's output."""
        w1, b1, *second = self.weights
        w2, b2 = second or (None, None)
        rows, warps, blocks = self._forward(n)
        kernel = self.device.kernel(CHAIN, f"chain_forward<{self.hidden}, {self.out}, {rows}, {warps}, {self.wide}, {self.pixel}>")
        return [
            kernel.bind(
                blocks, THREADS, self.source, self.scale, self.labels, self.order, self.log.step, w1, b1, w2, b2, self.rows, self.g, self.sums,
                self.lost, self.hits, n, self.inputs, self.whole, offset, batch,
            )
        ]  # fmt: skip

    def backward(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        """All gradients, and the log; where samples are cut into slabs, their gradients added up."""
        dw1, db1, *second = self.gradients
        dw2, db2 = second or (None, None)
        blocks = self._forward(n)[2]
        warps, wide, tiles, slabs = self._gradient(n)
        slab = ceil_div(n, slabs)
        slabs = ceil_div(n, slab)
        back = int(self.dx is not None)
        kernel = self.device.kernel(CHAIN, f"chain_gradient<{self.hidden}, {self.out}, {warps}, {wide}, {back}, {self.pixel}>")
        more = ceil_div(self.small + 1, warps)
        found: Launches = [
            kernel.bind(
                (tiles + more, slabs), 32 * warps, self.source, self.scale, self.rows, self.g, self.parts if slabs > 1 else None, dw1, n,
                self.inputs, slab, tiles, self.sums, self.lost, self.hits, blocks, db1, dw2, db2, self.log.step, self.log.loss, self.log.correct,
                batch, int(first), int(last), self.weights[0], self.dx,
            )
        ]  # fmt: skip
        if slabs > 1:
            size = self.width * self.inputs
            add = self.device.kernel(CHAIN, "chain_add_slabs")
            found.append(add.bind(ceil_div(size, THREADS), THREADS, self.parts, dw1, slabs, size))
        return found

    def _forward(self, n: int) -> tuple[int, int, int]:
        """Samples for so many warps, and blocks: few samples want many warps each, many want to share what is loaded of the weights."""
        rows, warps = (1, 8) if n <= FEW else (4, 1)
        return rows, warps, ceil_div(n, 8 // warps * rows)

    def _gradient(self, n: int) -> tuple[int, int, int, int]:
        """Warps of a block, numbers that a lane reads at a time, blocks along the inputs, and slabs of samples."""
        warps, wide = (16, 1) if n <= FEW else (8, self.wide)
        tiles = ceil_div(self.inputs, 32 * wide)
        wanted = 1 if n <= FEW else ceil_div(4 * self.device.limits.multiprocessors, tiles)
        return warps, wide, tiles, max(1, min(wanted, ceil_div(n, SLAB)))
