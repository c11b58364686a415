"""The levels on tensor cores as machine code: for Ampere, Hopper and Blackwell, launched as a GPU of each would be asked to."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")

from warpladder.device import Resources
from warpladder.device import source as sources
from warpladder.device.occupancy import blocks_per_multiprocessor
from warpladder.gemm.tensor import TENSOR_LEVELS, TensorLevel
from warpladder.gpu import compile as compiler
from warpladder.gpu.offline import OfflineDevice
from warpladder.gpu.ptxas import resources
from warpladder.ops.conv2d import tensor_products as of_convolutions
from warpladder.ops.linear.tensor_products import DEPTH, FORMATS, SOURCE, TILES

pytestmark = pytest.mark.nvrtc


@pytest.mark.parametrize("level", TENSOR_LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_they_compile_and_fit(arch: str, level: TensorLevel) -> None:
    device = OfflineDevice(arch)
    for m, n, k in ((256, 256, 256), (131, 77, 93)):
        a, b = (device.array(level.stored(np.zeros(shape, np.float32))) for shape in ((m, k), (k, n)))
        for launch in level.bind(device, a, b, device.empty((m, n))):
            taken = launch.kernel.resources
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0)
            assert blocks_per_multiprocessor(launch.block, launch.shared, taken, device.limits) >= 1


#: By precision: the instruction that its products are made of, how many make one product, and the terms of a sum that one takes.
INSTRUCTIONS = {
    "fp32": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 3, 16),
    "tf32": ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 1, 8),
    "bf16": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 1, 16),
}


@pytest.mark.parametrize(
    ("arch", "precision"),
    [
        pytest.param(arch, precision, marks=[] if arch == "sm_80" or (arch, precision) == ("sm_90", "fp32") else [pytest.mark.nightly])
        for arch in ("sm_80", "sm_90", "sm_100")
        for precision in FORMATS
    ],
)
def test_the_products_of_linear_layers_fit_and_are_of_tensor_core_instructions(
    arch: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No spills, as many blocks to a multiprocessor as each tile counts on; all of a panel's products by mma, and fewer multiply-adds than sums besides."""
    assembled = ""

    def seen(report: str, ptx: str, symbols: dict[str, str]) -> dict[str, Resources]:
        nonlocal assembled
        assembled = ptx
        return resources(report, ptx, symbols)

    monkeypatch.setattr(compiler, "resources", seen)
    kind, (instruction, products, terms) = FORMATS[precision], INSTRUCTIONS[precision]
    layouts = [(tile, a, b) for tile in TILES for a, b in ((True, True), (True, False), (False, False))]
    names = [f"multiply<{kind.name}, {tile}, {str(a).lower()}, {str(b).lower()}>" for tile, a, b in layouts]
    found = compiler.compile(sources.read(SOURCE), tuple(names), arch)
    limits = OfflineDevice(arch).limits
    for name, (tile, a, b) in zip(names, layouts, strict=True):
        taken = found.resources[name]
        assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0), name
        assert blocks_per_multiprocessor((tile.threads, 1, 1), tile.shared(kind, a, b), taken, limits) >= tile.blocks, name
        text = assembled.partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
        sums = tile.wm // 16 * (tile.wn // 8)  # fragments of C that a warp has, four numbers a lane
        assert text.count(instruction) == text.count("mma.sync") >= products * DEPTH // terms * sums, name
        assert text.count("fma.rn.f32") <= 4 * sums, name


@pytest.mark.parametrize(
    ("arch", "precision"),
    [
        pytest.param(arch, precision, marks=[] if (arch, precision) in (("sm_90", "fp32"), ("sm_80", "bf16")) else [pytest.mark.nightly])
        for arch in ("sm_80", "sm_90", "sm_100")
        for precision in of_convolutions.FORMATS
    ],
)
def test_the_products_of_convolutions_fit_and_are_of_tensor_core_instructions(
    arch: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many blocks to a multiprocessor as the model counts on; all products of a tap by mma, and no more multiply-adds than sums besides.

    No sums are spilled: with 64 outputs up to eight words that a block reads once in a stage may be, which a third block is worth (docs/rungs/tensor-conv2d.md).
    """
    assembled = ""

    def seen(report: str, ptx: str, symbols: dict[str, str]) -> dict[str, Resources]:
        nonlocal assembled
        assembled = ptx
        return resources(report, ptx, symbols)

    monkeypatch.setattr(compiler, "resources", seen)
    kind, (instruction, products, terms) = of_convolutions.FORMATS[precision].name, INSTRUCTIONS[precision]
    limits = OfflineDevice(arch).limits
    # By kernel: threads of a block, blocks to a multiprocessor, and fragments of sums that a warp has, of 16 x 8 numbers.
    forward = {
        f"convolve<{kind}, {bn}, {few}>": (of_convolutions.THREADS, of_convolutions.RESIDENT, bn // 4)
        for bn in of_convolutions.WIDTHS
        for few in ("false", "true")
    }
    backward = {
        f"correlate<{kind}, false>": (of_convolutions.WIDE_THREADS, 1, 12),
        f"correlate<{kind}, true>": (of_convolutions.WIDE_THREADS, 1, 4),
    }
    for path, kernels in ((of_convolutions.SOURCE, forward), (of_convolutions.WEIGHTS, backward)):
        found = compiler.compile(sources.read(path), tuple(kernels), arch)
        for name, (threads, blocks, sums) in kernels.items():
            taken = found.resources[name]
            assert taken.local <= (32 if "64" in name else 0), name
            assert blocks_per_multiprocessor((threads, 1, 1), 0, taken, limits) >= blocks, name
            text = assembled.partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
            assert text.count(instruction) == text.count("mma.sync") >= products * DEPTH // terms * sums, name
            assert text.count("fma.rn.f32") <= 4 * sums, name
