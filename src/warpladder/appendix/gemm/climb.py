"""Proof of each level against float64, and its time compared with cuBLAS's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...device import Device, Launch
from . import cublas
from .proof import KINDS, prove, question
from .tensor import BY_PRECISION, AnyLevel

ROUNDS = 5
PATIENCE = 0.25  # approximate seconds of one level's measurements
#: Sizes (m, n, k) of every level's proof, each with its kinds of factors: a size that no tile divides, and a size with
#: long sums, which show biased errors. n and k are multiples of 4, which some levels require.
SHAPES = (((131, 76, 92), tuple(KINDS)), ((33, 20, 4096), ("normal", "positive")))
TIMED_KINDS = ("normal", "positive")  # kinds of factors in the proof at the timed size


@dataclass(frozen=True)
class Timed:
    """Speed of one level at one size, m = n = k = `size`.

    level, precision : kernel, and precision of the comparison. seconds : median of `samples`.
    predicted, measured : shares of the peak of the level's unit and precision.
    of_cublas : speed relative to cuBLAS's in the same precision. error : error against float64, relative to |A| |B|.
    """

    level: str
    precision: str
    size: int
    seconds: float
    samples: tuple[float, ...]
    flops_per_second: float
    predicted: float
    measured: float
    of_cublas: float | None
    error: float


@dataclass(frozen=True)
class Skipped:
    """Level that cannot run on this device or at this size, with the reason in one line."""

    level: str
    precision: str
    size: int
    reason: str


def climb(
    device: Device, sizes: tuple[int, ...], precisions: Iterable[str] = tuple(BY_PRECISION),
    say: Callable[[Timed | Skipped], None] = lambda found: None
) -> list[Timed | Skipped]:  # fmt: skip
    """Results of every level of some precisions ("fp32", "tf32", "bf16") at every size, m = n = k.

    Each level is proven first, at all of `SHAPES` and at this size. say : called with each new result.
    """
    out: list[Timed | Skipped] = []

    def note(found: Timed | Skipped) -> None:
        out.append(found)
        say(found)

    proven: set[str] = set()
    for size in sizes:
        for name in precisions:
            levels = BY_PRECISION[name]
            best = (
                cublas.seconds(size, levels[0].precision, ROUNDS, PATIENCE)
                if any(l.lacks(device, size, size) is None for l in levels)
                else None
            )
            for level in levels:
                if reason := level.lacks(device, size, size):
                    note(Skipped(level.name, name, size, reason))
                    continue
                if level.name not in proven:
                    prove_everywhere(device, level)
                    proven.add(level.name)
                note(_timed(device, level, size, best))
            if best:
                rate, peak = 2 * size**3 / best, _peak(device, levels[0])
                note(Timed("cuBLAS", name, size, best, (best,), rate, math.nan, rate / peak, 1.0, math.nan))
    question.cache_clear()
    return out


def prove_everywhere(device: Device, level: AnyLevel) -> None:
    """Prove a level at all of `SHAPES`, before it is timed."""
    for shape, kinds in SHAPES:
        for kind in kinds:
            prove(device, level, *shape, kind=kind)


def _timed(device: Device, level: AnyLevel, size: int, best: float | None) -> Timed:
    errors = [prove(device, level, size, size, size, seed=size, kind=kind) for kind in TIMED_KINDS]
    asked = question(TIMED_KINDS[0], size, size, size, size)
    a, b, c = device.array(level.stored(asked.a)), device.array(level.stored(asked.b)), device.empty((size, size))
    samples = timed(device, level.bind(device, a, b, c))
    seconds = statistics.median(samples)
    rate = 2 * size**3 / seconds
    of_best = best / seconds if best else None
    return Timed(
        level.name, level.precision.name, size, seconds, tuple(samples), rate, level.predicted,
        rate / _peak(device, level), of_best, max(errors),
    )  # fmt: skip


def _peak(device: Device, level: AnyLevel) -> float:
    """Peak FLOP/s of the level's unit in its precision; NaN for the emulator on this CPU."""
    peaks = device.limits.peaks
    return math.nan if peaks is None else peaks.of(level.precision.name, level.unit)


def timed(device: Device, launches: list[Launch]) -> list[float]:
    """Seconds of the launches together, measured several times by events around many repetitions."""

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
