"""Convolutions of few pixels on tensor cores as machine code, and the first layer's gradient beside them: for Hopper,
and for Blackwell at night.
"""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")

from machine_code import INSTRUCTIONS, MOST_CODE, code_size
from machine_code import assembled as assembled  # a fixture
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Launch
from warpladder.device import source as sources
from warpladder.device.gpu import compile as compiler
from warpladder.device.gpu.offline import OfflineDevice
from warpladder.device.occupancy import blocks_per_multiprocessor
from warpladder.ops.conv2d.few_inputs import few_inputs as few
from warpladder.ops.conv2d.tensor.few_pixels import few_pixels
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.tables.tensor import TABLE
from warpladder.timing.profile.kernels import full
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.nvrtc


@pytest.mark.parametrize(
    ("arch", "precision"),
    [
        pytest.param(arch, precision, marks=[] if (arch, precision) == ("sm_90", "fp32") else [pytest.mark.nightly])
        for arch in ("sm_90", "sm_100")
        for precision in ("fp32", "bf16", "fp16")
    ],
)
def test_the_products_of_few_pixels_are_short_code_on_tensor_cores(
    arch: str, precision: str, assembled: list[str]
) -> None:
    """No register is spilled, code fits the instruction cache, the products of a tap stand once in y's and dx's and
    those of 32 pixels once in dw's, all mma.

    For Blackwell, where nobody has run it, the compiler spills two words of a thread in dw behind an upsampling in
    fp32, whose registers are all taken.
    """
    kind, instruction = HALF_FORMATS[precision].name, INSTRUCTIONS[precision]
    steps = 3 if precision == "fp32" else 1  # instructions for 16 terms of a fragment
    # By kernel: threads of a block at most, and fragments of products in its code.
    passes = [("WINDOW, 4, false", 4), ("WINDOW, 4, true", 4), ("UPSAMPLED, 4, false", 4), ("GATHERED, 1, false", 1)]
    forward = {
        f"convolve_few_pixels<{kind}, {of}>": (few_pixels.GROUPS * few_pixels.GROUP, products)
        for of, products in passes
    }
    gradients = [("WINDOW, true", 2 * 9), ("GATHERED, false", 2 * 16)]
    backward = {f"correlate_few_pixels<{kind}, {of}>": (few_pixels.GROUP, products) for of, products in gradients}
    for path, kernels in ((few_pixels.SOURCE, forward), (few_pixels.WEIGHTS, backward)):
        found = compiler.compile(sources.read(path), tuple(kernels), arch)
        for name, (threads, products) in kernels.items():
            taken = found.resources[name]
            spilled = 8 if (arch, name) == ("sm_100", "correlate_few_pixels<SPLIT, GATHERED, false>") else 0
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (spilled,) * 3, name
            assert blocks_per_multiprocessor((threads, 1, 1), 0, taken, OfflineDevice(arch).limits) >= 1, name
            assert 0 < code_size(found.cubin, found.symbols[name]) <= MOST_CODE, name
            text = assembled[-1].partition(f".entry {found.symbols[name]}(")[2].partition(".entry")[0]
            assert text.count(instruction) == text.count("mma.sync") == steps * products, name


@pytest.mark.parametrize("terms", ["1, 3", "3, 3"])
def test_a_first_layers_sums_of_few_images_stay_in_registers(terms: str) -> None:
    """No spills, and little code; nothing is multiplied on tensor cores here."""
    name = f"correlate_few_images<{terms}>"
    found = compiler.compile(sources.read(few.IMAGES), (name,), "sm_90")
    taken = found.resources[name]
    assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0)
    assert 0 < code_size(found.cubin, found.symbols[name]) <= MOST_CODE


def test_blocks_of_few_pixels_fit() -> None:
    """At full size, an image at a time: each launch of a step of the autoencoder that belongs to these convolutions,
    with its shared memory.
    """
    net, device = nets.autoencoder(), OfflineDevice("sm_90")
    drawn = case(net, TrainConfig(batch_size=1), seed=1, samples=2)
    with GraphedTrainer(net, drawn.config, drawn.state, device, TABLE) as trainer:
        trainer.load(drawn.dataset)
        calls = [call for call in trainer.program(full(trainer)) if isinstance(call, Launch)]
    asked = [call for call in calls if call.kernel.source.path in (few_pixels.SOURCE, few_pixels.WEIGHTS)]
    assert len(asked) == 4 * 3
    for call in asked:
        assert blocks_per_multiprocessor(call.block, call.shared, call.kernel.resources, device.limits) >= 1, call.name
