"""What share of the product FLOPs runs on tensor cores, by the kernels' machine code: at least 95 % for the five nets;
a fallback shows; profiles tell it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_profiles import made_up
from stored_results import STORED
from strategies import case

from warpladder import nets
from warpladder.appendix.gemm import LEVELS
from warpladder.appendix.gemm.tensor import TENSOR_LEVELS
from warpladder.cli import main
from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import ResultsError
from warpladder.nets import Conv2d, CrossEntropyLoss, Linear, Net, ReLU
from warpladder.ops.engine.chain import Gather, product_flops, products
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.engine.tensor_limits import FIRST, HEAD
from warpladder.ops.linear.tiled import TiledLinear
from warpladder.ops.tables.tensor import TABLE
from warpladder.ops.tables.tiled import TABLE as TILED
from warpladder.ops.thin_chain.head import ThinHead
from warpladder.results import load
from warpladder.results.profiled import KernelTime, Profile
from warpladder.results.report.page import page
from warpladder.rungs.tensor import PRECISIONS
from warpladder.timing.profile.kernels import full
from warpladder.timing.profile.units import tensor_share
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

FIVE = (nets.softmax(), nets.mlp(), nets.mlp10(), nets.cnn(), nets.autoencoder())
#: A last layer so thin beside the first one that it is multiplied with the loss, outside of tensor cores.
HEADED = Net("headed", (160,), (Linear(out_features=96), ReLU(), Linear(out_features=2)), CrossEntropyLoss())


def share(
    net: Net, device: Device, precision: str = "fp32", table: KernelTable = TABLE, batch: int | None = 7
) -> float | None:
    """Of a full step of a net whose samples lie on the device; nothing is sent."""
    drawn = case(net, TrainConfig(batch_size=batch), seed=1, samples=9)
    with GraphedTrainer(net, drawn.config, drawn.state, device, table, precision=precision) as trainer:
        trainer.load(drawn.dataset)
        return tensor_share(trainer, full(trainer))


def turn(net: Net, precision: str) -> list[pytest.MarkDecorator]:
    """Who runs this: fp32, and cnn in bf16, by day; the autoencoder in fp16, of cnn's kernels and fp32's forms of others, at
    night.
    """
    if precision == "fp32" or (net.name, precision) == ("cnn", "bf16"):
        return []
    return [pytest.mark.nightly if (net.name, precision) == ("autoencoder", "fp16") else pytest.mark.slow]


@pytest.mark.parametrize(
    ("net", "precision"),
    [pytest.param(net, each, id=f"{net.name}-{each}", marks=turn(net, each)) for net in FIVE for each in PRECISIONS],
)
def test_the_five_nets_multiply_on_tensor_cores(net: Net, precision: str) -> None:
    found = share(net, EmulatedDevice(), precision)
    assert found is not None and pytest.approx(1 - HEAD - FIRST) == 0.95 and 0.95 <= found <= 1
    if net.name in ("softmax", "autoencoder"):
        assert found == 1, (
            "the one's only layer is thin, and all that there is; the other's first one has outputs enough"
        )


def test_the_share_is_what_is_left_by_a_head_outside_of_tensor_cores() -> None:
    """2 products of 160 x 96, and 3 of 96 x 2."""
    assert share(HEADED, EmulatedDevice()) == 2 * 160 * 96 / (2 * 160 * 96 + 3 * 96 * 2) >= 1 - HEAD
    wider = replace(HEADED, layers=(*HEADED.layers[:-1], Linear(out_features=3)))
    assert share(wider, EmulatedDevice()) == 1
    assert (
        products(HEADED, 0) == (2 * 160 * 96,) * 2
        and products(HEADED, 1) == ()
        and products(HEADED, 2) == (2 * 96 * 2,) * 3
    )


@pytest.mark.parametrize(("size", "outputs", "outside"), [(12, 32, (6,)), (28, 8, (6,)), (28, 32, (0, 6))])
@pytest.mark.by_day("28-")
def test_a_first_convolution_of_few_terms_stays_outside_where_it_is_small(
    size: int, outputs: int, outside: tuple[int, ...]
) -> None:
    """Layers of S1's net that multiply-adds compute, for images of a size and a second convolution of so many outputs."""
    whole = nets.cnn((1, size, size))
    net = replace(whole, layers=(*whole.layers[:2], Conv2d(out_channels=outputs, kernel_size=3), *whole.layers[3:]))
    shares = {layer: sum(products(net, layer)) / product_flops(net) for layer in (0, 6)}
    assert outside == tuple(layer for layer, most in ((0, FIRST), (6, HEAD)) if shares[layer] <= most)
    found = share(net, EmulatedDevice())
    assert found is not None and found == pytest.approx(1 - sum(shares[layer] for layer in outside)) and found >= 0.95


