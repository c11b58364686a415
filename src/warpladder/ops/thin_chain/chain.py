"""Nets of one or two thin linear layers with cross-entropy: a whole step but its update, in two or three launches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...device import Array, Device
from ...nets import CrossEntropyLoss, Flatten, Layer, Linear, Net, ReLU
from ..kernels import Launches, Log, WholeStep, ceil_div

CHAIN = Path(__file__).with_name("chain.cu")

#: Outputs of a layer at most: all of a sample's stay in registers.
MOST = 16

THREADS = 256

#: Samples of a slab at least.
SLAB = 64

#: Samples up to which a block takes one, with eight warps for it: there are too few to fill the device otherwise.
FEW = 1024


class ThinChain(WholeStep):
    """Linear, or Linear + ReLU + Linear, each of at most MOST outputs, then cross-entropy.

    Such a net's step is bound by reading its samples. They are read twice, as they are stored: forward, and for the first
    layer's gradient. Everything else that a sample needs is done at once, while its numbers are in registers.
    """

    @classmethod
    def takes(cls, net: Net) -> bool:
        layers = _computing(net)
        form = [type(layer) for layer in layers]
        wide = max((layer.out_features for layer in layers if isinstance(layer, Linear)), default=0)
        return form in ([Linear], [Linear, ReLU, Linear]) and wide <= MOST and isinstance(net.loss, CrossEntropyLoss)

    def __init__(
        self, device: Device, net: Net, source: Array, scale: float, labels: Array | None, order: Array, log: Log, whole: int, capacity: int,
        w: Mapping[str, Array], dw: Mapping[str, Array], block_size: int,
    ) -> None:  # fmt: skip
        super().__init__(device, net, source, scale, labels, order, log, whole, capacity, w, dw, block_size)
        where = [index for index, layer in enumerate(net.layers) if isinstance(layer, Linear)]
        outputs = [layer.out_features for layer in net.layers if isinstance(layer, Linear)]
        self.weights = [w[f"{index}.{part}"] for index in where for part in ("weight", "bias")]
        self.gradients = [dw[f"{index}.{part}"] for index in where for part in ("weight", "bias")]
        self.hidden = outputs[0] if len(outputs) == 2 else 0
        self.out, self.width = outputs[-1], outputs[0]
        self.inputs = source.size // len(source)
        self.small = self.hidden + self.out + self.hidden * self.out if self.hidden else self.out
        self.wide = 1 if self.inputs % 4 else 4
        self.pixel = "unsigned char" if source.dtype == np.uint8 else "float"
        blocks = max(self._forward(n)[2] for n in {capacity, min(capacity, FEW)})
        self.rows = self.scratch((capacity,), np.int32)
        device.fill(self.rows, 0)
        self.g = self.scratch((capacity, self.width))
        self.sums = self.scratch((blocks, self.small))
        self.lost, self.hits = self.scratch((blocks,), np.float64), self.scratch((blocks,), np.int32)
        slabs = max(self._gradient(n)[3] for n in {capacity, min(capacity, FEW)})
        self.parts = self.scratch((slabs, self.width * self.inputs)) if slabs > 1 else None

    def launches(self, n: int, batch: int, offset: int, first: bool, last: bool) -> Launches:
        """Forward and the loss; the gradients and the log; where samples are cut into slabs, their gradients added up."""
        w1, b1, *second = self.weights
        w2, b2 = second or (None, None)
        dw1, db1, *second = self.gradients
        dw2, db2 = second or (None, None)
        rows, warps, blocks = self._forward(n)
        forward = self.device.kernel(CHAIN, f"chain_forward<{self.hidden}, {self.out}, {rows}, {warps}, {self.wide}, {self.pixel}>")
        found: Launches = [
            forward.bind(
                blocks, THREADS, self.source, self.scale, self.labels, self.order, self.log.step, w1, b1, w2, b2, self.rows, self.g, self.sums,
                self.lost, self.hits, n, self.inputs, self.whole, offset, batch,
            )
        ]  # fmt: skip
        warps, wide, tiles, slabs = self._gradient(n)
        slab = ceil_div(n, slabs)
        slabs = ceil_div(n, slab)
        gradient = self.device.kernel(CHAIN, f"chain_gradient<{self.hidden}, {self.out}, {warps}, {wide}, {self.pixel}>")
        more = ceil_div(self.small + 1, warps)
        found.append(
            gradient.bind(
                (tiles + more, slabs), 32 * warps, self.source, self.scale, self.rows, self.g, self.parts if slabs > 1 else None, dw1, n,
                self.inputs, slab, tiles, self.sums, self.lost, self.hits, blocks, db1, dw2, db2, self.log.step, self.log.loss, self.log.correct,
                batch, int(first), int(last),
            )
        )  # fmt: skip
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


def _computing(net: Net) -> list[Layer]:
    return [layer for layer in net.layers if not isinstance(layer, Flatten)]
