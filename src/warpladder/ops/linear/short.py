"""Linear on short batches: kernels that ask for all they need at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...device import Array, Device, Launch, Limits
from ..engine.base import Buffers
from ..engine.kernels import ceil_div
from ..engine.segments import StoredSamples

SHORT = Path(__file__).with_name("short.cu")

THREADS = 256

#: Samples and outputs of a block of the forward pass; outputs and inputs of a block of the weights' gradient.
ROWS, COLUMNS = 16, 8
OUTPUTS, INPUTS = 32, 64

#: Arguments of a launch that stand side by side.
Arguments = tuple[Array | np.float32 | None, ...]

#: Samples up to which one block after another takes them all for the weights' gradient.
MOST = 256


def fits(limits: Limits, n: int, outputs: int) -> bool:
    """Whether n samples are so few that all blocks of the forward pass run at once, two on a multiprocessor."""
    return ceil_div(n, ROWS) * ceil_div(outputs, COLUMNS) <= 2 * limits.multiprocessors


def forward(t: Buffers, n: int, fused_relu: bool) -> Launch:
    """y[:n] from x[:n]."""
    return _forward(t, n, fused_relu, t.x, (np.float32(1), None, None, None), (None, None), (0, 0))


def gathered_forward(
    t: Buffers, n: int, fused_relu: bool, samples: StoredSamples, target: Array | None, batch: int, offset: int
) -> Launch:
    """y[:n] from samples as they are stored; fills x[:n] and target[:n] as well, as the gathering alone does. batch:
    samples of a full one.
    """
    s = samples
    return _forward(t, n, fused_relu, s.stored, (s.scale, s.labels, s.order, s.step), (t.x, target), (batch, offset))


def _forward(
    t: Buffers, n: int, fused_relu: bool, stored: Array, source: Arguments, kept: Arguments, where: tuple[int, int]
) -> Launch:
    inputs, outputs, device = t.x.shape[1], t.y.shape[1], t.x.device
    pixel = "unsigned char" if stored.dtype == np.uint8 else "float"
    kernel = device.kernel(SHORT, f"short_forward<{int(inputs % 4 == 0)}, {pixel}>")
    depth = min(ceil_div(inputs, 4) * 4, _most_inputs(device))
    grid = ceil_div(n, ROWS), ceil_div(outputs, COLUMNS)
    return kernel.bind(
        grid,
        THREADS,
        stored,
        *source,
        t.w,
        t.b,
        *kept,
        t.y,
        n,
        inputs,
        outputs,
        depth,
        *where,
        int(fused_relu),
        shared=_shared(depth),
    )


def _shared(depth: int) -> int:
    """Bytes of a block's samples and weights; the warps' sums take their place afterwards."""
    pitch = ceil_div(depth, 16) * 16 + 8
    return 4 * max((ROWS + COLUMNS) * pitch, THREADS // 32 * ROWS * COLUMNS)


def _most_inputs(device: Device) -> int:
    """Of a block's samples and weights that shared memory holds."""
    row = (device.limits.shared_opt_in - 1024) // (4 * (ROWS + COLUMNS))  # the rows' numbers stand there too
    return (row - 8) // 16 * 16


def weight_gradient(t: Buffers, y: Array | None, n: int) -> Launch:
    """dw and db from x[:n] and dy[:n], which counts where y, if there is one, is above 0."""
    inputs, outputs, device = t.x.shape[1], t.y.shape[1], t.x.device
    kernel = device.kernel(SHORT, f"short_weight_gradient<{int(inputs % 4 == 0 and outputs % 4 == 0)}>")
    grid = ceil_div(outputs, OUTPUTS), ceil_div(inputs, INPUTS)
    return kernel.bind(grid, THREADS, t.x, t.dy, y, t.dw, t.db, n, inputs, outputs)
