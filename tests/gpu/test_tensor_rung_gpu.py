"""The rung tensor on a GPU: its products are right and have the emulator's bits, it is proven on nets of full size, and
timed beside graph.

python -m pytest -q -s tests/gpu/test_tensor_rung_gpu.py     also prints the times
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from compared_steps import compare_epoch
from strategies import NARROW, Case, case, cases
from tensor_convolutions import KINDS as SIZES
from tensor_convolutions import SHAPES, convolved, drawn
from tensor_convolutions import Asked as Convolution
from tensor_convolutions import prove as prove_convolution
from tensor_tools import (
    EVERY_TILE,
    EVERY_WARPGROUP_TILE,
    LAYOUTS,
    PRECISIONS,
    Asked,
    multiplied,
    prove,
    prove_with_bytes,
    size_of,
    unaligned,
)

from warpladder import nets
from warpladder.appendix.gemm.climb import timed
from warpladder.appendix.gemm.proof import KINDS
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Launch, emulator, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.gpu.device import GpuDevice
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, MSELoss, Net, ReLU
from warpladder.ops.conv2d.tensor.formats import FORMATS
from warpladder.ops.linear.tensor.tiles import tiles_of
from warpladder.proof import verify
from warpladder.rungs.base import Rung
from warpladder.trainers.kernelwise.trainer import KernelTrainer

REASON = gpu.why_not() or find("tensor").unsupported(nets.mlp(), TrainConfig())
if REASON is not None:
    pytest.skip(str(REASON), allow_module_level=True)

#: The perceptron whose times docs/rungs/tensor.md predicts, at batch 512.
WIDE = Net(
    "wide", (1, 28, 28),
    (Flatten(), Linear(out_features=1024), ReLU(), Linear(out_features=1024), ReLU(), Linear(out_features=10)), CrossEntropyLoss(),
)  # fmt: skip
CODER = Net("coder", (784,), (Linear(out_features=131), ReLU(), Linear(out_features=784)), MSELoss())
NETS = (nets.softmax(), nets.mlp(), nets.mlp10(), WIDE, CODER)
RUNGS = tuple(find("tensor", precision=precision) for precision in PRECISIONS)
precisions = pytest.mark.parametrize("precision", PRECISIONS)
of_convolutions = pytest.mark.parametrize("precision", FORMATS)
layouts = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def device() -> Iterator[GpuDevice]:
    with_gpu = GpuDevice()
    yield with_gpu
    with_gpu.close()


@pytest.mark.parametrize("asked", [*EVERY_TILE, *EVERY_WARPGROUP_TILE], ids=str)
def test_every_tile_multiplies(asked: Asked, device: GpuDevice) -> None:
    assert asked.tile is not None
    if asked.tile not in tiles_of(device):
        pytest.skip("only Hopper has the products of warpgroups")
    for m, n, k in (size_of(asked.tile), (65, 1, 200), (300, 201, 999), (7, 10, 4096)):
        prove(device, asked, m, n, k)
        prove(device, unaligned(asked), m, n, k)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layout", "exact"), [("y", "a"), ("dw", "b")])
def test_bytes_beside_halves(layout: str, exact: str, kind: str, device: GpuDevice) -> None:
    for tile in (None, *tiles_of(device)):
        for m, n, k in ((64, 1024, 784), (300, 201, 999), (7, 10, 4096), (2, 3, 1)):
            prove_with_bytes(device, Asked(layout, "fp32", tile, exact=exact), m, n, k, kind)


@layouts
@precisions
@pytest.mark.parametrize("kind", KINDS)
def test_the_models_choice_at_every_size_of_numbers(layout: str, precision: str, kind: str, device: GpuDevice) -> None:
    for m, n, k in ((512, 1024, 784), (512, 10, 1024), (10, 1024, 512), (2, 3, 10_000), (64, 64, 1)):
        prove(device, Asked(layout, precision), m, n, k, kind)


@layouts
@precisions
def test_what_is_not_finite_is_seen_in_its_row_alone(layout: str, precision: str, device: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(70, 300)).astype(np.float32), rng.normal(size=(300, 66)).astype(np.float32)
    for wrong in (np.inf, np.nan):
        bad = a.copy()
        bad[7, 150] = wrong
        found = multiplied(device, Asked(layout, precision), bad, b)
        assert not np.isfinite(found[7]).any() and np.isfinite(np.delete(found, 7, 0)).all()


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@layouts
@precisions
def test_the_emulator_has_the_same_bits(layout: str, precision: str, device: GpuDevice) -> None:
    """Where its tensor cores are Hopper's: split, scales, products and sums, all of it."""
    if device.capability != (9, 0):
        pytest.skip("the emulator has Hopper's tensor cores")
    emulated = EmulatedDevice()
    for tile in tiles_of(device):
        for seed in range(5):
            rng = np.random.default_rng([seed])
            a, b = (
                np.ldexp(rng.normal(size=s), rng.integers(-60, 60, (s[0], 1))).astype(np.float32)
                for s in ((70, 133), (133, 75))
            )
            found = [multiplied(on, Asked(layout, precision, tile), a, b) for on in (device, emulated)]
            np.testing.assert_array_equal(found[0].view(np.uint32), found[1].view(np.uint32), f"{tile}, seed {seed}")


