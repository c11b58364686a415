"""The tiled kernels beyond the cases that every kernel has: many tiles, cut sums, long stages, odd plans; in three
orders of threads, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from compared_steps import clear_of_switches, compare_epoch
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import KernelCase
from kernel_tools import close, nan, send
from kernel_turns import BY_DAY, CASES
from references import conv2d, linear
from segments_here import for_layers, for_loss
from strategies import ZOO, case
from updates import OPTIMIZERS, drawn, named

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Device, Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.gpu.offline import LIMITS, OfflineDevice
from warpladder.nets import Conv2d, CrossEntropyLoss, Layer, Linear, Loss, MSELoss, Net, ReLU, Shape
from warpladder.ops.conv2d.tiled import THREADS, TiledPlan, fit
from warpladder.ops.conv2d.tiled import TiledShape as Correlated
from warpladder.ops.conv2d.tiled_shapes import cut, pitch
from warpladder.ops.cost.launch import launch_cycles, parts_of_sums
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import whole
from warpladder.ops.engine.kernels import Log
from warpladder.ops.engine.segments import LossSegment
from warpladder.ops.linear.tiled import side
from warpladder.ops.mse import reference as mse
from warpladder.ops.tables.tiled import TABLE
from warpladder.optimizers import Optimizer
from warpladder.proof.tolerance import bound
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise.trainer import KernelTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

BLOCKS = [32, 64, 96, 256, 1024]


def busy(device: EmulatedDevice, multiprocessors: int = 132) -> EmulatedDevice:
    """A device that believes to be a large GPU, so that work is divided as there."""
    device.limits = replace(device.limits, multiprocessors=multiprocessors)
    return device


@pytest.fixture(scope="module")
def device() -> Device:
    return busy(EmulatedDevice())


@pytest.fixture(scope="module")
def orders() -> list[Device]:
    return [busy(EmulatedDevice(order=order, seed=7)) for order in ("forward", "reverse", "random")]


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


OWN = [case for case in CASES if case.name.startswith(("Tiled", "Wide"))]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[] if case.name in BY_DAY else [pytest.mark.slow]) for case in OWN]
)
def test_work_divided_as_on_a_large_gpu(orders: list[Device], case: KernelCase) -> None:
    """The usual cases, which a device of few multiprocessors leaves undivided."""
    for device in orders:
        case.run(device)


def run(
    device: Device, layer: Layer, in_shape: Shape, capacity: int, n: int, block: int, fused_relu: bool
) -> dict[str, np.ndarray]:
    """All that a segment writes, from random inputs; rows that it must not read are NaN, and so is all that it should
    write.
    """
    layers: tuple[Layer, ...] = (layer, ReLU()) if fused_relu else (layer,)
    shapes = layer.param_shapes(in_shape)
    x, dy = normal(1, capacity, *in_shape), normal(2, capacity, *layer.out_shape(in_shape))
    x[n:] = dy[n:] = np.nan
    w, b = normal(3, *shapes["weight"]), normal(4, *shapes["bias"])
    t = Buffers(*map(device.array, (x, nan(*dy.shape), nan(*x.shape), dy, w, b, nan(*w.shape), nan(*b.shape))))
    op = for_layers(TABLE.segments[tuple(type(each) for each in layers)], device, layers, t, block)
    send(op.forward(whole(n)))
    send(op.backward(whole(n)))
    device.synchronize()
    return {"x": x, "gradient": dy, "w": w, "b": b} | {
        name: getattr(t, name).download() for name in ("y", "dx", "dw", "db")
    }


def check(layer: Layer, n: int, fused_relu: bool, found: dict[str, np.ndarray]) -> None:
    """Against the reference, relative to the absolute values of the terms that were added."""
    x, w, b, dy, y = (found[name].astype(float) for name in ("x", "w", "b", "gradient", "y"))
    x, dy, y = x[:n], dy[:n], y[:n]
    if fused_relu:
        dy = np.where(y > 0, dy, 0)
    if isinstance(layer, Conv2d):
        s, p, k2, pixels = layer.stride, layer.padding, layer.kernel_size**2, dy[0, 0].size
        wanted, terms = conv2d.forward(x, w, b, s, p), conv2d.forward(abs(x), abs(w), abs(b), s, p)
        gradients, scales = conv2d.backward(x, w, dy, s, p), conv2d.backward(abs(x), abs(w), abs(dy), s, p)
        lengths = x.shape[1] * k2 + 1, layer.out_channels * k2, n * pixels, n * pixels
    else:
        wanted, terms = linear.forward(x, w, b), linear.forward(abs(x), abs(w), abs(b))
        gradients, scales = linear.backward(x, w, dy), linear.backward(abs(x), abs(w), abs(dy))
        lengths = x.shape[1] + 1, dy.shape[1], n, n
    wanted = np.maximum(wanted, 0) if fused_relu else wanted
    close(y, wanted, terms, bound("float32", lengths[0]), "y")
    for name, gradient, scale, length in zip(("dx", "dw", "db"), gradients, scales, lengths[1:], strict=True):
        close(found[name][:n] if name == "dx" else found[name], gradient, scale, bound("float32", length), name)
    for name in ("y", "dx"):
        assert np.isnan(found[name][n:]).all(), f"rows of {name} were written beyond the {n} in use"


#: Several tiles each way, several stages of channels, more filters than a block has, halos wider than the image,
#: kernels that come in rows.
CONVOLUTIONS = [
    (Conv2d(out_channels=20, kernel_size=3), (17, 20, 19)),
    (Conv2d(out_channels=33, kernel_size=3, padding=1), (5, 33, 35)),
    (Conv2d(out_channels=70, kernel_size=3, padding=1), (33, 4, 4)),
    (Conv2d(out_channels=9, kernel_size=5, padding=2), (18, 9, 40)),
    (Conv2d(out_channels=5, kernel_size=1), (40, 6, 70)),
    (Conv2d(out_channels=2, kernel_size=7, padding=6), (3, 9, 12)),
    (Conv2d(out_channels=3, kernel_size=3, stride=3, padding=4), (2, 10, 31)),
    (Conv2d(out_channels=2, kernel_size=60), (1, 61, 62)),
    (Conv2d(out_channels=3, kernel_size=2, stride=40), (2, 90, 85)),
]


#: A window of 60 x 60 takes a second: by day it has two block sizes, all at night.
DIVIDED = [
    pytest.param(
        block, fused_relu, *convolution, id=f"{block}-{fused_relu}-layer{i}-in_shape{i}",
        marks=[pytest.mark.nightly] if convolution[0].kernel_size == 60 and block not in (32, 256) else [],
    )
    for block, fused_relu in [(32, True), (64, False), (96, True), (256, False), (1024, True)]
    for i, convolution in enumerate(CONVOLUTIONS)
]  # fmt: skip


@pytest.mark.parametrize(("block", "fused_relu", "layer", "in_shape"), DIVIDED)
@pytest.mark.by_day("32-True")
def test_conv2d(device: Device, layer: Conv2d, in_shape: Shape, block: int, fused_relu: bool) -> None:
    for capacity, n in ((1, 1), (3, 2)):
        check(layer, n, fused_relu, run(device, layer, in_shape, capacity, n, block, fused_relu))


@pytest.mark.parametrize(
    ("inputs", "outputs", "capacity", "n"), [(200, 70, 5, 5), (3, 1, 700, 650), (31, 33, 64, 2), (1000, 2, 3, 1)]
)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("fused_relu", [False, True])
def test_linear(device: Device, inputs: int, outputs: int, capacity: int, n: int, block: int, fused_relu: bool) -> None:
    """The third has more parts than the batch has samples: a part that is left with none adds nothing."""
    check(
        Linear(out_features=outputs),
        n,
        fused_relu,
        run(device, Linear(out_features=outputs), (inputs,), capacity, n, block, fused_relu),
    )


@pytest.mark.parametrize(
    ("layer", "in_shape", "n"),
    [
        (Conv2d(out_channels=16, kernel_size=3), (1, 28, 28), 2),
        (Conv2d(out_channels=32, kernel_size=3), (16, 26, 26), 2),
        (Linear(out_features=10), (4608,), 64),
    ],
)
def test_every_weight_of_s1s_net_has_its_gradient(orders: list[Device], layer: Layer, in_shape: Shape, n: int) -> None:
    """S1's program moves 144 of 4,608 weights of its second convolution, and none of its first. And to the same bits,
    however threads take turns.
    """
    found = [run(device, layer, in_shape, n, n, 256, fused_relu=True) for device in orders for _ in range(2)]
    check(layer, n, True, found[0])
    assert (found[0]["dw"] != 0).all() and (found[0]["db"] != 0).all()
    for other in found[1:]:
        for name in ("y", "dx", "dw", "db"):
            assert other[name].tobytes() == found[0][name].tobytes(), name


@pytest.mark.parametrize("multiprocessors", [1, 132])
@pytest.mark.parametrize(
    ("layer", "in_shape"),
    [
        (Linear(out_features=3), (300,)),
        (Conv2d(out_channels=3, kernel_size=3), (2, 6, 6)),
        (Conv2d(out_channels=3, kernel_size=2), (2, 6, 6)),
    ],
)
def test_relu_passes_nan_on(multiprocessors: int, layer: Layer, in_shape: Shape) -> None:
    """A NaN that a fused ReLU swallowed would hide that training has diverged."""
    device = busy(EmulatedDevice(), multiprocessors)
    x, out = normal(1, 2, *in_shape), layer.out_shape(in_shape)
    x[1].flat[0] = np.nan
    shapes = layer.param_shapes(in_shape)
    w, b = normal(2, *shapes["weight"]), normal(3, *shapes["bias"])
    t = Buffers(device.array(x), device.array(nan(2, *out)), w=device.array(w), b=device.array(b))
    send(for_layers(TABLE.segments[type(layer), ReLU], device, (layer, ReLU()), t, 64).forward(whole(2)))
    y = t.y.download()
    assert not np.isnan(y[0]).any() and np.isnan(y[1].reshape(out[0], -1)[:, 0]).all()


# How work is divided


@pytest.mark.parametrize(
    ("height", "width", "most", "tile"),
    [
        (32, 32, 64, (8, 8)),
        (32, 32, 256, (16, 16)),
        (32, 32, 1024, (32, 32)),
        (24, 24, 256, (8, 24)),
        (26, 26, 256, (13, 13)),
        (3, 1, 32, (3, 1)),
    ],
)
def test_tiles_of_the_block_size(height: int, width: int, most: int, tile: tuple[int, int]) -> None:
    assert cut(height, width, most) == tile


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 1024))
def test_a_tile_is_no_larger_than_its_image_or_its_block(height: int, width: int, most: int) -> None:
    down, across = cut(height, width, most)
    assert 1 <= down <= height and 1 <= across <= width and down * across <= most


@pytest.mark.parametrize(("height", "width"), [(16, 16), (8, 8), (8, 24), (13, 13), (32, 32), (4, 4)])
def test_a_warps_pixels_stand_in_different_banks(height: int, width: int) -> None:
    gap = pitch(height, width, width + 2, 1)
    assert gap >= width + 2
    for first in range(0, height * width, 32):
        pixels = range(first, min(first + 32, height * width))
        assert len({(p // width * gap + p % width) % 32 for p in pixels}) == len(pixels)


@given(
    st.tuples(st.integers(1, 300), st.integers(1, 40), st.integers(1, 40)), st.integers(1, 300), st.integers(1, 9), st.integers(1, 5),
    st.integers(0, 9), st.sampled_from([32, 96, 256, 1024]), st.sampled_from([*THREADS]), st.booleans(),
)  # fmt: skip
def test_every_plan_fits(
    in_shape: Shape, filters: int, k: int, stride: int, padding: int, block: int, each: int, backward: bool
) -> None:
    if min(in_shape[1:]) + 2 * padding < k:
        return
    c, h, w = in_shape
    o, oh, ow = Conv2d(out_channels=filters, kernel_size=k, stride=stride, padding=padding).out_shape(in_shape)
    forward, back = (
        Correlated(c, h, w, o, oh, ow, k, stride, 1, padding),
        Correlated(o, oh, ow, c, h, w, k, 1, stride, k - 1 - padding),
    )
    shape = back if backward else forward
    found = fit(OfflineLimits(), shape, each, min(block, THREADS[each]))  # type: ignore[arg-type]
    assert isinstance(found, TiledPlan)
    assert 0 < found.shared <= LIMITS["sm_90"].shared_per_block
    assert found.tile_height * found.tile_width * found.groups <= found.threads <= THREADS[each]
    across, filters_across = found.grid(shape, 3)
    assert across * found.tile_height * found.tile_width >= 3 * shape.out_height * shape.out_width
    assert filters_across * found.groups * each >= shape.filters
    assert k != 3 or found.stage_rows == 3


class OfflineLimits:
    """What a plan asks of a device."""

    limits = LIMITS["sm_90"]
    name = "offline"


def test_sides_of_tiles() -> None:
    assert [side(size) for size in (32, 64, 128, 224, 256, 512, 992, 1024)] == [8, 8, 8, 8, 16, 16, 16, 32]


def test_the_model_divides_long_sums_of_few_blocks() -> None:
    limits = Limits("a GPU", multiprocessors=100)
    assert (
        launch_cycles(100, 4, 8, 1000, 0, limits)
        < launch_cycles(101, 4, 8, 1000, 0, limits)
        <= launch_cycles(200, 4, 8, 1000, 0, limits)
    )
    long, short = (lambda count: (1e6 / count, 0.0)), (lambda count: (100 / count, 0.0))
    assert 50 <= parts_of_sums(2, 1000, 100, 4, 8, long, limits) <= 256
    assert parts_of_sums(2, 1000, 100, 4, 8, short, limits) == 1
    assert parts_of_sums(2, 7, 100, 4, 8, long, limits) == 7


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", LIMITS)
@pytest.mark.by_day("sm_75")  # the smallest limits
def test_kernels_of_the_five_nets_fit_every_architecture(arch: str) -> None:
    """Nothing spills, and every launch of every block size is one that the device can do: S1's asked for 4,096 threads."""
    for name in ("cuda.bindings.nvrtc", "cuda.core"):  # PyTorch for GPUs brings the first, and not the second
        pytest.importorskip(name)
    device = OfflineDevice(arch)
    for net in (make() for make in nets.ZOO):
        for batch, block in ((1, 256), (64, 256), (64, 32), (64, 1024)):
            drawn = case(net, TrainConfig(batch_size=batch), seed=1, samples=batch)
            with KernelTrainer(net, drawn.config, drawn.state, device, TABLE, "resident", block) as trainer:
                trainer.load(drawn.dataset)
                assert trainer.chain is not None
                assert trainer.chain.forward(whole(batch)) and trainer.chain.backward(
                    whole(batch)
                )  # each was held to the device's limits
    for (path, name), kernel in device.kernels.items():
        found = kernel.resources
        assert (found.spill_stores, found.spill_loads, found.local) == (0, 0, 0), f"{path.name} {name}: {found}"


