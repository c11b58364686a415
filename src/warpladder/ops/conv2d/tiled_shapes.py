"""Tiles of images in shared memory: their size, and the pitch of their rows."""

from functools import cache

from ..engine.kernels import ceil_div

BANKS = 32  # of shared memory, 4 bytes each; loads of a warp from one bank wait for each other


@cache
def cut(height: int, width: int, most: int) -> tuple[int, int]:
    """(height, width) of tiles of at most `most` pixels that need the fewest warps; of equals, the least halo."""
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
    """Pitch in floats of a tile's rows in shared memory: `columns`, or a few more against bank conflicts.

    A warp reads 32 consecutive pixels of the tile at once; neighbours are `stride` floats, or rows, from each other.
    """
    count = min(tile_height * tile_width, 4 * BANKS)
    pixels = [(p // tile_width * stride, p % tile_width * stride) for p in range(count)]

    def waits(floats: int) -> int:
        total = 0
        for first in range(0, len(pixels), BANKS):
            taken = [(row * floats + column) % BANKS for row, column in pixels[first : first + BANKS]]
            total += max(map(taken.count, taken))
        return total

    return min(range(columns, columns + BANKS), key=waits)
