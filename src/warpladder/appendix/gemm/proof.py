"""Proof of a level: its product against float64, on several kinds of factors, each for another kind of error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...device import Device
from ...errors import WarpladderError
from ...proof.tolerance import bound
from .tensor import AnyLevel

CHECKED = 64  # most compared rows
DEPTH = 16  # products that a tensor core instruction sums in one step

Scale = tuple[np.ndarray | float, np.ndarray | float]


def _apart(rng: np.random.Generator, m: int, n: int) -> Scale:
    return np.exp2(rng.integers(-30, 31, (m, 1))), np.exp2(rng.integers(-30, 31, (1, n)))


#: Kinds of factors by name: distribution of A and B, and scales of A's rows and B's columns. Sums of positive numbers
#: show accumulators of too few bits and truncation. Numbers outside the range of half show a missing scale or inverse
#: scale.
KINDS: dict[str, tuple[str, Callable[[np.random.Generator, int, int], Scale]]] = {
    "normal": ("normal", lambda rng, m, n: (1.0, 1.0)),
    "positive": ("positive", lambda rng, m, n: (1.0, 1.0)),
    "huge": ("normal", lambda rng, m, n: (2.0**100, 2.0**10)),
    "tiny": ("normal", lambda rng, m, n: (2.0**-100, 2.0**-10)),
    "far apart": ("normal", _apart),
}


@dataclass(frozen=True)
class Question:
    """Product to compute, with its true result in float64.

    a, b : (m, k) and (k, n) float32. rows : indices of the compared rows of C.
    truth : true rows of C, float64. size : |A| |B| in these rows, the unit of each number's error.
    """

    a: np.ndarray
    b: np.ndarray
    rows: np.ndarray
    truth: np.ndarray
    size: np.ndarray


@lru_cache(maxsize=16)  # questions of the proof's own sizes, and of a few timed sizes
def question(kind: str, m: int, n: int, k: int, seed: int) -> Question:
    """Random factors of a kind, one of `KINDS`, with the true product."""
    rng = np.random.default_rng(seed)
    numbers, scaled = KINDS[kind]
    draw = rng.standard_normal if numbers == "normal" else lambda shape, dtype: rng.random(shape, dtype) + dtype(0.5)
    scale_a, scale_b = scaled(rng, m, n)
    a = (draw((m, k), np.float32) * scale_a).astype(np.float32)
    b = (draw((k, n), np.float32) * scale_b).astype(np.float32)
    rows = np.arange(m) if m <= CHECKED else np.sort(rng.choice(m, CHECKED, replace=False))
    return Question(a, b, rows, _product(a[rows], b), _product(abs(a[rows]), abs(b)))


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def prove(device: Device, level: AnyLevel, m: int, n: int, k: int, seed: int = 0, kind: str = "normal") -> float:
    """Error of a level at a size: root mean square of the differences from float64, each relative to |A| |B|.

    m, n, k : C is (m, n), and its sums have k terms. kind : kind of the factors, one of `KINDS`, drawn by `seed`.
    Raises WarpladderError: a number is unwritten; the error is above the limit of the level's precision; a single
    number's error is above four times the limit; or a level that rounds its factors sums less exactly than tensor cores
    do.
    """
    asked = question(kind, m, n, k, seed)
    got = multiplied(device, level, asked)
    where = f"level {level.name} is wrong at ({m}, {n}, {k}) with {kind} factors"
    if not np.isfinite(got).all():
        raise WarpladderError(f"{where}: some numbers were never written, or are not finite")
    name = level.precision.name
    error = judged(got[asked.rows], asked.truth, asked.size, bound(name, k), bound(name, 16 * k, products=16), where)
    if level.precision.coarse:  # the sums alone, of the very numbers that were multiplied
        truth = _product(level.held(asked.a[asked.rows]), level.held(asked.b))
        cuts = -(-k // DEPTH)
        sums = (
            f"{where}, against the product of factors rounded to {name}, so that they are rounded otherwise or "
            "their sums not kept in fp32"
        )
        judged(
            got[asked.rows], truth, asked.size, bound("fp32", k, cuts=cuts), bound("fp32", 16 * k, cuts=4 * cuts), sums
        )
    return error


def multiplied(device: Device, level: AnyLevel, asked: Question) -> np.ndarray:
    """Product C computed by a level, in memory that was filled with NaN before."""
    on_a, on_b = (device.array(level.stored(factor)) for factor in (asked.a, asked.b))
    c = device.empty((len(asked.a), asked.b.shape[1]))
    device.fill(c, 0xFF)
    for launch in level.bind(device, on_a, on_b, c):
        launch.send()
    return c.download()


def judged(got: np.ndarray, truth: np.ndarray, size: np.ndarray, limit: float, most: float, where: str) -> float:
    """Root mean square error over all numbers. Raises `WarpladderError` if it, or the largest error, is above its
    limit.
    """
    apart = abs(got - truth) / size
    error, worst = float(np.sqrt(np.mean(apart**2))), float(apart.max())
    if not error <= limit:
        raise WarpladderError(f"{where}: the error is {error:.2g}, and rounding explains at most {limit:.2g}")
    if not worst <= most:
        column = apart.argmax() % apart.shape[1]
        raise WarpladderError(
            f"{where}: the largest error, in column {column}, is {worst:.2g}, and rounding explains at most {most:.2g}"
        )
    return error
