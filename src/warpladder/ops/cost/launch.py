"""Time of a launch: arithmetic shared by all cost models, and the model of a kernel without tensor cores."""

from collections.abc import Callable

from ...device import Limits
from ...device.limits import SHARED_PER_BLOCK
from ..engine.kernels import ceil_div

#: Instructions that a multiprocessor issues in a cycle, one for each of its four schedulers.
ISSUED = 4
#: Cycles between two instructions of a warp if no other warp fills the gap.
DEPENDENT = 3
#: Cycles of a launch besides its work; bytes a cycle that the device writes to memory and reads back.
LAUNCH, BYTES = 3000, 2000
#: Most parts of a sum.
MOST_PARTS = 256


def blocks_each(blocks: int, limits: Limits) -> int:
    """Number of blocks on the busiest multiprocessor."""
    return ceil_div(blocks, limits.multiprocessors)


def blocks_by_shared(shared: int, capacity: int) -> int:
    """Number of blocks of `shared` bytes that fit a multiprocessor's shared memory of `capacity` bytes; may be 0."""
    return capacity // (shared + SHARED_PER_BLOCK)


def overlapped(first: float, second: float) -> float:
    """Cycles of two kinds of concurrent work: the longer one, plus a quarter of the shorter one that is not hidden."""
    return max(first, second) + min(first, second) / 4


def launch_cycles(blocks: int, resident: int, warps: int, instructions: float, waits: float, limits: Limits) -> float:
    """Cycles until the last block of a launch ends.

    blocks, warps : blocks of the launch, and warps of a block.
    resident : blocks that a multiprocessor holds at once.
    instructions, waits : instructions of a warp, and cycles that it waits for memory while other blocks may be busy.
    """
    each = blocks_each(blocks, limits)
    issuing = each * warps * instructions / ISSUED
    waiting = ceil_div(each, max(1, resident)) * (DEPENDENT * instructions + waits)
    return overlapped(issuing, waiting)


def parts_of_sums(
    blocks: int, most: int, size: int, resident: int, warps: int, work: Callable[[int], tuple[float, float]],
    limits: Limits
) -> int:  # fmt: skip
    """Number of split-K parts with the least time: more blocks share each sum, and a second launch adds the parts.

    blocks : blocks of the launch without a split.
    most : largest number of parts.
    size : number of sums.
    work : function from the number of parts to a warp's instructions and waits, as `launch_cycles` takes them.
    """

    def total(count: int) -> float:
        adding = LAUNCH + 8 * count * size / BYTES if count > 1 else 0.0
        return launch_cycles(blocks * count, resident, warps, *work(count), limits) + adding

    return min(range(1, max(1, min(most, MOST_PARTS)) + 1), key=total)
