"""Factors of a product on tensor cores: floats rounded to a format, as numbers and as bits in memory."""

from __future__ import annotations

import numpy as np

from ...machine.precision import Precision
from ...proof.tolerance import rounded


def held(x: np.ndarray, precision: Precision, even: bool = False) -> np.ndarray:
    """Numbers rounded as a product of this precision rounds its factors, as float32.

    bf16 and fp16 round to nearest, ties to even, fp16 to 11 bits in any range, since scaled numbers fit it; tf32 rounds
    as cvt.rna does, ties away from zero, or with `even` as the copy engine (TMA) does; fp32 does not round.
    """
    if precision.name == "bf16":
        return (bf16(x).astype(np.uint32) << 16).view(np.float32)
    if precision.name == "tf32":
        whole = bits(x)
        half = np.uint32(0xFFF) + (whole >> 13 & np.uint32(1)) if even else np.uint32(0x1000)
        return ((whole + half) & np.uint32(0xFFFFE000)).view(np.float32)
    if precision.name == "fp16":
        return rounded(np.asarray(x, float), precision).astype(np.float32)
    return x


def bits(x: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers, as uint32 of the same shape."""
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def bf16(x: np.ndarray) -> np.ndarray:
    """Finite floats rounded to bf16, ties to even: their bits, as uint16 of the same shape."""
    whole = bits(x)
    return ((whole + np.uint32(0x7FFF) + (whole >> 16 & np.uint32(1))) >> 16).astype(np.uint16)


def padded(x: np.ndarray) -> np.ndarray:
    """Copy of a matrix (rows, columns) in bf16, uint16, with rows padded by zeros to a multiple of 8 numbers."""
    rows, columns = x.shape
    out = np.zeros((rows, -(-columns // 8) * 8), np.uint16)
    out[:, :columns] = bf16(x)
    return out
