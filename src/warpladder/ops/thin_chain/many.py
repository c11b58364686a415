"""Many samples through a thin chain: three launches, each of which occupies the device once."""

from pathlib import Path

import numpy as np

from ..engine.chain import Slice
from ..engine.kernels import Launches, OnDevice, ceil_div
from .arrays import ChainArrays
from .packed import Packed

FOLDER = Path(__file__).parent
FORWARD, GRADIENT, FINISH = FOLDER / "many_forward.cu", FOLDER / "many_gradient.cu", FOLDER / "finish.cu"
#: Samples and threads of a block of the forward pass, groups of warps, bytes of a sample in a stage.
SAMPLES, THREADS, GROUPS, ROW = 256, 256, 4, 80
#: Most numbers that a thread of the gradient holds in registers: its sums, and as many weights if dx is computed.
HELD = 80
#: Fewest samples of a partial.
PARTIAL = 16
#: Sums of a block of finish.cu, and its threads.
COLUMNS, FINISHING = 32, 512


class Many:
    """Launchers for many samples: forward and loss; partials of the first layer's gradient; sums, log, update."""

    def __init__(self, owner: OnDevice, arrays: ChainArrays, capacity: int) -> None:
        self.arrays = a = arrays
        blocks = ceil_div(capacity, SAMPLES)
        self.rows = owner.scratch((capacity,), np.int32) if a.order is not None else None
        self.small = owner.scratch((blocks, a.small))
        self.lost, self.hits = owner.scratch((blocks,), np.float64), owner.scratch((blocks,), np.int32)
        per_16 = 16 // a.source.dtype.itemsize
        stage = SAMPLES * ROW + a.width * GROUPS * per_16 * 4
        columns = (a.width + (a.hidden + a.out if a.hidden else 0)) * (SAMPLES + 4) * 4
        self.shared = max(2 * stage, 2 * a.width * SAMPLES * 4, columns)
        self.packed = Packed(owner, a) if capacity == a.whole and Packed.takes(a) else None
        self.back = int(a.dx is not None)
        most = min(per_16, HELD // (a.width * (1 + self.back)))
        self.wide = next((wide for wide in (8, 4, 2) if wide <= most and a.inputs % wide == 0), 1)
        self.threads = 256 if self.back else 512
        groups = a.inputs // self.wide
        self.tiles = ceil_div(groups, self.threads)
        self.across = ceil_div(groups, self.tiles)
        self.most = max(1, a.device.limits.multiprocessors // self.tiles)  # partials
        self.parts = owner.scratch((min(self.most, ceil_div(capacity, PARTIAL)), a.width * a.inputs))

    def forward(self, part: Slice) -> Launches:
        """Launches of the loss of n samples, and its gradient by the first layer's output."""
        a, n, batch, offset = self.arrays, part.n, part.batch, self.arrays.start(part)
        w1, b1 = a.weights[:2]
        lost, hits = (self.lost, self.hits) if part.has_loss else (None, None)
        if self.packed is not None:
            return [self.packed.forward(n, batch, self.small, lost, hits)]
        kernel = a.device.kernel(FORWARD, f"chain_forward_many<{a.hidden}, {a.out}, {a.pixel}>")
        read = a.source, a.scale, a.labels, a.order, a.log.step, w1, b1, *a.second(a.weights)
        written = self.rows, a.g, self.small, lost, hits
        numbers = n, a.inputs, a.whole, offset, batch
        return [kernel.bind(ceil_div(n, SAMPLES), THREADS, *read, *written, *numbers, shared=self.shared)]

    def backward(self, part: Slice) -> Launches:
        """Launches of all gradients, the log, and the update if the batch comes in one slice."""
        a, n, batch, offset = self.arrays, part.n, part.batch, self.arrays.start(part)
        partial = max(PARTIAL, ceil_div(n, self.most))
        partials, size = ceil_div(n, partial), a.width * a.inputs
        gradient = a.device.kernel(GRADIENT, f"chain_gradient_many<{a.width}, {self.wide}, {self.back}, {a.pixel}>")
        finish = a.device.kernel(FINISH, "chain_finish")
        dw1, db1 = a.gradients[:2]
        blocks = ceil_div(size, COLUMNS) + ceil_div(a.small, COLUMNS) + 1
        sums = self.parts, partials, size, self.small, self.lost, self.hits, ceil_div(n, SAMPLES), a.small
        log = *a.log.entry(part.has_loss), batch, int(part.is_first), int(part.is_last)
        return [
            gradient.bind(
                (self.tiles, partials), self.threads, a.source, a.scale, self.rows, a.g, self.parts, n, a.inputs,
                offset, partial, self.across, a.weights[0], a.dx
            ),
            finish.bind(
                blocks, FINISHING, *sums, a.width, a.out, dw1, db1, *a.second(a.gradients), *a.updated(part), *log
            ),
        ]  # fmt: skip
