"""Prove each level against float64, and time it beside cuBLAS."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..device import Device, Launch
from ..errors import WarpladderError
from ..tolerance import bound
from .levels import LEVELS, Level

ROUNDS = 5
PATIENCE = 0.25  # seconds of one level's measurements, about
CHECKED = 64  # rows that are compared: all of them where there are no more
RAGGED = (131, 76, 92)  # m, n, k that no tile divides; n and k are multiples of 4, which `wide` wants


@dataclass(frozen=True)
class Timed:
    """What one level reaches at one size.

    seconds : the median of several runs; all of them in `samples`.
    error : normwise, relative to |A| |B|.
    """

    level: str
    size: int
    seconds: float
    samples: tuple[float, ...]
    flops_per_second: float
    predicted: float
    measured: float
    of_cublas: float | None
    error: float


def prove(device: Device, level: Level, m: int, n: int, k: int, seed: int = 0) -> float:
    """The error of a level at a size; `WarpladderError` where it is above the bound, or some number was never written."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    on_a, on_b = device.array(a), device.array(b)
    c = device.empty((m, n))
    device.fill(c, 0xFF)  # NaN everywhere
    for launch in level.bind(device, on_a, on_b, c):
        launch.send()
    rows = np.arange(m) if m <= CHECKED else np.sort(rng.choice(m, CHECKED, replace=False))
    got = c.download()
    error = _error(got[rows], a[rows], b)
    limit = bound("float32", k)
    if not (error <= limit and np.isfinite(got).all()):
        raise WarpladderError(f"level {level.name} is wrong at ({m}, {n}, {k}): error {error:.2g}, at most {limit:.2g} is rounding")
    return error


def _error(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.linalg.norm(got - a @ b) / np.linalg.norm(abs(a) @ abs(b)))


def climb(device: Device, sizes: tuple[int, ...], say: Callable[[Timed], None] = lambda found: None) -> list[Timed]:
    """Every level at every size, m = n = k; each is proven first, at a ragged size and at this one.

    Parameters
    ----------
    device : Device
    sizes : tuple of int
        Multiples of 4.
    say : callable
        Told of each result when it is there.
    """
    out = []
    for size in sizes:
        rng = np.random.default_rng(size)
        a, b = (device.array(rng.standard_normal((size, size)).astype(np.float32)) for _ in range(2))
        c = device.empty((size, size))
        best = cublas(size)
        for level in LEVELS:
            prove(device, level, *RAGGED)
            error = prove(device, level, size, size, size, seed=size)
            launches = level.bind(device, a, b, c)
            samples = timed(device, launches)
            seconds = statistics.median(samples)
            rate = 2 * size**3 / seconds
            peak = device.limits.flops
            found = Timed(
                level.name, size, seconds, tuple(samples), rate, level.predicted,
                rate / peak if peak else float("nan"), best / seconds if best else None, error,
            )  # fmt: skip
            out.append(found)
            say(found)
        if best:
            rate = 2 * size**3 / best
            peak = device.limits.flops
            found = Timed("cuBLAS", size, best, (best,), rate, float("nan"), rate / peak if peak else float("nan"), 1.0, float("nan"))
            out.append(found)
            say(found)
    return out


def timed(device: Device, launches: list[Launch]) -> list[float]:
    """Seconds of launches on the device, by events around many repetitions of them, several times."""

    def once(repeats: int) -> float:
        begin = device.stream.record()
        for _ in range(repeats):
            for launch in launches:
                launch.send()
        end = device.stream.record()
        end.synchronize()
        return end.seconds_since(begin) / repeats

    once(1)
    repeats = max(1, min(200, int(PATIENCE / ROUNDS / max(once(1), 1e-6))))
    return [once(repeats) for _ in range(ROUNDS)]


def cublas(size: int) -> float | None:
    """Seconds that cuBLAS takes for the same product in float32, by CuPy; None where there is no CuPy."""
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() < 1:
            return None
    except Exception:  # not installed, or no driver: whatever it is, there is no cuBLAS to compare with
        return None
    rng = np.random.default_rng(size)
    a, b = (cupy.asarray(rng.standard_normal((size, size)).astype(np.float32)) for _ in range(2))
    c = cupy.empty((size, size), np.float32)

    def once(repeats: int) -> float:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(repeats):
            cupy.matmul(a, b, out=c)
        end.record()
        end.synchronize()
        return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / repeats

    once(3)
    repeats = max(1, min(200, int(PATIENCE / ROUNDS / max(once(1), 1e-6))))
    if not _error(c[:CHECKED].get(), a[:CHECKED].get(), b.get()) <= bound("float32", size):
        raise WarpladderError("CuPy's product is not in float32: unset CUPY_TF32")
    return statistics.median(once(repeats) for _ in range(ROUNDS))
