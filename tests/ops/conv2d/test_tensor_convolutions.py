"""Convolutions on tensor cores: right in every precision at any size of the numbers, in nets proven; what is a little
wrong is found.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from clockwork import Clockwork
from compared_steps import compare_epoch
from hypothesis import HealthCheck, assume, given, settings
from named_calls import steps
from strategies import NARROW, ZOO, Case, case, cases
from tensor_convolutions import KINDS, PRECISIONS, SHAPES, Asked, Edited, conv, convolved, drawn, prove
from tensor_nets import CNN, MIXED
from tensor_tools import IN_BF16, IN_HALF

from warpladder.config import TrainConfig
from warpladder.device import Launch, Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU, autoencoder, cnn
from warpladder.ops.conv2d.problem import ConvWindow
from warpladder.ops.conv2d.products import Geometry
from warpladder.ops.conv2d.tensor.formats import FORMATS
from warpladder.ops.conv2d.tensor.general.plan import (
    DEPTH,
    PIXELS,
    ConvolveForm,
    ConvolveProblem,
    CorrelateProblem,
    PixelTile,
    tiles,
)
from warpladder.ops.cost.plans import best, ranked
from warpladder.ops.engine.kernels import ceil_div
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
slow, nightly = pytest.mark.slow, pytest.mark.nightly


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


@pytest.mark.parametrize(
    "precision",
    [pytest.param(name, marks=[] if name == "fp32" else nightly if name == "fp16" else slow) for name in PRECISIONS],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.by_day("tiny-fp32")
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, kind: str, precision: str) -> None:
    for shape in (0, 2, 4):
        for offset in (0, 1):
            prove(device, Asked(*SHAPES[shape], precision, kind, offset), seed=1)


@pytest.mark.parametrize("kind", ["huge", "tiny", "far apart"])
def test_one_half_of_numbers_of_every_size(device: EmulatedDevice, kind: str) -> None:
    """In fp16, whose scales make one of the loss unnecessary."""
    prove(device, Asked(*SHAPES[2], "fp16", kind, 1), seed=1)


@pytest.mark.parametrize("processors", [1, pytest.param(132, marks=slow)])
@pytest.mark.slow
def test_long_sums_in_parts_of_positive_numbers(processors: int) -> None:
    """Of 2,700 terms and of 3,240 pixels; in fp16 in many parts alone."""
    device = EmulatedDevice()
    device.limits = Limits(device.limits.device, multiprocessors=processors)
    for precision in PRECISIONS if processors > 1 else ("fp32", "tf32", "bf16"):
        prove(device, Asked(conv(5, 3, padding=1), (300, 4, 3), 2, precision, "positive"))
        prove(device, Asked(conv(5, 3, padding=1), (9, 18, 20), 9, precision, "positive"))


def test_zeros_stay_zero_and_what_is_not_finite_is_seen(device: EmulatedDevice) -> None:
    for precision in PRECISIONS:
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
            assert (
                not np.isfinite(np.delete(found["y"][2, :, 2:5, 1:4], 2, 0)).any() and np.isfinite(found["y"][:2]).all()
            )
            assert (
                np.isfinite(found["y"][2, :, :2]).all()
                and not np.isfinite(np.delete(found["dw"][:, 32, 1, 1], 3)).any()
            )


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


#: Where the lane's own numbers are added up, in the two kernels.
SUM_Y, SUM_W = "scales[8 * j + 2 * t + l % 2], sum[i][j][l]);", "back_y[i][l / 2], sum[tap][i][j][l]);"
BACK = "back[2 * i + l / 2]"
PLAIN_Y, PLAIN_W = "sum[i][j][l] += part[of][i][l];", "sum[tap][i][j][l] += parts[i][j][l];"
#: Where pixels become halves; and that of numbers in bf16.
HALVES, HALVES_OF_BF16 = (
    "high[i] = two_halves(v[2 * i], v[2 * i + 1])", "high[i] = two_halves(__uint_as_float(high[i] << 16), "
        "__uint_as_float(high[i] & ~0xffffu))",
)  # fmt: skip
ALL_HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
#: Parts of sums that begin where the ones before ended; under one scale, since what is left there cannot be scaled
#: anew.
LEFT_THERE = (
    ("float sum[2][BN / 8][4] = {};", "float sum[2][BN / 8][4] = {}, kept[BN / 8 / TOGETHER][TOGETHER][2][4] = {};"),
    ("float part[TOGETHER][2][4] = {};", "float(&part)[TOGETHER][2][4] = kept[j0 / TOGETHER];"), (SUM_Y, "scales[8 * j + 2 * t + l % "
        "2], 0.0f);"),
    ("min(268u - (largest >> 23), 253u)", "135u + 0 * largest"),
)  # fmt: skip
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "the low halves of the first factor dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("? 0", "? 1")),), "normal"),
    "the low halves of the second factor dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")),), "normal"),
    "the scale of pixels not removed": ("fp32", (("part[of][i][l] * back[2 * i + l / 2]", "part[of][i][l] * DOWN"),), "normal"),
    "the scale of weights not removed": ("fp32", ((SUM_Y, "16384.0f, sum[i][j][l]);"),), "normal"),
    "a neighbour's scale removed": ("fp32", (("inverse_scale[(pixels_of[e / 2] >> e % 2 * 16 & 0xffff)", "inverse_scale[(pixels_of[e "
        "/ 2] & 0xffff)"),), "normal"),
    "another tap's scale removed": ("fp32", (("e % 2 * 16 & 0xffff) + offset];", "e % 2 * 16 & 0xffff)];"),), "normal"),
    "the scale of dy not removed": ("fp32", ((SUM_W, "UP, sum[tap][i][j][l]);"),), "normal"),
    "the largest of half a line": ("fp32", (("exponent<1, 32>(largest[i])", "exponent<1, 4>(largest[i])"),), "far apart"),
    "no scale, huge": ("fp32", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "huge"),
    "no scale, tiny": ("fp32", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "tiny"),
    "sums of y in bf16": ("fp32", ((SUM_Y, f"{SUM_Y} {IN_BF16}"),), "normal"),
    "sums of dw in bf16": ("fp32", ((SUM_W, f"{SUM_W} {IN_BF16.replace('sum[i]', 'sum[tap][i]')}"),), "normal"),
    **{f"sums of y in bf16, of {each}": (each, ((PLAIN_Y, f"{PLAIN_Y} {IN_BF16}"),), "normal") for each in ("tf32", "bf16")},
    **{f"sums of dw in bf16, of {each}": (each, ((PLAIN_W, f"{PLAIN_W} {IN_BF16.replace('sum[i]', 'sum[tap][i]')}"),), "normal") for each in ("tf32", "bf16")},
    "the scale of pixels removed twice": ("fp32", ((BACK, f"{BACK} * {BACK}"),), "normal"),
    "the scale of dy removed twice": ("fp32", ((SUM_W, f"back_y[i][l / 2] * {SUM_W}"),), "normal"),
    "sums of y left in the tensor cores": ("fp32", LEFT_THERE, "positive"),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), "
            "__float_as_uint(high), 0x7632)\nenum { SPLIT"),), "positive",
    ),
    **{
        f"{what}, of one half": ("fp16", edits, kind)
        for what, edits, kind in (
            ("the scale of pixels not removed", (("part[of][i][l] * back[2 * i + l / 2]", "part[of][i][l] * DOWN"),), "normal"),
            ("the scale of dy removed twice", ((SUM_W, f"back_y[i][l / 2] * {SUM_W}"),), "normal"),
            ("no scale, tiny", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "tiny"),
            ("the scale of pixels removed twice", ((BACK, f"{BACK} * {BACK}"),), "normal"),
            ("the scale of weights not removed", ((SUM_Y, "16384.0f, sum[i][j][l]);"),), "normal"),
            ("the scale of dy not removed", ((SUM_W, "UP, sum[tap][i][j][l]);"),), "normal"),
            ("no scale, huge", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "huge"),
            ("the largest of half a line", (("exponent<1, 32>(largest[i])", "exponent<1, 4>(largest[i])"),), "far apart"),
            ("sums of y in half", ((SUM_Y, f"{SUM_Y} {IN_HALF}"),), "normal"),
            ("sums of dw in half", ((SUM_W, f"{SUM_W} {IN_HALF.replace('sum[i]', 'sum[tap][i]')}"),), "normal"),
            ("sums of y left in the tensor cores", LEFT_THERE, "positive"),
            ("factors in bf16", ((HALVES, f"{HALVES.replace('halves', 'bf16')}, {HALVES_OF_BF16}"),), "normal"),
        )
    },
    "tf32 cut off, not rounded": ("tf32", (("enum { SPLIT", "#define to_tf32(x) (__float_as_uint(x) & 0xffffe000u)\n"
        "enum { SPLIT"),), "positive"),
}  # fmt: skip


def asked_for(liar: str, precision: str, kind: str) -> Asked:
    """Sums of 5,400 terms for what adds up slowly; several images in a tile for the rest."""
    if "left" in liar:
        return Asked(conv(9, 3), (600, 5, 5), 1, precision, kind, whole=True)
    return Asked(conv(9, 3, padding=1), (36, 5, 4), 5, precision, kind)


@pytest.mark.slow
def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    honest = Edited(device)
    for asked in {asked_for(liar, precision, kind) for liar, (precision, _, kind) in LIARS.items()}:
        prove(honest, asked)  # type: ignore[arg-type]


def by_day(number: int, liar: str) -> bool:
    """Who is refused for every change: of fp16 one that shows with tiny numbers alone, of the others every fifth."""
    return liar == "no scale, tiny, of one half" if LIARS[liar][0] == "fp16" else number % 5 == 0 or "left" in liar


@pytest.mark.parametrize(
    "liar",
    [
        pytest.param(liar, marks=[] if by_day(number, liar) else nightly if LIARS[liar][0] == "fp16" else slow)
        for number, liar in enumerate(LIARS)
    ],
)
@pytest.mark.by_day("the low halves of the first factor dropped", "no scale, tiny, of one half")
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edits, kind = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong at|never written"):
        prove(Edited(device, *edits), asked_for(liar, precision, kind))  # type: ignore[arg-type]


def turn(net: Net, batch: int | None) -> list[pytest.MarkDecorator]:
    """Who runs this: .ci/run the smaller batches; the larger ones, which take the emulator up to a minute, the night."""
    return [slow] if batch in (1, 7) else [nightly]


@pytest.mark.parametrize(
    ("net", "batch"),
    [
        pytest.param(net, batch, id=f"{net.name}-{batch or 'full'}", marks=turn(net, batch))
        for net in (CNN, NARROW, MIXED, ENDS)
        for batch in (1, 7, 64, None)
    ],
)
def test_nets_are_proven(net: Net, batch: int | None) -> None:
    """By fp32's bounds; the cases hold a partial last batch."""
    verdict = verify(PLAIN.build, net, TrainConfig(batch_size=batch, momentum=0.9, weight_decay=1e-3))
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound < 1e-5


