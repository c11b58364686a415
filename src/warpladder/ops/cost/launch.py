"""How long a launch takes, roughly: a model that orders the ways to divide work among blocks, and does no more than
that.
"""

from __future__ import annotations

from collections.abc import Callable

from ...device import Limits
from ..engine.kernels import ceil_div

#: Instructions that a multiprocessor issues in a cycle, one for each of its four schedulers.
ISSUED = 4

#: Cycles from one instruction of a warp to the next where no other warp is there to fill the gap.
ALONE = 3

#: Cycles that a launch takes besides its work; bytes a cycle that go to the device's memory and come back.
LAUNCH, BYTES = 3000, 2000

#: Parts of a sum at most.
MOST = 256


def cycles(blocks: int, resident: int, warps: int, instructions: float, waits: float, limits: Limits) -> float:
    """Cycles until the last block of a launch is done.

    blocks, warps : of the launch, and of each block.
    resident : blocks that a multiprocessor holds at once.
    instructions, waits : of each warp, and cycles that it waits for memory; other blocks can be busy meanwhile.
    """
    each = ceil_div(blocks, limits.multiprocessors)  # of the multiprocessor that has most
    issuing = each * warps * instructions / ISSUED
    waiting = ceil_div(each, max(1, resident)) * (ALONE * instructions + waits)
    return max(issuing, waiting) + min(issuing, waiting) / 4  # neither hides quite behind the other


def parts(
    blocks: int, most: int, size: int, resident: int, warps: int, work: Callable[[int], tuple[float, float]], limits: Limits
) -> int:  # fmt: skip
    """Into how many parts each sum should be cut, so that more blocks can share it; a second launch adds the parts up.

    blocks : of the launch while sums are whole.
    most : parts, at most.
    size : sums.
    work : instructions and waits of a warp, as `cycles` takes them, with this many parts.
    """

    def total(count: int) -> float:
        adding = LAUNCH + 8 * count * size / BYTES if count > 1 else 0.0
        return cycles(blocks * count, resident, warps, *work(count), limits) + adding

    return min(range(1, max(1, min(most, MOST)) + 1), key=total)