# Losses, the update


def log(device: Device) -> Log:
    return Log(*map(device.array, (np.array([1], np.int32), np.full(3, np.nan), np.full(3, -1, np.int64))))


def losses(device: Device, loss: Loss, x: np.ndarray, target: np.ndarray, block: int) -> tuple[LossSegment, Log]:
    step = log(device)
    arrays = device.array(x), device.array(target), device.array(nan(*x.shape))
    op = for_loss(TABLE.segments[type(loss),], device, loss, *arrays, step, block)
    send(op.forward(whole(len(x))))
    device.synchronize()
    assert step.step.download().tolist() == [2] and np.isnan(step.loss.download()[[0, 2]]).all()
    return op, step


@pytest.mark.parametrize(
    ("n", "classes", "block"), [(9000, 3, 32), (70, 100, 256), (5, 31, 96), (5, 32, 1024), (33, 1, 64)]
)
def test_cross_entropy(orders: list[Device], n: int, classes: int, block: int) -> None:
    """More samples than warps, more classes than lanes, ties across lanes; the same bits in every order."""
    x = np.round(2 * normal(1, n, classes))
    label = np.random.default_rng(2).integers(0, classes, n).astype(np.int32)
    bits = set()
    for device in orders:
        op, step = losses(device, CrossEntropyLoss(), x, label, block)
        dx, loss, x64 = op.dx.download(), step.loss.download()[1], x.astype(float)
        assert step.correct.download()[1] == cross_entropy.correct(x64, label)
        assert abs(loss - cross_entropy.forward(x64, label)) <= bound("float32", classes + n) * (1 + 2 * abs(x64).max())
        wanted = cross_entropy.backward(x64, label)
        close(dx, wanted, wanted + 2 * np.eye(classes)[label] / n, bound("float32", classes), "dx")
        bits.add((dx.tobytes(), loss.tobytes()))
    assert len(bits) == 1