def test_a_quiet_fallback_shows() -> None:
    """One kind of segment with multiply-adds in the rung's table, and a head that is taken whatever it leaves."""
    device = EmulatedDevice()
    others = {nodes: segment for nodes, segment in TABLE.segments.items() if nodes != (Gather, Linear, ReLU)}
    fallen = replace(TABLE, segments={**others, (Linear, ReLU): TiledLinear})
    assert share(nets.mlp10((1, 8, 8)), device, table=fallen) == pytest.approx(3 * 100 / (2 * 640 + 3 * 100), abs=1e-6)
    always = replace(TABLE, segments={**TABLE.segments, (Linear, CrossEntropyLoss): ThinHead})
    assert share(nets.softmax((1, 8, 8)), device, table=always) == 0
    assert share(nets.softmax((1, 8, 8)), device, table=TILED) is None, "no rung on tensor cores"


def test_kernels_of_one_file_are_told_apart(tmp_path: Path) -> None:
    """One that multiplies on tensor cores, and its neighbour, which is compiled with it."""
    path = tmp_path / "two.cu"
    path.write_text(
        '#include "mma.cuh"\n'
        'extern "C" __global__ void multiplies(float* c) {\n'
        "    float d[4] = {};\n    const unsigned a[4] = {}, b[2] = {};\n    mma_half(d, a, b);\n    c[threadIdx.x] "
        "= d[0];\n}\n"
        'extern "C" __global__ void adds(float* c) { c[threadIdx.x] += 1.0f; }\n'
    )
    device = EmulatedDevice()
    assert device.kernel(path, "multiplies").uses_tensor_cores and not device.kernel(path, "adds").uses_tensor_cores


@pytest.mark.parametrize("name", ["fragments", "wgmma"])
def test_both_kinds_of_instructions_are_known(name: str) -> None:
    """Those of a warp and of four, among the levels of the ladder of products; and none in a level of multiply-adds."""
    device = EmulatedDevice()
    level, plain = next(each for each in TENSOR_LEVELS if each.name == name), LEVELS[0]
    a, b = (device.array(level.stored(np.zeros((128, 128), np.float32))) for _ in range(2))
    assert any(launch.kernel.uses_tensor_cores for launch in level.bind(device, a, b, device.empty((128, 128))))
    floats = [device.zeros((32, 32)) for _ in range(3)]
    assert not any(launch.kernel.uses_tensor_cores for launch in plain.bind(device, *floats))


def test_profiles_tell_it_in_a_file_and_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_climbs: None
) -> None:
    out = tmp_path / "profile.json"
    asked = [
        "profile",
        "mlp",
        "--data",
        "digits",
        "--rung",
        "tensor",
        "--device",
        "emulated",
        "--batch-size",
        "3",
        "--out",
        str(out),
    ]
    assert main(asked) == 0
    said = " ".join(capsys.readouterr().out.split())
    found = Profile.load(out)
    assert found.tensor_share == 1 and "100.0% of the FLOPs of its products of matrices run in kernels" in said
    kernels = [kernel for part in found.parts for kernel in part.kernels]
    assert {kernel.name.startswith("multiply<") for kernel in kernels if kernel.tensor} == {True}
    assert any(kernel.name.startswith("pack") and not kernel.tensor for kernel in kernels)


def test_a_files_share_is_checked_and_older_files_have_none(tmp_path: Path) -> None:
    known = replace(
        made_up(),
        tensor_share=0.981,
        parts=(replace(made_up().parts[0], kernels=(KernelTime("multiply", 1, 1e-6, None, True),)),),
    )
    known.save(tmp_path / "p.json")
    raw = (tmp_path / "p.json").read_bytes()
    assert (
        Profile.parse(raw) == known
        and Profile.parse(raw.replace(b'"tensor_share": 0.981', b'"tensor_share": null')).tensor_share is None
    )
    for wrong in (b"1.5", b"-0.1"):
        with pytest.raises(ResultsError, match="tensor_share wants a share from 0 to 1"):
            Profile.parse(raw.replace(b'"tensor_share": 0.981', b'"tensor_share": ' + wrong))


def test_the_page_tells_it_beside_each_kernel() -> None:
    kernels = KernelTime("multiply", 1, 1e-6, None, True), KernelTime("pack", 1, 1e-6, None)
    known = replace(made_up(), tensor_share=0.981, parts=(replace(made_up().parts[0], kernels=kernels),))
    climb = load(STORED / "h200" / "climb-cnn" / "results.json")
    with_it, without = (page(climb, profiles=[each]) for each in (known, replace(known, tensor_share=None)))
    assert (
        "98.1% of the FLOPs of its products of matrices" in with_it
        and with_it.count(">tensor cores<") == 1
        and ">yes<" in with_it
    )
    assert "of its products of matrices" not in without and ">tensor cores<" not in without