@nightly
def test_the_wide_autoencoder_is_proven() -> None:
    verdict = verify(PLAIN.build, ZOO[4], TrainConfig(batch_size=3))
    assert verdict.passed, verdict.reason


def coarser_turn(net: Net, precision: str, batch: int) -> list[pytest.MarkDecorator]:
    """Who runs this: the narrow autoencoder in bf16 by day, in the others .ci/run; what repeats it at night."""
    if (net, batch) != (NARROW, 7):
        return [nightly]
    return [] if precision == "bf16" else [slow]


@pytest.mark.parametrize(
    ("net", "precision", "batch"),
    [
        pytest.param(
            net, precision, batch, id=f"{net.name}-{precision}-{batch}", marks=coarser_turn(net, precision, batch)
        )
        for net in (CNN, NARROW)
        for precision in PRECISIONS[1:]
        for batch in (1, 7, 64)
        if precision == "fp16" or batch == 7
    ],
)
@pytest.mark.slow
def test_nets_are_proven_in_coarser_precisions(net: Net, precision: str, batch: int) -> None:
    rung = PLAIN.but(precision=precision)
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch), precision=rung.precision)
    assert verdict.passed, verdict.reason
    assert not verify(rung.build, net, TrainConfig(batch_size=batch)).passed, "by fp32's bounds"


