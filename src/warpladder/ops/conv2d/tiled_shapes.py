"""How images are cut into tiles for shared memory."""

from __future__ import annotations

from functools import cache

from ..engine.kernels import ceil_div

BANKS = 32  # of shared memory, each 4 bytes wide; a warp's loads from one bank wait for each other


@cache
def cut(height: int, width: int, most: int) -> tuple[int, int]:
    """Height and width of the tiles, `most` pixels at most, that cover an image with the fewest warps; of equals those
    with the least halo.
    """
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for pieces in range(ceil_div(width, most), width + 1):
        across = ceil_div(width, pieces)
        if found and across < 8:
            break
        down = ceil_div(height, ceil_div(height, min(height, most // across)))
        tiles = ceil_div(width, across) * ceil_div(height, down)
        found[down, across] = tiles * ceil_div(down * across, 32), tiles * (down + 2) * (across + 2)
    return min(found, key=lambda tile: found[tile])


@cache
def pitch(tile_height: int, tile_width: int, columns: int, stride: int) -> int:
    """Floats from one row of a tile in shared memory to the next: `columns` or a few more, whatever lets warps read
    without waiting.

    A warp reads 32 consecutive pixels of the tile at once; neighbours stand `stride` floats, or rows, apart.
    """
    pixels = [
        (p // tile_width * stride, p % tile_width * stride) for p in range(min(tile_height * tile_width, 4 * BANKS))
    ]

    def waits(floats: int) -> int:
        total = 0
        for first in range(0, len(pixels), BANKS):
            taken = [(row * floats + column) % BANKS for row, column in pixels[first : first + BANKS]]
            total += max(map(taken.count, taken))
        return total

    return min(range(columns, columns + BANKS), key=waits)
