"""Convolutions by warpgroup products (wgmma), on the emulator: right for every shape that they take; what is a little wrong is found."""

from __future__ import annotations

import numpy as np
import pytest

from clockwork import Clockwork
from strategies import case
from tensor_convolutions import Asked, conv, drawn
from warpgroup_convolutions import PRECISIONS, Bound, EditedWarpgroups, prove
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU
from warpladder.ops.conv2d.warpgroups import fits
from warpladder.ops.tensor import TABLE
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.verify import verify

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: Outputs, input (channels, rows, columns), images: one square; several of an image, ragged; more images than a tile, outputs and channels that fill no tile;
#: more squares of an image than fp16's sums stay in the tensor cores for.
SHAPES = ((64, (64, 8, 8), 2), (64, (128, 5, 11), 3), (192, (64, 9, 8), 3), (64, (64, 9, 34), 2))
nightly = pytest.mark.nightly
#: With fp16 at night, where by day another test or the other precisions show the same.
REPEATED = tuple(pytest.param(name, marks=nightly if name == "fp16" else []) for name in PRECISIONS)


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def asked(shape: int, precision: str, kind: str = "normal") -> Asked:
    o, image, n = SHAPES[shape]
    return Asked(conv(o, 3, padding=1), image, n, precision, kind)


def turn(shape: int, precision: str, processors: int) -> list[pytest.MarkDecorator]:
    """Who runs this: in fp16 by day two squares of an image in one part, whose sums stay in the tensor cores; the longest sums, of it alone, at night."""
    return [nightly] if shape == 3 or (precision == "fp16" and (shape, processors) != (1, 1)) else []


@pytest.mark.parametrize(
    ("processors", "shape", "precision"),
    [
        pytest.param(processors, shape, precision, marks=turn(shape, precision, processors))
        for processors in (1, 132)
        for shape in range(len(SHAPES))
        for precision in PRECISIONS
    ],
)
def test_y_dx_and_dw(shape: int, precision: str, processors: int) -> None:
    """With one multiprocessor a block makes several tiles, all sums of dw in one part; with 132 every square is a part."""
    device = EmulatedDevice()
    device.limits = Limits(device.limits.device, multiprocessors=processors)
    prove(device, asked(shape, precision))


#: The forms of the op: a first layer with a pool, one with a ReLU, and one without.
NET = Net(
    "warpgroups", (64, 5, 6),
    (
        conv(64, 3, padding=1), ReLU(), MaxPool2d(2), conv(64, 3, padding=1), ReLU(), conv(64, 3, padding=1), Flatten(),
        Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=nightly), pytest.param("fp16", marks=nightly)])
def test_a_net_of_them_is_proven(precision: str) -> None:
    """By the precision's bounds; the last batch is a partial one."""
    rung = find("tensor", device="emulated").but(precision=precision)
    verdict = verify(rung.build, NET, TrainConfig(batch_size=3, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("capability", "found"), [((9, 0), True), ((8, 0), False), ((10, 0), False), (None, True)])
def test_who_takes_them(capability: tuple[int, int] | None, found: bool) -> None:
    device = EmulatedDevice()
    device.capability = capability
    image, written, window = (128, 16, 16), (64, 16, 16), (3, 1, 1)
    assert [fits(device, image, written, window, 4, precision) for precision in ("fp32", "bf16", "fp16")] == [found] * 3
    for wrong in (
        ((96, 16, 16), written, window, 4, "fp32"), (image, (3, 16, 16), window, 4, "fp32"), (image, written, (5, 1, 2), 4, "fp32"),
        (image, written, (3, 2, 1), 4, "fp32"), (image, written, window, 4, "tf32"),
    ):  # fmt: skip
        assert not fits(device, *wrong)
    device.limits = Limits("many", multiprocessors=132)
    assert fits(device, image, written, window, 33, "fp32") == found and not fits(device, image, written, window, 32, "fp32"), (
        "half of them busy"
    )


@pytest.mark.parametrize(("capability", "count"), [((9, 0), 6), ((8, 0), 0), ((10, 0), 0)])
def test_the_autoencoders_layers_3_and_6_take_them_on_hopper_alone(capability: tuple[int, int], count: int) -> None:
    """y, dx and dw of each, in a step of 256 images, by the names that a profile shows."""
    trained = case(nets.autoencoder(), TrainConfig(batch_size=256), seed=1, samples=256)
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    device.capability = capability
    with GraphedTrainer(nets.autoencoder(), trained.config, trained.state, device, TABLE) as trainer:
        trainer.load(trained.dataset)
        (part,) = trainer.parts()
        files = [call.kernel.source.path.name for call in trainer.program(part)]  # type: ignore[attr-defined]
    assert sum(file in ("warpgroups.cu", "warpgroup_weights.cu") for file in files) == count
    assert files.count("warpgroup_pack.cu") == count


@pytest.mark.parametrize("precision", REPEATED)
@pytest.mark.parametrize("kind", ["positive", "huge", "tiny", "far apart"])
def test_numbers_of_every_size(device: EmulatedDevice, kind: str, precision: str) -> None:
    prove(device, asked(1, precision, kind), seed=1)


@pytest.mark.parametrize("precision", REPEATED)
def test_what_follows_y_and_what_lies_below_dx(device: EmulatedDevice, precision: str) -> None:
    """Bias, ReLU and pool as of the plain sums to the bit, odd rows and columns left out; dx is 0 where below is not above 0."""
    of = asked(2, precision)
    numbers = drawn(of)
    bias = np.random.default_rng(3).normal(size=len(numbers[1])).astype(np.float32)
    plain = Bound(device, of, numbers).send()
    y = plain["y"] + bias[:, None, None]
    np.testing.assert_array_equal(Bound(device, of, numbers, "RECTIFY", bias).send()["y"], np.maximum(y, 0))
    bound = Bound(device, of, numbers, "POOL", bias, below=True)
    found = bound.send()
    n, o, h, w = y.shape
    four = (
        y[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, o, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, o, h // 2, w // 2, 4)
    )
    np.testing.assert_array_equal(found["y"], np.maximum(four.max(-1), 0))
    assert bound.winner is not None
    np.testing.assert_array_equal(bound.winner.download(), np.where(four.max(-1) > 0, four.argmax(-1), 4))
    np.testing.assert_array_equal(found["dx"], np.where(numbers[0] > 0, plain["dx"], 0))


@pytest.mark.parametrize("precision", REPEATED)
def test_infinity_and_nan_are_seen_and_stay_in_their_image(device: EmulatedDevice, precision: str) -> None:
    of = asked(1, precision)
    x, w, dy = drawn(of)
    for wrong in (np.inf, np.nan):
        bad = x.copy()
        bad[2, 32, 3, 2] = wrong
        found = Bound(device, of, (bad, w, dy)).send()
        assert not np.isfinite(found["y"][2, :, 2:5, 1:4]).any() and np.isfinite(found["y"][:2]).all()
        assert not np.isfinite(found["dw"][:, 32, 1, 1]).any() and np.isfinite(found["dx"]).all()


@pytest.mark.parametrize("precision", REPEATED)
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice, precision: str) -> None:
    of = asked(0, precision)
    found = [Bound(on, of, drawn(of)).send() for on in (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))]
    for name in found[0]:
        assert len({each[name].tobytes() for each in found}) == 1, name


