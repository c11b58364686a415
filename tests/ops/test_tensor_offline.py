"""The levels on tensor cores as machine code: for Ampere, Hopper and Blackwell, launched as a GPU of each would be
asked to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from machine_code import INSTRUCTIONS, MOST_CODE, code_size
from machine_code import assembled as assembled  # a fixture

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")

from strategies import case

from warpladder import nets
from warpladder.appendix.gemm.tensor import TENSOR_LEVELS
from warpladder.appendix.gemm.tensor_level import TensorLevel
from warpladder.config import TrainConfig
from warpladder.device import Launch
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.gpu import compile as compiler
from warpladder.device.gpu.offline import OfflineDevice
from warpladder.device.occupancy import blocks_per_multiprocessor
from warpladder.errors import KernelError
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.tensor.first import first
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.conv2d.tensor.narrow import narrow
from warpladder.ops.conv2d.tensor.narrow import plan as narrow_plan
from warpladder.ops.conv2d.tensor.shifted import shifted
from warpladder.ops.conv2d.tensor.warpgroups import warpgroups
from warpladder.ops.engine.kernels import OnDevice
from warpladder.ops.linear.tensor import packed as packed
from warpladder.ops.linear.tensor import tiles as tensor_tiles
from warpladder.ops.linear.tensor.tiles import OF_WARPGROUPS, TILES
from warpladder.ops.tables.tensor import TABLE
from warpladder.timing.profile.kernels import full
from warpladder.timing.profile.units import tensor_share
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.nvrtc


@pytest.mark.parametrize("level", TENSOR_LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.by_day("sm_90", "sm_80-split]", "sm_100-ring]", "sm_80-specialised]")
def test_they_compile_and_fit(arch: str, level: TensorLevel) -> None:
    device = OfflineDevice(arch)
    if arch not in {each.rstrip("a") for each in sources.read(level.path).archs}:
        a, b = (device.array(level.stored(np.zeros((64, 64), np.float32))) for _ in range(2))
        with pytest.raises(KernelError, match="is written for"):
            level.bind(device, a, b, device.empty((64, 64)))
        return
    for m, n, k in ((256, 256, 256), (131, 77, 93)):
        a, b = (device.array(level.stored(np.zeros(shape, np.float32))) for shape in ((m, k), (k, n)))
        launches = level.bind(device, a, b, device.empty((m, n)))
        assert any(launch.kernel.uses_tensor_cores for launch in launches), (
            "the assembler's text has neither mma nor wgmma"
        )
        for launch in launches:
            taken = launch.kernel.resources
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0)
            assert blocks_per_multiprocessor(launch.block, launch.shared, taken, device.limits) >= 1


#: Multiply-adds of SGD's step for the four parameters that a thread updates at a time: weight decay, momentum,
#: Nesterov's.
UPDATE = 4 * 3


@pytest.mark.parametrize(
    ("arch", "precision"),
    [
        pytest.param(
            arch,
            precision,
            marks=[] if (arch, precision) in (("sm_80", "bf16"), ("sm_90", "fp32")) else [pytest.mark.nightly],
        )
        for arch in ("sm_80", "sm_90", "sm_100")
        for precision in packed.FORMATS
    ],
)
@pytest.mark.by_day("sm_90-fp32")
def test_the_products_of_linear_layers_fit_and_are_of_tensor_core_instructions(
    arch: str, precision: str, assembled: list[str]
) -> None:
    """No spills, as many blocks to a multiprocessor as each tile counts on; all of a record's products by mma, fewer
    multiply-adds than sums; none to pack.
    """
    kind, limits = packed.FORMATS[precision], OfflineDevice(arch).limits
    asked = [(tile, packed.Formats.alike(kind)) for tile in TILES]
    if precision == "fp32":  # and of bytes, whose products are two: y's in a large tile, dw's in a small one
        asked += [
            (TILES[0], packed.Formats(kind, packed.EXACT, kind)),
            (TILES[-1], packed.Formats(kind, kind, packed.EXACT)),
        ]
    names = [tile.kernel(formats) for tile, formats in asked]
    found = compiler.compile(sources.read(tensor_tiles.SOURCE), tuple(names), arch)
    for name, (tile, formats) in zip(names, asked, strict=True):
        taken = found.resources[name]
        assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0), name
        assert taken.registers * tile.threads * tile.resident <= limits.registers_per_block, name
        assert blocks_per_multiprocessor((tile.threads, 1, 1), tile.shared_of(formats), taken, limits) >= 1, name
        text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
        sums = tile.tm // 16 * (tile.tn // 8)  # fragments of C that a warp has, four numbers a lane
        assert (
            text.count(INSTRUCTIONS[precision])
            == text.count("mma.sync")
            == formats.products * kind.terms // kind.mma * sums
        ), name
        assert text.count("fma.rn.f32") <= 4 * sums * kind.scales + UPDATE, name
    compiler.compile(sources.read(packed.SOURCE), (f"pack<{kind.name}>",), arch)
    products, packing = assembled
    assert products and packing and "fma.rn.f32" not in packing and "mma.sync" not in packing


@pytest.mark.parametrize(
    "precision",
    [pytest.param(name, marks=[] if name in ("fp32", "bf16") else [pytest.mark.nightly]) for name in packed.FORMATS],
)
@pytest.mark.by_day("fp32")
def test_the_products_of_linear_layers_by_warpgroups_fit(precision: str, assembled: list[str]) -> None:
    """No register is spilled, a block fits a multiprocessor with its ring, and all products of a record, or of its 32
    terms with one scale, are wgmma.
    """
    kind, limits = packed.FORMATS[precision], OfflineDevice("sm_90").limits
    asked = [(tile, packed.Formats.alike(kind)) for tile in OF_WARPGROUPS]
    if precision == "fp32":
        asked += [
            (OF_WARPGROUPS[0], packed.Formats(kind, packed.EXACT, kind)),
            (OF_WARPGROUPS[-1], packed.Formats(kind, kind, packed.EXACT)),
        ]
    names = [tile.kernel(formats) for tile, formats in asked]
    found = compiler.compile(sources.read(tensor_tiles.WARPGROUPS), tuple(names), "sm_90a")
    for name, (tile, formats) in zip(names, asked, strict=True):
        taken = found.resources[name]
        assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0), name
        assert (
            blocks_per_multiprocessor((tile.threads, 1, 1), tile.shared_of(formats), taken, limits) >= tile.resident
        ), name
        text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
        assert (
            text.count("wgmma.mma_async")
            == formats.products * min(kind.terms, 32 if kind.has_scales else 64) // kind.mma
        ), name
        assert (
            "mma.sync" not in text and text.count("fma.rn.f32") == (tile.tn // 2 if kind.has_scales else 0) + UPDATE
        ), name


@pytest.mark.parametrize(
    ("arch", "precision"),
    [
        pytest.param(
            arch,
            precision,
            marks=[] if (arch, precision) in (("sm_90", "fp32"), ("sm_80", "bf16")) else [pytest.mark.nightly],
        )
        for arch in ("sm_80", "sm_90", "sm_100")
        for precision in ("fp32", "bf16", "fp16")
    ],
)
def test_the_products_of_few_channels_are_short_code_on_tensor_cores(
    arch: str, precision: str, assembled: list[str]
) -> None:
    """A tap's products stand once in the code of y and dx, and a row of taps' in that of dw; a block's registers fit;
    no sums are spilled.
    """
    kind, instruction = HALF_FORMATS[precision].name, INSTRUCTIONS[precision]
    steps = 3 if precision == "fp32" else 1  # instructions for 16 terms of a fragment
    limits = OfflineDevice(arch).limits
    # By kernel: warps of a block, and fragments of products in its code.
    forward = {
        f"convolve_narrow<{kind}, 16, 32, false, true>": (narrow_plan.WARPS, 4),
        f"convolve_narrow<{kind}, 32, 16, true, false>": (narrow_plan.WARPS, 8),
    }
    backward = {
        f"correlate_narrow<{kind}, 3, 32, true>": (narrow_plan.WEIGHT_WARPS, 24),
        f"correlate_narrow<{kind}, 5, 32, false>": (10, 24),
    }
    for path, kernels in ((narrow.SOURCE, forward), (narrow.WEIGHTS, backward)):
        found = compiler.compile(sources.read(path), tuple(kernels), arch)
        for name, (warps, products) in kernels.items():
            taken = found.resources[name]
            assert taken.local <= (0 if "true" in name else 32), name
            assert (
                taken.static_shared <= narrow_plan.STATIC
                and blocks_per_multiprocessor((32 * warps, 1, 1), 0, taken, limits) >= 1
            ), name
            text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
            assert text.count(instruction) == text.count("mma.sync") == steps * products, name


#: The five nets, and who runs them: two of them, of linear layers and of convolutions, say it for every change in a
#: precision each, all at night.
FIVE = [
    pytest.param(
        net,
        precision,
        id=f"{net.name}-{precision}",
        marks=[] if (net.name, precision) in (("mlp", "fp16"), ("cnn", "fp32")) else [pytest.mark.nightly],
    )
    for net in (nets.softmax(), nets.mlp(), nets.mlp10(), nets.cnn(), nets.autoencoder())
    for precision in packed.FORMATS
]


@pytest.mark.parametrize(("net", "precision"), FIVE)
def test_the_five_nets_multiply_in_tensor_core_instructions(net: nets.Net, precision: str) -> None:
    """By NVRTC's assembler text, at full size: at least 95 % of the product FLOPs. Where the emulator runs here, it
    tells the same of each kernel.
    """
    drawn = case(net, TrainConfig(batch_size=64), seed=1, samples=70)
    told: list[dict[str, bool]] = []
    for device in (OfflineDevice("sm_90"), *([EmulatedDevice()] if why_not() is None else [])):
        device.limits = replace(device.limits, multiprocessors=132)
        with GraphedTrainer(net, drawn.config, drawn.state, device, TABLE, precision=precision) as trainer:
            trainer.load(drawn.dataset)
            share = tensor_share(trainer, full(trainer))
            assert share is not None and 0.95 <= share <= 1
            calls = [call for call in trainer.program(full(trainer)) if isinstance(call, Launch)]
            told.append(
                {call.name.partition("<")[0]: call.kernel.uses_tensor_cores for call in calls}
            )  # Hopper has tiles of its own
    assert told[0] == told[-1] and any(told[0].values()) and not all(told[0].values())


@pytest.mark.parametrize("kind", ["SPLIT", "BF16", "HALF"])
@pytest.mark.by_day("SPLIT")
def test_convolutions_by_warpgroup_products_fit(kind: str, assembled: list[str]) -> None:
    """No register is spilled, a block fits a multiprocessor with its shared memory, its code fits the instruction
    cache, and all products are wgmma.
    """
    limits = OfflineDevice("sm_90").limits
    for path, staged, listed in (
        (
            warpgroups.SOURCE,
            warpgroups.STAGED,
            ("convolve<BF16, 1>", "convolve<BF16, 2>", "convolve<SPLIT, 1>", "convolve<HALF, 1>"),
        ),
        (warpgroups.WEIGHTS, 0, ("correlate<BF16, 2>", "correlate<SPLIT, 1>", "correlate<HALF, 1>")),
    ):
        names = tuple(name for name in listed if kind in name)
        found = compiler.compile(sources.read(path), names, "sm_90a")
        for name in names:
            taken, pieces = found.resources[name], int(name[-2])
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0), name
            assert (
                blocks_per_multiprocessor((warpgroups.THREADS, 1, 1), warpgroups.RING + 1024 + staged, taken, limits)
                == 1
            ), name
            assert 0 < code_size(found.cubin, found.symbols[name]) <= MOST_CODE, name
            text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
            products, additions = (
                text.count("wgmma.mma_async"),
                text.count("fma.rn.f32"),
            )  # of a loop that may be unrolled
            assert products > 0 and products % (12 if "SPLIT" in name else 4 * pieces) == 0 and ".m16n8k" not in text, (
                name
            )
            assert additions == 0 if "BF16" in name else additions >= 64, (name, additions)


@pytest.mark.parametrize("precision", HALF_FORMATS)
@pytest.mark.by_day("fp32")
def test_convolutions_of_few_outputs_fit(precision: str, assembled: list[str]) -> None:
    """Products come before shifts: no register is spilled, no product waits for the one before it, and as many as a
    chunk of channels takes are wgmma.
    """
    device = OfflineDevice("sm_90")
    for path, kernel, way, forms in (
        (shifted.SOURCE, "convolve_shifted", 1, ("",)),
        (shifted.GRADIENT, "differentiate_shifted", 5, (", false", ", true")),
    ):
        names = tuple(f"{kernel}<{HALF_FORMATS[precision].name}{form}>" for form in forms)
        found = compiler.compile(sources.read(path), names, "sm_90a")
        for name in names:
            taken = found.resources[name]
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0), name
            text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
            products = text.count(
                "wgmma.mma_async"
            )  # of 64 terms four, thrice in halves; dw's four pieces may be a loop in SPLIT
            assert products in ((12 * way, 12 * min(way, 2)) if "SPLIT" in name else (4 * way,)), (name, products)
    layer = shifted.ShiftedConvolution(OnDevice(device, 256), (256, 16, 16), (4, 32, 32), 256, precision, trains=True)
    x, y, w, b = (device.empty(shape) for shape in ((256, 256, 16, 16), (256, 4, 32, 32), (4, 256, 3, 3), (4,)))
    for launch in (*layer.forward(256, x, b, y), *layer.backward(256, x, y, Gradients(w, b), x, True)):
        assert blocks_per_multiprocessor(launch.block, launch.shared, launch.kernel.resources, device.limits) >= 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("arch", ["sm_90", pytest.param("sm_80", marks=pytest.mark.nightly)])
def test_a_first_layers_fragments_stay_in_registers(arch: str, assembled: list[str]) -> None:
    """No spills, two blocks of y to a multiprocessor and one of dw; all products of 16 outputs, and of 16 windows by 64
    outputs, are mma.
    """
    limits, layer = (
        OfflineDevice(arch).limits,
        FusedConv((3, 32, 32), (256, 32, 32), ConvWindow(3, 1, 1), relu=True, pool=True),
    )
    for precision in ("fp32", "bf16"):
        kind = HALF_FORMATS[precision]
        products, windows = 3 if kind.copies == 2 else 1, 256 // kind.copies // 64  # that a lane has
        for path, name, shared, blocks, steps in (
            (
                first.FORWARD,
                f"convolve_first<{kind.name}>",
                first._shared_forward(layer, 34, 1, 256, kind),
                2,
                2 * windows * 2 * 2,
            ),
            (
                first.WEIGHTS,
                f"correlate_first<{kind.name}, 2>",
                first._shared_weights(layer, 34, kind, 2),
                1,
                4 * 4 * 4,
            ),
        ):
            found = compiler.compile(sources.read(path), (name,), arch)
            taken = found.resources[name]
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0), name
            assert blocks_per_multiprocessor((first.THREADS, 1, 1), shared, taken, limits) == blocks, name
            text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
            count = text.count(INSTRUCTIONS[precision])  # of a loop that may be unrolled
            assert count > 0 and count == text.count("mma.sync") and count % (steps * products) == 0, (name, count)
