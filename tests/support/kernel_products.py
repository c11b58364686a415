"""The ladder of matrix products: every level's kernel against NumPy in float64."""

from __future__ import annotations

import numpy as np
from kernel_tools import Runs, close, nan, send

from warpladder.appendix.gemm import Level
from warpladder.device import Device
from warpladder.proof.tolerance import bound

#: (m, n, k): less than a tile, a tile and a bit; n and k are multiples of 4, which one of the levels wants.
SIZES = [(1, 4, 4), (33, 8, 20), (131, 76, 36)]


def product_cases(level: Level) -> Runs:
    for m, n, k in SIZES:
        yield f"({m}, {k}) x ({k}, {n})", lambda device, a=(m, n, k): _product(device, level, *a)  # type: ignore[misc]


def _product(device: Device, level: Level, m: int, n: int, k: int) -> set[str]:
    a, b = (np.random.default_rng(size[0]).normal(size=size).astype(np.float32) for size in ((m, k), (k, n)))
    c = device.array(nan(m, n), "c")
    launched = send(level.bind(device, device.array(a, "a"), device.array(b, "b"), c))
    scale = np.sqrt((a.astype(float) ** 2) @ (b.astype(float) ** 2))
    close(c.download(), a.astype(float) @ b.astype(float), scale, bound("float32", k), "c")
    return launched
