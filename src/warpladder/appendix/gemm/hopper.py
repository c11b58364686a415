"""Levels for Hopper GPUs: tiles copied by the copy engine (TMA), warpgroup products (wgmma), and persistent blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...device import Array, Device, Launch
from ...machine.peaks import HOPPER
from ...ops.engine.kernels import ceil_div
from .formats import held
from .tensor_level import Stored16, TensorLevel, split

#: Rows of a tile of B in 16 bits: the terms of a stage.
TERMS = 64


def _lacks(device: Device, what: str, alone: bool) -> str | None:
    peaks = device.limits.peaks
    if peaks is None or peaks.capability == HOPPER or (peaks.capability > HOPPER and not alone):
        return None
    has = ".".join(map(str, peaks.capability))
    return f"wants a GPU of compute capability 9.0{'' if alone else ' or later'}, for {what}, and this one has {has}"


@dataclass(frozen=True)
class ByTiles(Stored16):
    """Level with factors stored in bf16, whose tiles the copy engine (TMA) loads."""

    def lacks(self, device: Device, n: int, k: int) -> str | None:
        return _lacks(device, "tiles by TMA", alone=False)

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        of_a, of_b = device.tensor_map(a, self.tile[0], columns=k), device.tensor_map(b, TERMS, columns=n)
        return [self.launch(device, self.blocks(device, m, n), of_a, of_b, c, m, n, k)]

    def blocks(self, device: Device, m: int, n: int) -> tuple[int, int]:
        """Grid of blocks, (x, y), for C (m, n)."""
        return self.grid(m, n)


def _persistent_blocks(level: TensorLevel, device: Device, m: int, n: int) -> tuple[int, int]:
    """Number of persistent blocks: one for each multiprocessor, and at most one for each tile of C."""
    across, down = level.grid(m, n)
    return min(across * down, device.limits.multiprocessors), 1


@dataclass(frozen=True)
class OnWarpgroups(TensorLevel):
    """Level that multiplies by warpgroups (wgmma), which reach the tensor cores' peak."""

    reach: ClassVar[float] = 1.0

    def lacks(self, device: Device, n: int, k: int) -> str | None:
        return _lacks(device, "wgmma", alone=True)


@dataclass(frozen=True)
class ByWarpgroups(OnWarpgroups, ByTiles):
    """Level that multiplies by warpgroups, with factors stored in bf16, whose tiles the copy engine loads."""


@dataclass(frozen=True)
class Persistent(ByWarpgroups):
    """Level with persistent blocks: each block computes several tiles of C."""

    def blocks(self, device: Device, m: int, n: int) -> tuple[int, int]:
        return _persistent_blocks(self, device, m, n)


@dataclass(frozen=True)
class Transposed(OnWarpgroups):
    """Level in tf32 on float32 factors, with persistent blocks.

    Launches before it transpose B, and copy A if its rows are not aligned to 16 bytes; their time is included. The copy
    engine rounds ties to even; `cvt.rna` of the other levels in tf32 rounds them away from zero.
    """

    def held(self, factor: np.ndarray) -> np.ndarray:
        return held(factor, self.precision, even=True)

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        pitch = ceil_div(k, 4) * 4
        transposed, tiles = device.empty((n, pitch), what="B transposed"), (ceil_div(n, 32), ceil_div(k, 32))
        launches = [device.kernel(self.path, "transpose").bind(tiles, 256, b, transposed, k, n, pitch)]
        if pitch != k:
            spread = device.empty((m, pitch), what="A, its rows at multiples of 16 bytes")
            launches.append(device.kernel(self.path, "spread").bind((ceil_div(k, 256), m), 256, a, spread, k, pitch))
            a = spread
        of_a = device.tensor_map(a, self.tile[0], columns=k, to_tf32=True)
        of_b = device.tensor_map(transposed, self.tile[1], columns=k, to_tf32=True)
        return [*launches, self.launch(device, _persistent_blocks(self, device, m, n), of_a, of_b, c, m, n, k)]


@dataclass(frozen=True)
class SplitPersistent(OnWarpgroups):
    """Level in fp32 by split halves with persistent blocks; the time of the splitting launches is included."""

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        (m, n), k = c.shape, b.shape[0]
        launches, (a_high, a_low, a_exponents, b_high, b_low, b_exponents) = split(device, a, b)
        of_a = [device.tensor_map(half, self.tile[0], columns=k) for half in (a_high, a_low)]
        of_b = [device.tensor_map(half, TERMS, columns=n) for half in (b_high, b_low)]
        factors, blocks = (*of_a, a_exponents, *of_b, b_exponents), _persistent_blocks(self, device, m, n)
        return [*launches, self.launch(device, blocks, *factors, c, m, n, k)]