def test_cross_entropy_of_huge_logits_and_of_nan(device: Device) -> None:
    x = np.array([[1e30, 0, -1e30], [-1e30, 0, 1e4]], np.float32)
    op, step = losses(device, CrossEntropyLoss(), x, np.array([0, 1], np.int32), 32)
    assert (step.loss.download()[1], step.correct.download()[1]) == (5e3, 1)
    assert op.dx.download().tolist() == [[0, 0, 0], [0, -0.5, 0.5]]
    for place in range(3):
        x = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], np.float32)
        x[0, place] = np.nan
        op, step = losses(device, CrossEntropyLoss(), x, np.array([1, 1], np.int32), 64)
        assert np.isnan(step.loss.download()[1])
        assert np.isnan(op.dx.download()).tolist() == [[True] * 3, [False] * 3]


@pytest.mark.parametrize("shape", [(3, 50_000), (7, 3, 4, 5), (2, 31), (1, 1)])
@pytest.mark.parametrize("block", [32, 256])
def test_mse(orders: list[Device], shape: tuple[int, ...], block: int) -> None:
    x, target = normal(1, *shape), normal(2, *shape)
    bits = set()
    for device in orders:
        op, step = losses(device, MSELoss(), x, target, block)
        wanted = mse.forward(x.astype(float), target.astype(float))
        loss, dx = step.loss.download()[1], op.dx.download()
        assert abs(loss - wanted) <= bound("float32", x.size) * wanted
        close(
            dx,
            mse.backward(x.astype(float), target.astype(float)),
            2 * (abs(x) + abs(target)) / x.size,
            bound("float32", 3),
            "dx",
        )
        bits.add((dx.tobytes(), loss.tobytes()))
    assert len(bits) == 1


