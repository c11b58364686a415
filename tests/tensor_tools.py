"""Products of linear layers on tensor cores, asked for one by one: each tile, layout and precision, in whole sums or parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpladder.device import Array, Device, Source
from warpladder.device import source as sources
from warpladder.emulator import EmulatedDevice
from warpladder.emulator.kernel import EmulatedKernel
from warpladder.gemm.formats import held
from warpladder.gemm.proof import DEPTH as MMA
from warpladder.gemm.proof import Question, judged, question
from warpladder.ops.kernels import OnDevice, ceil_div
from warpladder.ops.linear.tensor_products import DEPTH, FORMATS, SOURCE, TILES, Cut, TensorProduct, Tile
from warpladder.precision import named
from warpladder.tolerance import bound

#: How A and B are stored: those of y, of dx, and of dw.
LAYOUTS = {"y": (True, True), "dx": (True, False), "dw": (False, False)}
PRECISIONS = tuple(FORMATS)


@dataclass(frozen=True)
class Asked:
    """A way to multiply. tile: None is the model's choice, with its parts. offset: floats from a 16-byte boundary to each array's first number."""

    layout: str = "y"
    precision: str = "fp32"
    tile: Tile | None = None
    parts: int = 1
    offset: int = 0


def placed(device: Device, numbers: np.ndarray, offset: int) -> Array:
    """An array on a device, NaN around it."""
    room = np.full(numbers.size + 8, np.nan, np.float32)
    room[offset : offset + numbers.size] = numbers.ravel()
    return device.array(room)[offset : offset + numbers.size].reshape(numbers.shape)


def multiplied(
    device: Device, asked: Asked, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, rectify: bool = False
) -> np.ndarray:  # fmt: skip
    """C of A (m, k) and B (k, n)."""
    (m, k), n = a.shape, b.shape[1]
    a_along, b_along = LAYOUTS[asked.layout]
    product = TensorProduct(OnDevice(device, 256), lambda _: (m, n, k), 1, a_along, b_along, asked.precision)
    if asked.tile is not None:
        depth = ceil_div(ceil_div(k, asked.parts), DEPTH) * DEPTH
        cut = Cut(asked.tile, depth, ceil_div(k, depth))
        product.cut = lambda samples: cut  # type: ignore[method-assign]
        product.parts = device.array(np.full(cut.parts * m * n, np.nan, np.float32))
    c = placed(device, np.full((m, n), np.nan, np.float32), asked.offset)
    on_a, on_b = (placed(device, x if along else x.T, asked.offset) for x, along in ((a, a_along), (b.T, b_along)))
    for launch in product.launches(1, on_a, on_b, c, None if bias is None else device.array(bias), rectify):
        launch.send()
    return c.download()


def prove(device: Device, asked: Asked, m: int, n: int, k: int, kind: str = "normal") -> float:
    """The error of a product, number by number relative to |A| |B|; raises where it is beyond the bound of its precision, or sums are not kept in fp32."""
    return judge(multiplied(device, asked, *_factors(kind, m, n, k)), asked, question(kind, m, n, k, 0))


def _factors(kind: str, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = question(kind, m, n, k, 0)
    return drawn.a, drawn.b


def judge(got: np.ndarray, asked: Asked, truth: Question) -> float:
    """As `prove`, of what was computed."""
    assert np.isfinite(got).all(), f"{asked}: some numbers were never written, or are not finite"
    kind, (k, _) = named(asked.precision), truth.b.shape
    error = judged(
        got[truth.rows], truth.truth, truth.size, bound(kind, k), bound(kind, 16 * k, products=16), f"{asked} is wrong at {got.shape}, {k}"
    )  # fmt: skip
    if (
        kind.coarse
    ):  # the sums alone, of the very numbers that were multiplied: they leave the tensor cores every DEPTH terms, so that few cuts add up
        rounded = held(truth.a[truth.rows], kind).astype(float) @ held(truth.b, kind).astype(float)
        cuts = ceil_div(min(k, DEPTH), MMA // 2)
        where = f"{asked}: the sums of rounded factors are wrong at {got.shape}, {k}"
        judged(got[truth.rows], rounded, truth.size, bound("fp32", k, cuts=cuts), bound("fp32", 16 * k, cuts=4 * cuts), where)
    return error


EVERY_TILE = [
    Asked(layout, precision, tile, parts)
    for precision in PRECISIONS
    for layout in LAYOUTS
    for tile in TILES
    for parts in (1, 3)
]  # fmt: skip


def size_of(tile: Tile) -> tuple[int, int, int]:
    """A product with more than one tile each way, ragged, and sums that end amid a step."""
    return tile.bm + 3, tile.bn + 6, 3 * DEPTH + 5


def unaligned(asked: Asked) -> Asked:
    """The same with arrays that begin at no boundary of 16 bytes."""
    return replace(asked, offset=1)


class Edited:
    """The emulator, where tensor.cu or its header reads otherwise."""

    def __init__(self, honest: EmulatedDevice, *edits: tuple[str, str]) -> None:
        self.honest = honest
        text = (source := sources.read(SOURCE)).text
        panels = "tensor_panels.cuh"
        header = next(path for path in source.headers if path.name == panels).read_text()
        text = text.replace(f'#include "{panels}"', header.replace("#pragma once", ""))
        for before, after in edits:
            assert text.count(before) == 1, f"{SOURCE.name} and its header have no longer one line {before!r}"
            text = text.replace(before, after)
        self.source: Source = replace(source, text=text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    def kernel(self, path: Path, name: str) -> EmulatedKernel:
        return self.honest.kernel(self.source if path == SOURCE else path, name)


#: An edit's end: the sum that was just added to, rounded to bf16.
IN_BF16 = "sum[i][j][l] = __uint_as_float(two_bf16(sum[i][j][l], 0.0f) << 16);"
