"""Plan of a pass over many samples: tiles of samples, warps' parts of the inputs, and places in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ...device import Limits
from ..engine.kernels import ceil_div

THREADS, WARPS = 256, 8
#: Fewest samples: a block has a tile of them at a time.
FEWEST = 1025
#: Samples of a tile and splits of the inputs, the fastest first; tiles in shared memory.
SHAPES, STAGES = ((64, 4), (64, 8), (32, 8)), 3
#: Most steps of 16 inputs of a warp, whose sums stay in the tensor cores; most outputs of a layer.
STEPS, WIDTH = 8, 64
#: Most registers of a thread for sums of gradients and numbers of a sample, and where a multiprocessor has 512 threads;
#: then most for the numbers of a sample alone, in two blocks and where half of the threads have the samples.
HELD, HALF, NARROW, ROLES = 160, 64, 24, 16
#: Bytes of a block's shared memory next to what is planned: the system's, barriers, sums of losses.
RESERVED = 2048


def quads(width: int) -> int:
    """Numbers of a row of this width that each of four lanes has."""
    return ceil_div(width, 4)


def padded(width: int) -> int:
    """Floats of a lane's weights for a number, as in rows.cuh."""
    return ceil_div(quads(width), 4) * 4


@dataclass(frozen=True)
class PassPlan:
    """Plan of a chain of linear layers.

    widths : of the input and of each layer's output. rows : samples of a tile. splits : of the inputs.
    pitch : bytes of a packed sample. places : names, and bytes from the begin of shared memory. shared : bytes of it.
    shares : parts of a tile's samples for the products of columns; pairs : of these a thread has.
    resident : blocks of a multiprocessor, each of which computes while another waits.
    block : threads; twice THREADS if half of the warps have the samples' rows, the other half the products.
    """

    widths: tuple[int, ...]
    rows: int
    splits: int
    pitch: int
    places: tuple[tuple[str, int], ...]
    shared: int
    shares: int
    pairs: int
    resident: int
    block: int

    @property
    def column(self) -> int:
        """Number of floats from one column to the next."""
        return self.rows + 4

    def columns(self, name: str) -> int:
        """Floats from the first column to the columns of this name."""
        return (self.at(name) - self.at("ones")) // 4

    def at(self, name: str) -> int:
        """Offset of the array called `name` in a block's shared memory, in bytes."""
        return dict(self.places)[name]


@cache
def planned(widths: tuple[int, ...], small: int, n: int, is_bytes: bool, limits: Limits) -> PassPlan | None:
    """Plan for n samples; None if they are too few, the layers too wide, or there is no copy engine.

    small : numbers of the gradient but the first layer's weights.
    """
    inputs, outputs = widths[:2]
    steps = ceil_div(inputs, 16)
    if n < FEWEST or max(widths[1:]) > WIDTH or limits.cluster == 1:
        return None
    pairs, shares = ceil_div(small, THREADS), max(k for k in (1, 2, 4) if k == 1 or k * small <= THREADS)
    rows_held = 2 * sum(map(quads, widths[1:]))
    for rows, splits in SHAPES:
        most = ceil_div(steps, splits)
        held = 2 * most * quads(outputs) + 3 * pairs + rows_held
        if most > STEPS or held > HELD:
            continue
        found = _placed(widths, rows, splits, _pitch(steps, is_bytes), shares * small)
        if found["end"] <= limits.shared_opt_in - RESERVED:
            shared = found.pop("end")
            two = held <= HALF and rows_held <= NARROW and 2 * (shared + RESERVED) <= limits.shared_per_multiprocessor
            block = THREADS if two or held > HALF or rows_held > ROLES else 2 * THREADS
            places = tuple(found.items())
            return PassPlan(
                widths, rows, splits, _pitch(steps, is_bytes), places, shared, shares, pairs, 1 + two, block
            )
    return None


def _pitch(steps: int, is_bytes: bool) -> int:
    """Bytes of a packed sample: an odd number of 16."""
    return (steps * (1 if is_bytes else 4) | 1) * 16


def _placed(widths: tuple[int, ...], rows: int, splits: int, pitch: int, held: int) -> dict[str, int]:
    """Places by name, and the end. held : floats of sums that threads add up at the end."""
    inputs, outputs = widths[:2]
    column = 4 * (rows + 4)
    first = 4 * quads(outputs)
    sizes = {
        "tiles": STAGES * rows * pitch,
        "fragments": ceil_div(inputs, 16) * quads(outputs) * 256,
        "parts": splits * rows * first * 4,
        "gradient": rows // 16 * quads(outputs) * 256,
        "exponents": 4 * first,
        "largest": 8 * first,
        "b1": 4 * first,
        "ones": column,
    }
    for k, width in enumerate(widths[1:], 1):
        sizes |= {f"g{k}": column * width}
        if k < len(widths) - 1:
            sizes |= {f"y{k}": column * width}
    for k, (before, width) in enumerate(pairwise(widths[1:]), 2):
        sizes |= {
            f"f{k}": 16 * before * padded(width),
            f"r{k}": 16 * width * padded(before),
            f"b{k}": 16 * quads(width),
        }
    places, at = {}, 0
    for name, size in sizes.items():
        places[name] = at
        at += ceil_div(size, 16) * 16
    # in the end all of it gets the block's weight gradient
    return places | {"end": max(at, 4 * inputs * outputs, 4 * held)}
