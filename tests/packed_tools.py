"""Products of packed factors on tensor cores, asked for one by one: each tile, layout and precision, in whole sums or parts; and kernels with an edit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensor_tools import LAYOUTS, judge, placed
from tensor_tools import Asked as Question
from warpladder.device import Device, Source
from warpladder.device import source as sources
from warpladder.emulator import EmulatedDevice
from warpladder.emulator.kernel import EmulatedKernel
from warpladder.gemm.proof import question
from warpladder.ops.kernels import OnDevice, ceil_div
from warpladder.ops.linear import tensor_multiply, tensor_packed
from warpladder.ops.linear.tensor_multiply import PackedProduct
from warpladder.ops.linear.tensor_packed import FORMATS, Outlet, PackedFactor, pack
from warpladder.ops.linear.tensor_tiles import TILES, PackedTile
from warpladder.ops.tiles import Plan

PRECISIONS = tuple(FORMATS)


@dataclass(frozen=True)
class Asked:
    """A way to multiply. tile: None is the model's choice, with its parts. offset: floats from a 16-byte boundary to each array's first number."""

    layout: str = "y"
    precision: str = "fp32"
    tile: PackedTile | None = None
    parts: int = 1
    offset: int = 0


EVERY_TILE = [Asked(layout, precision, tile, parts) for precision in PRECISIONS for layout in LAYOUTS for tile in TILES for parts in (1, 3)]


def packed(device: Device, asked: Asked, lines: np.ndarray, along: bool) -> PackedFactor:
    """A factor (lines, terms), packed from where it lies with its lines along rows or columns, among NaN."""
    kind, owner = FORMATS[asked.precision], OnDevice(device, 256)
    factor = PackedFactor(owner, lines.shape[0], lines.shape[1], kind)
    stored = lines if along else lines.T
    rows, columns = stored.shape
    pack(owner, kind, placed(device, stored, asked.offset), rows, columns, Outlet(factor) if along else Outlet(None, factor)).send()
    return factor


def multiplied(
    device: Device, asked: Asked, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, rectify: bool = False
) -> np.ndarray:  # fmt: skip
    """C of A (m, k) and B (k, n)."""
    (m, k), n, kind = a.shape, b.shape[1], FORMATS[asked.precision]
    product = PackedProduct(OnDevice(device, 256), lambda _: (m, n, k), 1, kind)
    if asked.tile is not None:
        tile, records = asked.tile, ceil_div(k, kind.terms)
        depth = ceil_div(records, asked.parts)
        tiles = ceil_div(m, tile.bm) * ceil_div(n, tile.bn)
        product.plan.use(1, Plan(tile, depth, ceil_div(records, depth)))
        product.parts = device.array(np.full(tiles * asked.parts * tile.bm * tile.bn, np.nan, np.float32))
        product.arrived = device.zeros((tiles,), np.uint32)
    c = placed(device, np.full((m, n), np.nan, np.float32), asked.offset)
    a_along, b_along = LAYOUTS[asked.layout]
    left, right = packed(device, asked, a, a_along), packed(device, asked, b.T, b_along)
    product.launch(1, left, right, c, None if bias is None else device.array(bias), rectify).send()
    assert product.arrived is None or not product.arrived.download().any(), "the count of blocks is not zero again"
    return c.download()


def prove(device: Device, asked: Asked, m: int, n: int, k: int, kind: str = "normal") -> float:
    """The error of a product, number by number relative to |A| |B|; raises where it is beyond the bound of its precision, or sums are not kept in fp32."""
    drawn = question(kind, m, n, k, 0)
    return judge(multiplied(device, asked, drawn.a, drawn.b), Question(asked.layout, asked.precision, parts=asked.parts), drawn)


def unaligned(asked: Asked) -> Asked:
    """The same with arrays that begin at no boundary of 16 bytes."""
    return replace(asked, offset=1)


def size_of(tile: PackedTile) -> tuple[int, int, int]:
    """A product with more than one tile each way, ragged, and sums that end amid a record."""
    return tile.bm + 3, tile.bn + 6, 3 * 64 + 5


class Edited:
    """The emulator, where the kernels that pack and multiply, or their headers, read otherwise."""

    def __init__(self, honest: EmulatedDevice, *edits: tuple[str, str]) -> None:
        self.honest = honest
        self.sources: dict[Path, Source] = {}
        found = dict.fromkeys(edits, 0)
        for path in (tensor_packed.SOURCE, tensor_multiply.SOURCE):
            text = (source := sources.read(path)).text
            for before, after in edits:
                found[before, after] += (count := text.count(before))
                assert count <= 1, f"{path.name} and its headers have {before!r} more than once"
                text = text.replace(before, after)
            self.sources[path] = replace(source, text=text)
        assert all(found.values()), f"no kernel has one of {[before for (before, _), count in found.items() if not count]} any longer"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    def kernel(self, path: Path, name: str) -> EmulatedKernel:
        return self.honest.kernel(self.sources.get(path, path), name)
