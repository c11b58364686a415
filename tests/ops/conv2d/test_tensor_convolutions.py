"""Convolutions on tensor cores, by whichever algorithm: right in every precision, and in nets proven."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from clockwork import Clockwork
from compared_steps import clear_of_switches, compare_epoch, steps_within
from hypothesis import HealthCheck, assume, given, settings
from named_calls import steps
from strategies import NARROW, ZOO, Case, case, cases
from tensor_convolutions import PRECISIONS, SHAPES, Asked, conv, convolved, drawn, prove
from tensor_nets import CNN, MIXED

from warpladder.config import TrainConfig
from warpladder.device import Launch
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU, autoencoder, cnn
from warpladder.ops.tables.tensor import TABLE
from warpladder.proof import verify
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PLAIN = find("tensor", device="emulated")
#: A first and a last layer so small beside the one between that multiply-adds outside of tensor cores compute both.
ENDS = Net(
    "ends", (1, 6, 6),
    (
        Conv2d(out_channels=5, kernel_size=3), ReLU(), Conv2d(out_channels=120, kernel_size=3), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
pairs, slow, nightly = pytest.mark.pairs, pytest.mark.slow, pytest.mark.nightly


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


@pytest.mark.parametrize(
    ("shape", "precision"),
    [
        pytest.param(
            shape,
            precision,
            marks=[] if precision == "fp32" or shape == 2 else nightly if precision == "fp16" else slow,
        )
        for shape in range(len(SHAPES))
        for precision in PRECISIONS
    ],
)
@pytest.mark.by_day("0-fp32", "2-bf16", "7-fp32")
def test_sizes_that_no_tile_divides(device: EmulatedDevice, shape: int, precision: str) -> None:
    prove(device, Asked(*SHAPES[shape], precision))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.by_day("fp32", "bf16")
def test_zeros_stay_zero_and_what_is_not_finite_is_seen(device: EmulatedDevice, precision: str) -> None:
    asked = Asked(conv(5, 3, padding=1), (33, 6, 5), 3, precision)
    x, w, dy = drawn(asked)
    x[1], w[2], dy[:, 3] = 0, 0, 0
    found = convolved(device, asked, (x, w, dy))
    assert (
        not found["y"][1].any()
        and not found["y"][:, 2].any()
        and not found["dw"][3].any()
        and np.isfinite(found["y"]).all()
    )
    for wrong in (np.inf, np.nan):
        bad = x.copy()
        bad[2, 32, 3, 2] = wrong
        found = convolved(device, asked, (bad, w, dy))
        assert not np.isfinite(np.delete(found["y"][2, :, 2:5, 1:4], 2, 0)).any() and np.isfinite(found["y"][:2]).all()
        assert np.isfinite(found["y"][2, :, :2]).all() and not np.isfinite(np.delete(found["dw"][:, 32, 1, 1], 3)).any()


@pytest.mark.parametrize(
    "precision",
    ["fp32", pytest.param("tf32", marks=slow), pytest.param("bf16", marks=slow), pytest.param("fp16", marks=nightly)],
)
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice, precision: str) -> None:
    asked = Asked(*SHAPES[2], precision)
    numbers = drawn(asked)
    found = [
        convolved(on, asked, numbers)
        for on in (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
    ]
    for name in found[0]:
        assert len({each[name].tobytes() for each in found}) == 1, name


@pytest.mark.parametrize(
    "precision", [pytest.param(name, marks=slow if name == "fp32" else nightly) for name in PRECISIONS]
)
def test_the_checker_finds_nothing(precision: str) -> None:
    checked = EmulatedDevice("check", collect=True)
    for shape in (0, 2, 4, 5):
        for offset in (0, 1):
            asked = Asked(*SHAPES[shape], precision, "normal", offset)
            convolved(checked, asked, drawn(asked))
    assert checked.reports == []


@pytest.mark.parametrize(
    ("net", "batch"),
    [
        pytest.param(net, batch, id=f"{net.name}-{batch or 'full'}", marks=pairs if batch in (1, 7) else nightly)
        for net in (CNN, NARROW, MIXED, ENDS)
        for batch in (1, 7, 64, None)
    ],
)
def test_nets_are_proven(net: Net, batch: int | None) -> None:
    """By fp32's bounds; the cases hold a partial last batch."""
    verdict = verify(PLAIN.build, net, TrainConfig(batch_size=batch, momentum=0.9, weight_decay=1e-3))
    assert verdict.passed, verdict.reason
    assert steps_within(verdict, 1e-5)


@nightly
def test_the_wide_autoencoder_is_proven() -> None:
    verdict = verify(PLAIN.build, ZOO[4], TrainConfig(batch_size=3))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("net", "precision", "batch"),
    [
        pytest.param(
            net,
            precision,
            batch,
            id=f"{net.name}-{precision}-{batch}",
            marks=pairs if (net, batch) == (NARROW, 7) else nightly,
        )
        for net in (CNN, NARROW)
        for precision in PRECISIONS[1:]
        for batch in (1, 7, 64)
        if precision == "fp16" or batch == 7
    ],
)
def test_nets_are_proven_in_coarser_precisions(net: Net, precision: str, batch: int) -> None:
    rung = PLAIN.but(precision=precision)
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch), precision=rung.precision)
    assert verdict.passed, verdict.reason
    assert not verify(rung.build, net, TrainConfig(batch_size=batch)).passed, "by fp32's bounds"


