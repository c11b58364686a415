"""Grids with one thread for each number: over a flat array, or over samples and the numbers of one sample."""

from typing import Any

from ...device import Kernel, Launch
from ...errors import LaunchError
from .kernels import ceil_div

#: Most blocks along the y axis of a grid; a kernel loops over the samples beyond.
MOST_ALONG_Y = 65535
#: Most times that a grid fills the device: beyond that a thread takes several samples, and computes its position in a
#: sample once for all. On the emulator, whose one multiprocessor is soon full, that saves 10 % of an epoch of the cnn.
FULL = 128
#: Most numbers of a sample: threads, with the last block's idle ones, are counted in 32 bits.
MOST_IN_SAMPLE = 2**31 - 1024


def flat(kernel: Kernel, count: int, block_size: int, *arguments: Any) -> Launch:
    """Launch with one thread for each of `count` numbers."""
    return kernel.bind(ceil_div(count, block_size), block_size, *arguments)


def by_sample(kernel: Kernel, size: int, samples: int, block_size: int, *arguments: Any) -> Launch:
    """Launch with a thread for each of `size` numbers along x and samples along y, up to FULL times the device."""
    if size > MOST_IN_SAMPLE:
        raise LaunchError(
            f"kernel {kernel.signature.name} counts a sample's numbers in 32 bits, and {size:,} are too many: "
            "use smaller layers"
        )
    limits = kernel.device.limits
    busy = ceil_div(FULL * limits.multiprocessors * limits.threads_per_multiprocessor, size)
    return kernel.bind((ceil_div(size, block_size), min(samples, busy, MOST_ALONG_Y)), block_size, *arguments)