#: In coarse formats hardly a sample of the larger nets is fit to judge by.
PROVEN = [
    (rung, net, batch)
    for rung in RUNGS
    for net in (NETS if rung.precision == "fp32" else NETS[:3])
    for batch in (1, 7, 64, 512)
]


@pytest.mark.parametrize(("rung", "net", "batch"), PROVEN, ids=lambda each: str(getattr(each, "name", each)))
def test_proven_at_full_size(rung: Rung, net: Net, batch: int) -> None:
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch, momentum=0.9), precision=rung.precision)
    if rung.precision != "fp32" and not verdict.judged:
        pytest.skip(verdict.reason)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


@pytest.mark.parametrize("net", [nets.softmax(), nets.mlp10()], ids=lambda net: net.name)
def test_proven_on_full_batches(net: Net) -> None:
    verdict = verify(find("tensor").build, net, TrainConfig(batch_size=None))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_many_runs_give_the_same_bits(rung: Rung) -> None:
    config = TrainConfig(batch_size=64, learning_rate=0.01, momentum=0.9)
    drawn, seen = case(WIDE, config, seed=1, samples=200), set()
    with rung.build(WIDE, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        for _ in range(50):
            trainer.set_state(drawn.state)
            log = trainer.run(drawn.order, 0, 4)
            seen.add(trainer.state().bits() + log.loss.tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("batch", [512, 64, 4096])
def test_times_of_the_wide_perceptron(batch: int) -> None:
    """A step of tensor in each precision beside graph's, and at batch 512 each product alone; none may be faster than
    the arithmetic allows.
    """
    config, samples = TrainConfig(batch_size=batch, learning_rate=0.01), 60_000 // batch * batch
    drawn = case(WIDE, config, seed=1, samples=samples)
    steps = samples // batch
    print()
    for rung in (find("graph"), find("tensor"), *RUNGS[1:]):
        with rung.build(WIDE, config, drawn.state) as trainer:
            assert isinstance(trainer, KernelTrainer)
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, steps)
            taken = []
            for epoch in range(1, 8):
                begin = trainer.device.stream.record()
                trainer.run(Order(0, epoch, samples), 0, steps)
                end = trainer.device.stream.record()
                end.synchronize()
                taken.append(end.seconds_since(begin) / steps)
            step, peak = sorted(taken)[len(taken) // 2], trainer.peak()
            assert peak is not None
            floor = WIDE.train_flops * batch / peak
            print(
                f"batch {batch}, {rung.name}: {1e6 * step:.1f} us a step, {WIDE.train_flops * batch / step / 1e12:.1f} TFLOP/s; floor {1e6 * floor:.1f} us"
            )
            assert step >= floor
            products = [
                call for call in trainer.program(trainer.parts()[0]) if isinstance(call, Launch) and of_linear(call)
            ]
            for launch in products if batch == 512 else ():
                each = timed(trainer.device, [launch])
                print(f"    {launch.name} grid {launch.grid}: {1e6 * sorted(each)[len(each) // 2]:.1f} us")


def of_linear(launch: Launch) -> bool:
    """Whether a launch belongs to a linear layer: it may be sent again and again, and nothing counts it. Samples are
    found by the step's number, which is.
    """
    return launch.kernel.source.path.parent.name == "linear" and not launch.name.startswith("pack_samples")


@of_convolutions
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_convolutions(shape: int, kind: str, precision: str, device: GpuDevice) -> None:
    for offset in (0, 1):
        prove_convolution(device, Convolution(*SHAPES[shape], precision, kind, offset))


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@of_convolutions
def test_the_emulator_has_the_same_bits_of_convolutions(precision: str, device: GpuDevice) -> None:
    if device.capability != (9, 0):
        pytest.skip("the emulator has Hopper's tensor cores")
    emulated = EmulatedDevice()
    emulated.limits = device.limits  # so that both cut sums into the same parts
    for shape in SHAPES:
        asked = Convolution(*shape, precision)
        found = [convolved(on, asked, drawn(asked)) for on in (device, emulated)]
        for name in found[0]:
            np.testing.assert_array_equal(
                found[0][name].view(np.uint32), found[1][name].view(np.uint32), f"{name} of {asked}"
            )


#: The whole autoencoder on small images: its proof at full size takes the reference minutes.
CONVOLUTIONAL = [(nets.cnn(), 1), (nets.cnn(), 64), (NARROW, 7), (nets.autoencoder((3, 8, 8)), 7)]


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize(("net", "batch"), CONVOLUTIONAL, ids=lambda each: str(getattr(each, "name", each)))
def test_nets_with_convolutions_are_proven(rung: Rung, net: Net, batch: int) -> None:
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason


def test_steps_of_drawn_nets() -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(drawn=cases())
    def agree_on(drawn: Case) -> None:
        assume(compare_epoch(find("tensor"), drawn) or not drawn.steps)

    agree_on()


@pytest.mark.parametrize(
    ("net", "batch", "steps"), [(nets.cnn(), 64, 200), (nets.autoencoder(), 256, 8), (nets.autoencoder(), 1, 200)],
    ids=["cnn-64", "autoencoder-256", "autoencoder-1"],
)  # fmt: skip
def test_times_of_nets_with_convolutions(net: Net, batch: int, steps: int) -> None:
    """A step of tensor in each precision beside graph's; none may be faster than the arithmetic allows."""
    trained = case(net, TrainConfig(batch_size=batch, learning_rate=0.001), seed=1, samples=steps * batch)
    print()
    for rung in (find("graph"), *RUNGS):
        with rung.build(net, trained.config, trained.state) as trainer:
            assert isinstance(trainer, KernelTrainer)
            trainer.load(trained.dataset)
            trainer.run(trained.order, 0, steps)
            taken = []
            for epoch in range(1, 8):
                begin = trainer.device.stream.record()
                trainer.run(Order(0, epoch, steps * batch), 0, steps)
                end = trainer.device.stream.record()
                end.synchronize()
                taken.append(end.seconds_since(begin) / steps)
            step, peak = sorted(taken)[len(taken) // 2], trainer.peak()
            assert peak is not None
            print(
                f"{net.name}, batch {batch}, {rung.name}: {1e6 * step:.1f} us a step, {net.train_flops * batch / step / 1e12:.1f} TFLOP/s"
            )
            assert (
                step >= net.train_flops * batch / peak / 3
            )  # an upsampling is folded into the weights: 4/9 of its FLOPs