@pytest.mark.slow
def test_steps_of_drawn_nets() -> None:
    usual = settings().max_examples

    @settings(
        max_examples=usual // 16 if usual <= 100 else usual, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(drawn=cases())
    def agree_on(drawn: Case) -> None:
        assume(compare_epoch(PLAIN, drawn) or not drawn.steps)

    agree_on()


#: What a step launches besides, none of which multiplies matrices.
OTHER_KERNELS = {
    "gather_rows", "apply_relu_mask", "sum_gradient", "spread_gradient", "add_parts", "add_gradient_parts", "finish_weights", "pack_weights",
    "cross_entropy_by_warps", "mse_by_warps", "relu_gradient", "relu_forward", "sgd_step", "sgd_step_by_four", "maxpool2d_forward",
    "maxpool2d_backward", "maxpool2d_gradient", "upsample2d_forward", "upsample2d_backward", "pack", "pack_pixels",
    "pack_shifted", "pack_narrow", "pack_implicit", "finish_bias",
}  # fmt: skip
#: Files of kernels that multiply on tensor cores.
MULTIPLYING = (
    "product.cu", "warpgroups.cu", "warpgroup_weights.cu", "shifted.cu", "shifted_gradient.cu", "first.cu", "first_weights.cu",
    "narrow.cu", "narrow_weights.cu", "few_pixels.cu", "few_pixels_weights.cu", "implicit.cu", "implicit_wide.cu", "implicit_weights.cu",
)  # fmt: skip
#: Of a first layer with sums of 32 terms at most, and few FLOPs beside the others': which of y and dw they compute.
FEW = {"convolve_few", "correlate_rows", "correlate_few_images"}
#: Nets, how many products multiply-adds compute for their first layer, and for a last one together with the loss.
LEFT = {CNN: (0, 3), NARROW: (0, 0), MIXED: (0, 0), ENDS: (2, 3), cnn(): (2, 3), autoencoder(): (0, 0)}


@pytest.mark.parametrize("net", LEFT, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
@pytest.mark.parametrize("batch", [1, 64])
def test_every_product_of_a_step_but_those_of_small_layers_is_on_tensor_cores(net: Net, batch: int) -> None:
    """For each layer with parameters y, dw and, but for the first, dx; every other launch is none of the kernels that
    multiply.
    """
    of_first, head = LEFT[net]
    for processors in (1, 132):
        few = (
            2 if net == autoencoder() and 4 * batch < processors else of_first
        )  # too few pictures for the kernels of first.py
        trained = case(net, TrainConfig(batch_size=batch), seed=1, samples=150)
        device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=processors)
        with GraphedTrainer(net, trained.config, trained.state, device, TABLE) as trainer:
            trainer.load(trained.dataset)
            for part in trainer.parts():
                calls = [call for call in trainer.program(part) if isinstance(call, Launch)]
                names = [(call.kernel.source.path.name, call.name) for call in calls]
                products = [name for file, name in names if file in MULTIPLYING]
                both = sum(file == "shifted_gradient.cu" for file, _ in names)  # dx and dw in one
                layers = sum(isinstance(layer, Conv2d | Linear) for layer in net.layers)
                assert len(products) + both == 3 * layers - 1 - few - head and all(
                    "<SPLIT" in name for name in products
                )
                others = {name.partition("<")[0] for file, name in names if file not in MULTIPLYING}
                heads = {
                    call.name.partition("<")[0] for call in calls if call.kernel.source.path.parent.name == "thin_chain"
                }
                assert others - heads - OTHER_KERNELS <= FEW and len(others & FEW) == few and bool(heads) == bool(head)


@pytest.mark.parametrize("net", LEFT, ids=lambda net: f"{net.name}-{net.in_shape[1]}")
def test_its_memory_is_let_go_at_once(net: Net) -> None:
    """Without the garbage collector, which two objects that refer to each other would wait for."""
    device, trained = (
        Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132),
        case(net, TrainConfig(batch_size=64), seed=1, samples=150),
    )
    gc.disable()
    try:
        with GraphedTrainer(net, trained.config, trained.state, device, TABLE) as trainer:
            before = dict(device.held)
            trainer.load(trained.dataset)
            for part in trainer.parts():
                trainer.program(part)
            assert sum(device.held.values()) > sum(before.values())
            trainer.close()
            assert device.held == before | dict.fromkeys(device.held.keys() - before.keys(), 0)
    finally:
        gc.enable()


@pytest.mark.parametrize("net", (CNN, NARROW, MIXED), ids=lambda net: net.name)
@pytest.mark.parametrize("batch", [1, 64])
def test_no_call_runs_beside_one_that_it_has_to_wait_for(net: Net, batch: int) -> None:
    assert steps(case(net, TrainConfig(batch_size=batch), seed=1, samples=150), TABLE)


@pytest.mark.pairs
def test_a_net_that_ends_in_an_image_trains_on_both_losses() -> None:
    net = Net("ends", (2, 5, 5), (Conv2d(out_channels=2, kernel_size=3, padding=1), ReLU()), MSELoss())
    drawn = clear_of_switches(net, TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9), samples=10)
    assert compare_epoch(PLAIN, drawn) == 2