@pytest.mark.parametrize("size", [300_000, 1024, 1001])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=named)
@pytest.mark.parametrize("limit", [None, 0.5])
def test_update(device: Device, size: int, optimizer: Optimizer, limit: float | None) -> None:
    """Four at a time; what four does not divide, and two slots of what the device holds at once, one at a time; a NaN
    stays one.
    """
    case = drawn(optimizer, size, limit)
    case.g[-1] = np.nan
    on_w, on_slots = device.array(case.w), tuple(device.array(slot) for slot in case.slots)
    update = TABLE.update(device, case.config, on_w, device.array(case.g), on_slots, 64)
    names = send(update.launches(device.array(case.numbers[None]), None))
    wide = size > 132 * 2048 or (size == 1024 and len(optimizer.slots) < 2)
    assert names == {f"{optimizer.name}_step{'_by_four' if wide else ''}"}
    found = on_w.download()
    assert np.isnan(found[-1])  # clipping must not turn a NaN into a number
    close(found[:-1], case.after[:-1], case.terms[:-1], bound("float32", 16), "w")
    for slot, wanted, terms in zip(on_slots, case.slots_after, case.slot_terms, strict=True):
        close(slot.download()[:-1], wanted[:-1], terms[:-1], bound("float32", 8), "a slot")


# Whole steps


@pytest.fixture(scope="module")
def rung(device: Device) -> Iterator[Rung]:
    def build(net: Net, config: TrainConfig, state: State, block_size: int = 256) -> KernelTrainer:
        return KernelTrainer(net, config, state, device, TABLE, "resident", block_size)

    yield Rung("tiled", "", "", build)


STEPS = [
    (net, *how) for net in ZOO for how in ((4, 64), *(() if net.name == "autoencoder" else ((1, 256), (None, 1024))))
]


@pytest.mark.parametrize(("net", "batch", "block"), STEPS, ids=lambda value: getattr(value, "name", str(value)))
@pytest.mark.by_day("softmax", "mlp", "cnn")
def test_steps_of_the_five_nets(rung: Rung, net: Net, batch: int | None, block: int) -> None:
    """Every step of an epoch, the last partial batch among them, against the float64 reference from the same state."""
    config = TrainConfig(batch_size=batch, learning_rate=1e-4, momentum=0.9)
    assert (
        compare_epoch(replace(rung, build=partial(rung.build, block_size=block)), clear_of_switches(net, config, 6)) > 0
    )