@pytest.mark.parametrize("precision", REPEATED)
def test_the_checker_finds_nothing(precision: str) -> None:
    checked, of = EmulatedDevice("check", collect=True), asked(0, precision)
    Bound(checked, of, drawn(of)).send()
    assert checked.reports == []


HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
SUM_Y, SUM_W = "sum[0][i] = fmaf(part[i], back, sum[0][i]);", "sum[0][i] = fmaf(parts[i] * back, back_x[i / 32], sum[0][i]);"
SCALE, W_UNDO = "min(268u - (largest >> 23), 253u)", "value *= w_undo[output];"
#: What rounds a thread's own sum to half.
IN_HALF = "sum[0][i] = low_half(two_halves(sum[0][i], 0.0f));"
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "the low halves of the first factor dropped": ("fp32", ((HALVES, HALVES.replace("? 0", "? 1")),), "normal"),
    "the low halves of the second factor dropped": ("fp32", ((HALVES, HALVES.replace("++product", "product += FORMAT == SPLIT ? 2 : 1")),), "normal"),
    "the scale of an image not undone": ("fp32", ((SUM_Y, SUM_Y.replace("back", "DOWN")),), "normal"),
    "the scale of weights not undone": ("fp32", ((W_UNDO, "value *= UP;"),), "normal"),
    "the scale of dy not undone": ("fp32", ((SUM_W, SUM_W.replace("* back,", "* DOWN,")),), "normal"),
    "the scale of x not undone in dw": ("fp32", ((SUM_W, SUM_W.replace("back_x[i / 32]", "UP")),), "normal"),
    "no scale": ("fp32", ((SCALE, "127u + 0 * largest"),), "tiny"),
    **{
        f"{what}, of one half": ("fp16", (edit,), kind)
        for what, edit, kind in (
            ("no scale", (SCALE, "127u + 0 * largest"), "tiny"),
            ("the scale of an image not undone", (SUM_Y, SUM_Y.replace("back", "DOWN")), "normal"),
            ("the scale of an image undone twice", (SUM_Y, SUM_Y.replace("back", "back * back")), "normal"),
            ("the scale of weights undone twice", (W_UNDO, "value *= w_undo[output] * w_undo[output];"), "normal"),
            ("the scale of dy not undone", (SUM_W, SUM_W.replace("* back,", "* DOWN,")), "normal"),
            ("the scale of x undone twice in dw", (SUM_W, SUM_W.replace("back_x[i / 32]", "back_x[i / 32] * back_x[i / 32]")), "normal"),
            ("squares of the next image under this one's scale", ("min(min(end, first + STAYING), squares.after(image))", "min(end, first + STAYING)"), "far apart"),
            *((f"sums of {name} in half", (line, f"{line[:-1]}, {IN_HALF}"), "positive") for name, line in (("y", SUM_Y), ("dw", SUM_W))),
        )
    },
    "a tap too far": ("bf16", (("squares.row(first + piece) + tap / TAPS - 1", "squares.row(first + piece) + tap / TAPS"),), "normal"),
    "dw of the tap beside": ("bf16", (("column + tap % TAPS - 1", "column + tap % TAPS"),), "normal"),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632)\nenum { SPLIT"),), "positive",
    ),
}  # fmt: skip


def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    for precision, kind in {(precision, kind) for precision, _, kind in LIARS.values()}:
        prove(EditedWarpgroups(device), asked(1, precision, kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=nightly if LIARS[liar][0] == "fp16" and not liar.startswith("no scale") else []) for liar in LIARS]
)
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edits, kind = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong at|never written"):
        prove(EditedWarpgroups(device, *edits), asked(1, precision, kind))  # type: ignore[arg-type]
