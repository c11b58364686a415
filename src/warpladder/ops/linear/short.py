"""Linear layer on short batches: kernels that load all their numbers at once, to hide latency."""

from pathlib import Path

import numpy as np

from ...device import Array, Device, Launch, Limits
from ..engine.base import Buffers
from ..engine.kernels import ceil_div
from ..engine.segments import StoredSamples

SHORT = Path(__file__).with_name("short.cu")

THREADS = 256
#: Samples and outputs of a block of the forward pass.
ROWS, COLUMNS = 16, 8
#: Consecutive arguments of a launch.
Arguments = tuple[Array | np.float32 | None, ...]


def fits(limits: Limits, n: int, outputs: int) -> bool:
    """True if n samples are so few that all blocks of the forward pass run at once, two on a multiprocessor."""
    return ceil_div(n, ROWS) * ceil_div(outputs, COLUMNS) <= 2 * limits.multiprocessors


def forward(t: Buffers, n: int, fused_relu: bool) -> Launch:
    """Launch of y[:n] from x[:n] of a linear layer on a short batch, with ReLU if `fused_relu`."""
    return _forward(t, n, fused_relu, t.x, (np.float32(1), None, None, None), (None, None), (0, 0))


def gathered_forward(
    t: Buffers, n: int, fused_relu: bool, samples: StoredSamples, target: Array | None, batch: int, offset: int
) -> Launch:
    """Launch of y[:n] from stored samples, which also fills x[:n] and target[:n]. batch : samples of a full batch."""
    s = samples
    return _forward(t, n, fused_relu, s.stored, (s.scale, s.labels, s.order, s.step), (t.x, target), (batch, offset))


def _forward(
    t: Buffers, n: int, fused_relu: bool, stored: Array, source: Arguments, filled: Arguments, where: tuple[int, int]
) -> Launch:
    inputs, outputs, device = t.x.shape[1], t.y.shape[1], t.x.device
    pixel = "unsigned char" if stored.dtype == np.uint8 else "float"
    kernel = device.kernel(SHORT, f"short_forward<{int(inputs % 4 == 0)}, {pixel}>")
    depth = min(ceil_div(inputs, 4) * 4, _most_inputs(device))
    grid = ceil_div(n, ROWS), ceil_div(outputs, COLUMNS)
    arrays = stored, *source, t.w, t.b, *filled, t.y
    numbers = n, inputs, outputs, depth, *where, int(fused_relu)
    return kernel.bind(grid, THREADS, *arrays, *numbers, shared=_shared(depth))


def _shared(depth: int) -> int:
    """Bytes of shared memory of a block: its samples and weights, later overwritten by the warps' sums."""
    pitch = ceil_div(depth, 16) * 16 + 8
    return 4 * max((ROWS + COLUMNS) * pitch, THREADS // 32 * ROWS * COLUMNS)


def _most_inputs(device: Device) -> int:
    """Largest number of inputs for which shared memory holds a block's samples and weights."""
    row = (device.limits.shared_opt_in - 1024) // (4 * (ROWS + COLUMNS))  # row indices are in shared memory too
    return (row - 8) // 16 * 16
