"""Fused weight gradient and update of a Linear layer: an optimizer's loop updates weights while their gradient is in
the first-level cache. The separate update calls the same loop, so both give equal bits.

Plain SGD updates the weights inside the tile, in registers (matmul_tile.py, STEP).
"""

from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDTH
from ..program.access import activations_of, cut, floats, offsets_of, reader, rows_and_panels
from ..program.memory import SCRATCH
from ..program.operands import WeightStepOperands
from .convolution_gradients import patch_offsets
from .matmul_tile import NO_STEP, make_tile
from .tile_sizes import KINDS, ROWS, STORE, UPDATED, ZERO
from .update import call_optimizer, clip_all

AT_ONCE = UPDATED // WIDTH // ROWS * ROWS  # rows of a panel between two calls of the optimizer's loop: whole tiles

_tile = make_tile(ROWS, VECTORS, (ZERO,), (STORE,), strided=True)
_lone_tile = make_tile(ROWS, 1, (ZERO,), (STORE,), strided=True)

_read = reader(WeightStepOperands)


@inner
def _step_rows(it, memory, work, panel, rows, lone):  # type: ignore[no-untyped-def]
    """Update a range of inputs of TOGETHER panels, or of the last; the gradient (TOGETHER * UPDATED,) is scratch."""
    at, a, total = offsets_of(memory, work), activations_of(memory, work), floats(memory, SCRATCH, work.thread)
    depth, span = it.x.channels, at.shape[0] // KINDS
    left = (a, it.x.offset, it.x.pixel, 0)
    right = (a, it.dy.offset + panel * WIDTH, it.dy.pixel, 0, LANES)
    # vectors are neighbours in a panel, or the same places of neighbouring panels, each with scratch of its own
    result = (total, -rows[0] * WIDTH, LANES if TOGETHER == 1 else UPDATED)
    ends = (ZERO, a, 0, STORE, a, 0)
    for m in range(rows[0], rows[1], ROWS):
        if lone:
            _lone_tile((at, span, m), left, right, (work.n, 1), result, ends, NO_STEP)
        else:
            _tile((at, span, m), left, right, (work.n, 1), result, ends, NO_STEP)
    count = (min(rows[1], depth) - rows[0]) * WIDTH
    for which in range(1 if lone else TOGETHER):
        g = cut(total, which * UPDATED, count)
        clip_all(g, work.settings.clip)
        start = it.weights + ((panel + which) * depth + rows[0]) * WIDTH
        call_optimizer(memory, work, g, start, start + count)


def weight_step(operands, memory, work):  # type: ignore[no-untyped-def]
    """Fused operation: update a Linear layer's weights (panel, input, WIDTH) by dw = x^T dy, without storing dw."""
    it = _read(operands)
    tile_range, panel_range = rows_and_panels(it.tiles, it.panels, it.by_panel, work)
    patch_offsets(offsets_of(memory, work), it.x, (1, 1), 0)
    end = tile_range[1] * ROWS
    for panel in range(panel_range[0], panel_range[1], TOGETHER):
        lone = TOGETHER > 1 and panel + TOGETHER > panel_range[1]
        for first in range(tile_range[0] * ROWS, end, AT_ONCE):
            _step_rows(it, memory, work, panel, (first, min(first + AT_ONCE, end)), lone)
    return 0.0, 0.0
