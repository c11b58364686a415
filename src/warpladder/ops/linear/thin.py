"""Linear layer with few outputs: kernels that read x once; a thread holds all outputs of a sample in registers."""

from pathlib import Path

from ..engine.base import Buffers
from ..engine.kernels import Launches, OnDevice, ceil_div
from .products import add_gradients

THIN = Path(__file__).with_name("thin.cu")
#: Most outputs: their sums stay in registers.
MOST = 16

THREADS = 256
#: Most samples for which the weight gradient is not split into partials.
FEW = 512


class Thin:
    """Launchers of y, dx, dw and db of a Linear [, ReLU] with at most MOST outputs."""

    def __init__(self, owner: OnDevice, t: Buffers, fused_relu: bool) -> None:
        self.device, self.buffers, self.fused_relu = owner.device, t, fused_relu
        (capacity, self.inputs), self.outputs = t.x.shape, t.y.shape[1]
        self.processors = self.device.limits.multiprocessors
        self.step = 1 if self.inputs % 4 else 4
        if t.dy is not None:
            partials = self._partials(capacity)
            self.numbers = self.outputs * self.inputs + self.outputs
            self.parts = owner.scratch((partials, self.numbers)) if partials > 1 else None

    def forward(self, n: int) -> Launches:
        """Launch of y. Few samples: several warps for each, against latency. Many: a warp for four samples."""
        rows = 4 if n >= 64 * self.processors else 1
        warps = 1
        while n < 16 * self.processors and warps < 8 and 32 * warps * self.step < self.inputs:
            warps *= 2
        t = self.buffers
        kernel = self.device.kernel(THIN, f"thin_forward<{self.outputs}, {rows}, {warps}, {int(self.step > 1)}>")
        blocks = ceil_div(n, THREADS // 32 // warps * rows)
        return [kernel.bind(blocks, THREADS, t.x, t.w, t.b, t.y, n, self.inputs, int(self.fused_relu))]

    def backward(self, n: int) -> Launches:
        t, partials = self.buffers, self._partials(n)
        y = t.y if self.fused_relu else None
        warps, step = (16, 1) if n <= FEW else (8, self.step)
        partial = ceil_div(n, partials)
        partials = ceil_div(n, partial)
        kernel = self.device.kernel(THIN, f"thin_weight_gradient<{self.outputs}, {warps}, {int(step > 1)}>")
        part = None if partials == 1 else self.parts
        grid = ceil_div(self.inputs, 32 * step), partials
        found: Launches = [kernel.bind(grid, 32 * warps, t.x, t.dy, y, part, t.dw, t.db, n, self.inputs, partial)]
        if partials > 1:
            assert self.parts is not None
            weights = self.parts.reshape(-1)
            bias = weights[self.outputs * self.inputs :]
            both = (weights, t.dw, partials, self.numbers), (bias, t.db, partials, self.numbers)
            found.append(add_gradients(self.device, *both))
        if t.dx is not None:
            kernel = self.device.kernel(THIN, f"thin_input_gradient<{self.outputs}, {int(self.step > 1)}>")
            blocks = ceil_div(n * ceil_div(self.inputs, self.step), THREADS)
            found.append(kernel.bind(blocks, THREADS, t.dy, y, t.w, t.dx, n, self.inputs))
        return found

    def _partials(self, n: int) -> int:
        """Number of parts of the samples for dw: enough to occupy the device, each of at least 128 samples."""
        if n <= FEW:
            return 1
        return min(ceil_div(3 * self.processors, ceil_div(self.inputs, 32 * self.step)), ceil_div(n, 128))