def test_steps_of_drawn_nets() -> None:
    usual = settings().max_examples

    @settings(
        max_examples=usual // 10 if usual <= 100 else usual, deadline=None, suppress_health_check=[HealthCheck.too_slow]
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
    "product.cu", "weights.cu", "warpgroups.cu", "warpgroup_weights.cu", "shifted.cu", "shifted_gradient.cu", "first.cu", "first_weights.cu",
    "narrow.cu", "narrow_weights.cu", "few_pixels.cu", "few_pixels_weights.cu", "implicit.cu", "implicit_weights.cu",
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


@pytest.mark.parametrize("windows", [False, True])
def test_tiles_cover_every_pixel_once(windows: bool) -> None:
    for n, high, wide in ((1, 1, 1), (5, 3, 2), (64, 26, 26), (7, 24, 24), (3, 17, 200), (300, 2, 2)):
        found = list(tiles(n, high, wide, windows, ((3, 3),)))
        assert bool(found) == (not windows or min(high, wide) > 1)
        for tile in found:
            assert 1 <= tile.pixels <= PIXELS and (not windows or tile.rows % 2 == tile.columns % 2 == 0)
            assert tile.images == 1 or (tile.rows >= high // 2 * 2 and tile.columns >= wide // 2 * 2), (
                "images whole, or one"
            )


@pytest.mark.parametrize("processors", [1, 132])
def test_the_model_cuts_every_convolution(processors: int) -> None:
    """For a window as large as the image too: there is always a cut that fits shared memory, and one in whole sums."""
    limits = Limits("some GPU", multiprocessors=processors)
    for kind in FORMATS.values():
        for read, written, k, stride, padding in (
            ((256, 16, 16), (128, 16, 16), 3, 1, 1),
            ((9, 40, 40), (4, 41, 41), 40, 1, 20),
            ((3, 9, 9), (2, 1, 1), 8, 7, 0),
        ):
            for n in (1, 256):
                y = ConvolveProblem(n, Geometry(read, written, k, stride, padding), kind, limits)
                dw = CorrelateProblem(n, read, written, ConvWindow(k, stride, padding), kind, limits)
                found = list(ranked(y))
                assert any(plan.parts == 1 for plan in found) and y.image == written[1:]
                for plan in (*found[:5], *list(ranked(dw))[:5]):
                    assert plan.depth >= 1 and isinstance(plan.tile, PixelTile)
                assert dw.shared(best(dw).tile) <= limits.shared_opt_in
    assert ConvolveForm.of(Geometry((1, 28, 28), (16, 26, 26), 3, 1, 0)).stages == ceil_div(9, DEPTH) == 1, (
        "a picture's taps in one line"
    )


def test_a_net_that_ends_in_an_image_trains_on_both_losses() -> None:
    net = Net("ends", (2, 5, 5), (Conv2d(out_channels=2, kernel_size=3, padding=1), ReLU()), MSELoss())
    verdict = verify(PLAIN.build, net, TrainConfig(batch_size=7))
    assert verdict.passed, verdict.reason
