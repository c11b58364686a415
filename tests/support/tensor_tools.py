"""Products of packed factors on tensor cores, asked for one by one: each tile, layout and precision, in whole sums or
parts; and kernels with an edit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from edits import edited, occurrences

from warpladder.appendix.gemm.formats import held
from warpladder.appendix.gemm.proof import DEPTH as MMA
from warpladder.appendix.gemm.proof import Question, judged, question
from warpladder.device import Array, Device, KernelSource
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.emulator.kernel import EmulatedKernel
from warpladder.machine.precision import named
from warpladder.ops.cost.tiles import TilePlan
from warpladder.ops.engine.chain import Slice
from warpladder.ops.engine.kernels import OnDevice, ceil_div
from warpladder.ops.engine.segments import StoredSamples
from warpladder.ops.linear.tensor import packed as tensor_packed
from warpladder.ops.linear.tensor.packed import BLOCK, EXACT, FORMATS, Formats, Outlet, PackedFactor, pack, pack_samples
from warpladder.ops.linear.tensor.products import ProductEnd, TensorProduct
from warpladder.ops.linear.tensor.tiles import OF_WARPGROUPS, SOURCE, TILES, WARPGROUPS, PackedTile
from warpladder.proof.tolerance import bound

#: How A and B are stored: those of y, of dx, and of dw.
LAYOUTS = {"y": (True, True), "dx": (True, False), "dw": (False, False)}
PRECISIONS = tuple(FORMATS)


@dataclass(frozen=True)
class Asked:
    """A way to multiply.

    tile : None is the model's choice, with its parts.
    offset : floats from a 16-byte boundary to each array's first number.
    exact : the factor that is given as bytes, "a" or "b", each times SCALE.
    """

    layout: str = "y"
    precision: str = "fp32"
    tile: PackedTile | None = None
    parts: int = 1
    offset: int = 0
    exact: str = ""

    def formats(self) -> Formats:
        kind = FORMATS[self.precision]
        return Formats(kind, EXACT if self.exact == "a" else kind, EXACT if self.exact == "b" else kind)


#: What bytes are multiplied by.
SCALE = np.float32(1 / 255)

EVERY_TILE = [
    Asked(layout, precision, tile, parts)
    for precision in PRECISIONS
    for layout in LAYOUTS
    for tile in TILES
    for parts in (1, 3)
]

#: The same by warpgroups, for Hopper and the emulator: how factors were packed is not seen by the kernel, so layouts
#: take turns.
EVERY_WARPGROUP_TILE = [
    Asked(tuple(LAYOUTS)[(number + parts) % 3], precision, tile, parts)
    for precision in PRECISIONS
    for number, tile in enumerate(OF_WARPGROUPS)
    for parts in (1, 3)
]


def placed(device: Device, numbers: np.ndarray, offset: int) -> Array:
    """An array on a device, NaN around it."""
    room = np.full(numbers.size + 8, np.nan, np.float32)
    room[offset : offset + numbers.size] = numbers.ravel()
    return device.array(room)[offset : offset + numbers.size].reshape(numbers.shape)


def packed(device: Device, asked: Asked, lines: np.ndarray, along: bool) -> PackedFactor:
    """A factor (lines, terms), packed from where it lies with its lines along rows or columns, among NaN; bytes as
    samples are packed.
    """
    if lines.dtype == np.uint8:
        return of_bytes(device, lines, along)
    kind, owner = FORMATS[asked.precision], OnDevice(device, 256)
    factor = PackedFactor(owner, lines.shape[0], lines.shape[1], kind)
    stored = lines if along else lines.T
    rows, columns = stored.shape
    pack(
        owner,
        kind,
        placed(device, stored, asked.offset),
        rows,
        columns,
        Outlet(factor) if along else Outlet(None, factor),
    ).send()
    return factor


def of_bytes(device: Device, lines: np.ndarray, along: bool) -> PackedFactor:
    """Bytes (lines, terms) as a segment packs a data set of them; what it leaves as floats has to be the bytes times
    SCALE.
    """
    owner, stored = OnDevice(device, 256), np.ascontiguousarray(lines if along else lines.T)
    factor = PackedFactor(owner, lines.shape[0], lines.shape[1], EXACT, SCALE)
    samples = StoredSamples(device.array(stored), SCALE, None, None, device.zeros((1,), np.int32))
    x = device.array(np.full(stored.shape, np.nan, np.float32))
    to = Outlet(factor) if along else Outlet(None, factor)
    pack_samples(owner, EXACT, samples, x, None, Slice(len(stored), len(stored)), len(stored), to).send()
    np.testing.assert_array_equal(x.download(), stored * SCALE)
    return factor


def multiplied(
    device: Device, asked: Asked, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, fused_relu: bool = False
) -> np.ndarray:  # fmt: skip
    """C of A (m, k) and B (k, n)."""
    (m, k), n, kind = a.shape, b.shape[1], FORMATS[asked.precision]
    product = TensorProduct(OnDevice(device, 256), lambda _: (m, n, k), 1, asked.formats())
    if asked.tile is not None:
        tile, records = asked.tile, ceil_div(k, kind.terms)
        depth = ceil_div(records, asked.parts)
        tiles = tile.blocks(m, n)
        product.plan.use(1, TilePlan(tile, depth, ceil_div(records, depth)))
        product.parts = device.array(np.full(tiles * asked.parts * tile.bm * tile.bn, np.nan, np.float32))
        product.arrived = device.zeros((tiles,), np.uint32)
    c = placed(device, np.full((m, n), np.nan, np.float32), asked.offset)
    a_along, b_along = LAYOUTS[asked.layout]
    left, right = packed(device, asked, a, a_along), packed(device, asked, b.T, b_along)
    end = ProductEnd(None if bias is None else device.array(bias), fused_relu)
    product.launch(1, left, right, c, end).send()
    assert product.arrived is None or not product.arrived.download().any(), "the count of blocks is not zero again"
    return c.download()


def prove(device: Device, asked: Asked, m: int, n: int, k: int, kind: str = "normal") -> float:
    """The error of a product, number by number relative to |A| |B|; raises where it is beyond the bound of its
    precision, or sums are not kept in fp32.
    """
    drawn = question(kind, m, n, k, 0)
    return judge(multiplied(device, asked, drawn.a, drawn.b), asked, drawn)


def prove_with_bytes(device: Device, asked: Asked, m: int, n: int, k: int, kind: str = "normal") -> float:
    """As `prove`, where one factor is bytes times SCALE, 0 and 255 among them."""
    drawn, rng = question(kind, m, n, k, 0), np.random.default_rng(m * n * k)
    stored = rng.integers(0, 256, (drawn.a if asked.exact == "a" else drawn.b).shape, np.uint8)
    stored.flat[:: max(1, stored.size // 5)] = 255
    a, b = (stored, drawn.b) if asked.exact == "a" else (drawn.a, stored)
    got = multiplied(device, asked, a, b)
    a, b = (each * float(SCALE) if each is stored else each.astype(float) for each in (a, b))
    assert np.isfinite(got).all(), f"{asked}: some numbers were never written, or are not finite"
    return judged(
        got,
        a @ b,
        abs(a) @ abs(b) + 2.0**-126,
        bound("fp32", k),
        bound("fp32", 16 * k),
        f"{asked} is wrong at {got.shape}, {k}",
    )


def judge(got: np.ndarray, asked: Asked, truth: Question) -> float:
    """As `prove`, of what was computed."""
    assert np.isfinite(got).all(), f"{asked}: some numbers were never written, or are not finite"
    kind, (k, _) = named(asked.precision), truth.b.shape
    error = judged(
        got[truth.rows], truth.truth, truth.size, bound(kind, k), bound(kind, 16 * k, products=16), f"{asked} is wrong at {got.shape}, {k}"
    )  # fmt: skip
    # the sums alone, of the very numbers that were multiplied: they leave the tensor cores every BLOCK terms, so that
    # few cuts add up
    if kind.coarse:
        rounded = held(truth.a[truth.rows], kind).astype(float) @ held(truth.b, kind).astype(float)
        cuts = ceil_div(min(k, BLOCK), MMA // 2)
        where = f"{asked}: the sums of rounded factors are wrong at {got.shape}, {k}"
        judged(
            got[truth.rows],
            rounded,
            truth.size,
            bound("fp32", k, cuts=cuts),
            bound("fp32", 16 * k, cuts=4 * cuts),
            where,
        )
    return error


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
        self.sources: dict[Path, KernelSource] = {}
        found = dict.fromkeys(edits, 0)
        for path in (tensor_packed.SOURCE, SOURCE, WARPGROUPS):
            text = (source := sources.read(path)).text
            for before, after in edits:
                found[before, after] += (count := occurrences(text, before))
                assert count <= 1, f"{path.name} and its headers have {before!r} more than once"
                text = edited(text, before, after)
            self.sources[path] = replace(source, text=text)
        assert all(found.values()), (
            f"no kernel has one of {[before for (before, _), count in found.items() if not count]} any longer"
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    def kernel(self, path: Path, name: str) -> EmulatedKernel:
        return self.honest.kernel(self.sources.get(path, path), name)


#: An edit's end: the sum that was just added to, rounded to bf16.
IN_BF16 = "sum[i][j][l] = __uint_as_float(two_bf16(sum[i][j][l], 0.0f) << 16);"
#: The same, rounded to half.
IN_HALF = "sum[i][j][l] = low_half(two_halves(sum[i][j][l], 0.0f));"
