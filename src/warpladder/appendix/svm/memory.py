"""Memory for fitting, predicted before any is allocated, and the number of class pairs that fit into it
concurrently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import OutOfMemoryError
from ...machine.memory import free_memory
from .fitted import OWN, TESTS
from .kernel import GPU_TILE, CpuRbf
from .pairs import LEAST_CACHE, pair_bytes

#: Bytes for batches while they are read and pieces while they are scaled.
WORKING = 512 << 20

#: Training samples x all samples x features up to which scikit-learn's SVC takes at most a second or two.
SMALL = 1e9


def chosen_method(method: str, device: str, samples: int, tests: int, width: int) -> str:
    """Method that "auto" selects: "sklearn" for small sets on the CPU, "blocks" for others."""
    if method != "auto":
        return method
    return "sklearn" if device == "cpu" and samples * (samples + tests) * width <= SMALL else "blocks"


@dataclass(frozen=True)
class SvmMemory:
    """Memory for fitting by blocks of classes, in bytes.

    held : bytes for the whole time. worker : bytes of a pair while it is fitted. workers : pairs fitted concurrently.
    """

    held: int
    worker: int
    workers: int

    @property
    def total(self) -> int:
        """Total bytes, with all concurrent pairs."""
        return self.held + self.workers * self.worker


def gram_bytes(counts: Sequence[int]) -> int:
    """Bytes of the blocks of `Gram`; each pair of classes is stored once."""
    return 2 * (sum(counts) ** 2 + sum(count**2 for count in counts))


def gpu_bytes(samples: int, width: int) -> int:
    """Bytes of GPU memory for the products: training features, some test features, and a tile with factors in
    float64.
    """
    return 4 * width * (samples + TESTS) + 8 * (width * sum(GPU_TILE) + 4 * math.prod(GPU_TILE))


def memory_of(
    counts: Sequence[int], tests: int, width: int, method: str, threads: int, memory: int | None
) -> SvmMemory:
    """Memory that a machine needs. Raises `OutOfMemoryError` if the memory is too small for one pair.

    counts : training samples of each class. tests : test samples. width : features of a sample.
    method : "sklearn" or "blocks". threads : most concurrent pairs. memory : bytes to use; None for the free bytes.
    """
    samples = sum(counts)
    held = 4 * width * (samples + tests) + WORKING
    if method == "sklearn":  # SVC's copies in float64: training samples, support vectors, samples to predict
        held += 8 * width * (2 * samples + max(samples, tests)) + (LEAST_CACHE << 20)
        found = SvmMemory(held, 0, 1)
    else:
        first, second = sorted(counts)[-2:]
        tiles = 8 * threads * (width * sum(CpuRbf.tile) + math.prod(CpuRbf.tile))
        held += gram_bytes(counts) + 8 * samples * (len(counts) - 1)
        held += max(12 * OWN * second * threads, tiles + TESTS * (4 * samples + 8 * second))
        found = SvmMemory(held, pair_bytes(first + second), 1)
    there = free_memory() if memory is None else memory
    if there is None:
        return SvmMemory(found.held, found.worker, threads if found.worker else 1)
    if found.total > there:
        whose = "is free" if memory is None else "is allowed"
        raise OutOfMemoryError(
            f"{samples:,} training samples of {width:,} features take {found.total / 1e9:.3g} GB, and "
            f"{there / 1e9:.3g} GB {whose}: "
            f"take fewer samples with --limit{_limit(found.total, there, samples)}"
        )
    if not found.worker:
        return found
    return SvmMemory(found.held, found.worker, max(1, min(threads, (there - found.held) // found.worker)))


def _limit(needed: int, there: int, samples: int) -> str:
    """Number of training samples that fits, as text for a message: memory grows at most with its square."""
    fits = int(samples * there / needed * 0.9) // 100 * 100
    return f" {fits}" if fits >= 100 and there > 2 * WORKING else ""
