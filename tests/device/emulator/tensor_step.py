"""A tensor core's step written down a second time, in whole numbers of any length: what the emulator's must give, to
the bit.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

PLACES, LEAST = 25, -133


def drawn(kind: int, seed: int, spread: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors a (16, k) and w (8, k), exact in the format of `kind`, and what they are added to (16, 8); exponents lie
    `spread` apart.
    """
    rng = np.random.default_rng([kind, seed])
    k = 8 if kind == 2 else 16

    def some(*shape: int) -> np.ndarray:
        x = np.ldexp(rng.standard_normal(shape), rng.integers(-spread, spread + 1, shape)).astype(np.float32)
        x[rng.random(shape) < 0.1] = 0
        return x

    a, w, d = some(16, k), some(8, k), some(16, 8)
    return held(a, kind), held(w, kind), d


def held(x: np.ndarray, kind: int) -> np.ndarray:
    """Numbers in the format of a kind, as float32: half rounded, the others with what they do not hold cut away."""
    if kind == 0:
        return x.astype(np.float16).astype(np.float32)
    return (x.view(np.uint32) & np.uint32(0xFFFF0000 if kind == 1 else 0xFFFFE000)).view(np.float32)


def words(x: np.ndarray, kind: int) -> np.ndarray:
    """Such numbers as the words of a row: two of 16 bits, the first in the lower half, or one."""
    if kind == 2:
        return x.view(np.uint32)
    short = x.astype(np.float16).view(np.uint16) if kind == 0 else (x.view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(short).view(np.uint32)


def exponent(x: float, lowest: int) -> int:
    return max(int(np.frexp(x)[1]) - 1, lowest)


def added(d: np.ndarray, a: np.ndarray, w: np.ndarray, lowest: int) -> np.ndarray:
    """d + a w', every sum by itself."""
    out = np.empty_like(d)
    for row, column in np.ndindex(d.shape):
        c, terms, top = float(d[row, column]), [], LEAST
        if c:
            top = max(top, exponent(c, -126))
        for x, y in zip(map(float, a[row]), map(float, w[column]), strict=True):
            if x and y:
                top = max(top, exponent(x, lowest) + exponent(y, lowest))
                terms.append(Fraction(x) * Fraction(y))
        unit = Fraction(2) ** (top - PLACES)
        whole = sum(int(term / unit) for term in (*terms, Fraction(c)))  # int() cuts off
        out[row, column] = cut_off(whole * unit)
    return out


def cut_off(x: Fraction) -> np.float32:
    """A number with the 24 bits of a float, cut off towards zero."""
    if not x:
        return np.float32(0)
    place = max(int(np.frexp(float(abs(x)))[1]) - 24, -149)
    return np.float32(float(int(x / Fraction(2) ** place)) * 2.0**place)
