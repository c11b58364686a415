"""A Linear layer's weight gradient that never leaves the first-level cache: an optimizer's loop steps the weights as
soon as some rows of it are done.

Plain SGD needs less: it steps the weights inside the tile, in registers (simd.py, STEP). An optimizer that keeps slots
has its own loop for any number of weights, the one that the update calls as well, so that both end in the same bits.
"""

from __future__ import annotations

from ..compiler.functions import inner
from ..compiler.vectors import LANES, TOGETHER, VECTORS, WIDTH
from ..program.access import cut
from ..program.views import CHANNELS, OFFSET, PIXEL
from .convolution import NO_STEP, patch_offsets
from .matmul_tile import make_tile
from .prefetch import prefetch_lines
from .tile_sizes import KINDS, ROWS, STORE, UPDATED, ZERO
from .update import by_loop, clipped

AT_ONCE = UPDATED // WIDTH // ROWS * ROWS  # rows of a panel between two calls of the optimizer's loop: whole tiles

_tile = make_tile(ROWS, VECTORS, (ZERO,), (STORE,), strided=True)
_lone_tile = make_tile(ROWS, 1, (ZERO,), (STORE,), strided=True)


@inner
def weight_step(
    at, activations, x, dy, samples, total, weights, w_at, slots, tile_range, panel_range, settings, numbers, ahead
):  # type: ignore[no-untyped-def]
    """Step the weights of a Linear layer by dw = x^T dy, for tiles of ROWS inputs and panels in ranges.

    x, dy : views of samples as pixels. w_at : where the weights begin, (panel, input, WIDTH). slots : as in
    `update.by_rule`.
    total : scratch, (TOGETHER * UPDATED,) float32. numbers : of this step, (NUMBERS,). ahead : as in
    `conv.weight_gradient`.
    """
    depth = x[CHANNELS]
    table = (at, at.shape[0] // KINDS)
    patch_offsets(at, x, (1, 1), depth, 0)
    left = (activations, x[OFFSET], x[PIXEL], 0)
    nothing = (activations, 0)
    end = tile_range[1] * ROWS
    next_sample, next_at = 0, 0
    for panel in range(panel_range[0], panel_range[1], TOGETHER):
        right = (activations, dy[OFFSET] + panel * WIDTH, dy[PIXEL], 0, LANES)
        lone = TOGETHER > 1 and panel + TOGETHER > panel_range[1]
        for first in range(tile_range[0] * ROWS, end, AT_ONCE):
            last = min(first + AT_ONCE, end)
            # neighbours in a panel, or the same places of neighbouring panels, each with scratch of its own
            result = (total, -first * WIDTH, LANES if TOGETHER == 1 else UPDATED)
            for m in range(first, last, ROWS):
                if lone:
                    _lone_tile(table, m, left, right, (samples, 1), result, (ZERO, STORE), nothing, nothing, NO_STEP)
                else:
                    _tile(table, m, left, right, (samples, 1), result, (ZERO, STORE), nothing, nothing, NO_STEP)
                next_sample, next_at = prefetch_lines(ahead, next_sample, next_at)
            count = (min(last, depth) - first) * WIDTH
            for which in range(1 if lone else TOGETHER):
                g = cut(total, which * UPDATED, count)
                clipped(g, settings.clip)
                start = w_at + ((panel + which) * depth + first) * WIDTH
                by_loop(settings.rule, weights, g, slots, numbers, start, start + count)
