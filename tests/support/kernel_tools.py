"""What the cases of kernels share: sizes, launches sent and named, arrays compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from warpladder.device import Call, Device

#: Cases of one kind: what each is called, and what runs it on a device and gives the names of the kernels that were
#: launched.
Runs = Iterator[tuple[str, Callable[[Device], set[str]]]]

#: (samples that the buffers hold, samples in use), and threads of a block: one sample, partial blocks, a partial and a
#: bit.
BATCHES = [(1, 1), (5, 2), (7, 7), (131, 129)]
BLOCKS = [256, 32, 96, 1024, 64]


def send(launches: Sequence[Call]) -> set[str]:
    """Send them all, in order; their kernels' names, without template arguments."""
    for launch in launches:
        launch.send()
    return {launch.name.partition("<")[0] for launch in launches}


def close(found: np.ndarray, wanted: np.ndarray, scale: np.ndarray | float, limit: float, what: str) -> None:
    """Equal but for rounding, normwise, relative to the scale of the terms that were added; NaN is not close to
    anything.
    """
    error, size = np.linalg.norm(found - wanted), np.linalg.norm(scale)
    assert error <= limit * size, f"{what} is off by {error:.1e}, and {limit * size:.1e} is what rounding explains"


def untouched(array: np.ndarray, n: int, what: str) -> None:
    assert np.isnan(array[n:]).all(), f"rows of {what} were written beyond the {n} in use"


def slices(parts: list[int]) -> list[np.ndarray]:
    """The rows of each of consecutive parts."""
    ends = np.cumsum(parts)
    return [np.arange(end - part, end) for part, end in zip(parts, ends, strict=True)]


def nan(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)
