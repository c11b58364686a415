"""A net's first convolution on tensor cores: right in every precision at any size of the numbers, in nets proven; what
is a little wrong is found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from first_convolutions import KINDS, NET, PRECISIONS, SHAPES, Asked, EditedFirst, convolved, drawn, prove
from tensor_convolutions import problem
from tensor_tools import IN_BF16, IN_HALF

from warpladder.config import TrainConfig
from warpladder.device import Launch, Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.tensor.first import first
from warpladder.ops.engine.kernels import OnDevice
from warpladder.proof import verify

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

slow, nightly = pytest.mark.slow, pytest.mark.nightly


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.by_day("bf16")
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, precision: str) -> None:
    for kind in KINDS:
        for shape in SHAPES:
            for offset in (0, 1):
                prove(device, replace(shape, precision=precision, kind=kind, offset=offset))


@pytest.mark.parametrize("processors", [1, 132])
def test_pictures_cut_into_ranges_and_put_together(processors: int) -> None:
    """One picture on many multiprocessors, many on one; windows of one pixel, of 32 colours, and of one colour by 5 x
    5; as many outputs as take two blocks.
    """
    device = EmulatedDevice()
    device.limits = Limits(device.limits.device, multiprocessors=processors)
    for precision in ("fp32", "bf16"):
        for asked in (
            Asked((3, 32, 32), 64, 1), Asked((3, 6, 8), 64, 40, kind="positive"), Asked((32, 6, 4), 320, 2, k=1, padding=0), Asked((1, 6, 4), 32, 9, k=5, padding=2),
        ):  # fmt: skip
            prove(device, replace(asked, precision=precision), seed=1)


def test_zeros_stay_zero_and_what_is_not_finite_is_seen(device: EmulatedDevice) -> None:
    for precision in PRECISIONS:
        asked = replace(SHAPES[0], precision=precision)
        numbers = drawn(asked)
        numbers["x"][1], numbers["w"][2], numbers["b"][2], numbers["dy"][:, 3] = 0, 0, 0, 0
        found = convolved(device, asked, numbers)
        assert (
            not found["y"][:, 2].any()
            and (found["argmax"][:, 2] == 4).all()
            and not found["dw"][3].any()
            and found["db"][3] == 0
        )
        np.testing.assert_array_equal(
            found["y"][1], np.broadcast_to(numbers["b"].clip(min=0)[:, None, None], asked.pooled)
        )
        numbers["x"][2, 1, 3, 2], numbers["argmax"][:, 0] = np.nan, 0
        found = convolved(device, asked, numbers)
        assert (
            np.isnan(found["y"][2, :, 1, 1]).all()
            and np.isfinite(found["y"][:2]).all()
            and np.isnan(found["dw"][0, 1]).any()
        )
        assert (found["argmax"][2, :, 1, 1] == 4).all(), "as on every rung: nobody is above 0"


#: How sums of 32 terms are scaled back, and 16 windows' of dw.
BACK_Y, BACK_W = (
    "fmaf(most * back[q], inverse_scale[output + l], biases[output + l])",
    "fmaf(of_part[j][l] * back_x, back[l / 2], sum[i][j][l]);",
)
PLAIN_W = "sum[i][j][l] += of_part[j][l];"
Y_PRODUCTS = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)\n#pragma unroll\n                for (int step"
W_PRODUCTS = (
    "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)\n#pragma unroll\n                    for (int s ="
)
HALVES = "        high = two_halves(x, y);"
HALVES_OF_BF16 = (
    "const unsigned near = two_bf16(x, y); high = two_halves(__uint_as_float(near << 16), "
    "__uint_as_float(near & ~0xffffu));"
)
SCALE = "min(268u - (largest >> 23), 253u)"
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "low halves of pixels dropped": ("fp32", ((Y_PRODUCTS, Y_PRODUCTS.replace("? 0", "? 1")),), "normal"),
    "low halves of weights dropped": ("fp32", ((Y_PRODUCTS, Y_PRODUCTS.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")),), "normal"),
    "low halves of gradients dropped": ("fp32", ((W_PRODUCTS, W_PRODUCTS.replace("? 0", "? 1")),), "normal"),
    "low halves of the picture dropped": ("fp32", ((W_PRODUCTS, W_PRODUCTS.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")),), "normal"),
    "the scale of windows not removed": ("fp32", ((BACK_Y, BACK_Y.replace("back[q]", "DOWN")),), "normal"),
    "a neighbouring window's scale removed": ("fp32", ((BACK_Y, BACK_Y.replace("back[q]", "back[0]")),), "normal"),
    "the scale of weights not removed": ("fp32", ((BACK_Y, BACK_Y.replace("inverse_scale[output + l]", "UP")),), "normal"),
    "another output's scale removed": ("fp32", ((BACK_Y, BACK_Y.replace("inverse_scale[output + l]", "inverse_scale[output]")),), "far apart"),
    "the scale of gradients not removed": ("fp32", ((BACK_W, BACK_W.replace("back[l / 2]", "UP")),), "normal"),
    "another output's scale of gradients removed": ("fp32", ((BACK_W, BACK_W.replace("back[l / 2]", "back[0]")),), "steep"),
    "the scale of the picture removed twice": ("fp32", ((BACK_W, BACK_W.replace("back_x", "back_x * back_x")),), "normal"),
    "the largest of one lane's gradients": (
        "fp32", (("shared_exponent<1, 4>(largest_of(held));\n#pragma unroll\nfor (int s",
                  "shared_exponent<2, 4>(largest_of(held));\n#pragma unroll\nfor (int s"),), "normal",
    ),
    "no scale, huge": ("fp32", ((SCALE, "127u + 0 * largest"),), "huge"),
    "no scale, tiny": ("fp32", ((SCALE, "127u + 0 * largest"),), "tiny"),
    "a argmax's place swapped with the next": ("bf16", (("pool_argmax * 16 >> 8 * s & 48;", "(pool_argmax ^ 0x01010101u) "
        "* 16 >> 8 * s & 48;"),), "normal"),
    "a argmax of the lower line put into the upper one": ("bf16", (("pool_argmax * 16 >> 8 * s & 48;", "pool_argmax * 16 >> 8 * s & "
        "16;"),), "normal"),
    "the gradient where nobody won": ("bf16", (("if ((pool_argmax >> 8 * s & 4) != 0) held[s] = 0.0f;", ""),), "normal"),
    "the next window's gradient": ("bf16", (("corners[window + s]", "corners[window + (s ^ 1)]"),), "normal"),
    "a term beside": ("bf16", (("tap / k) * wide + tap % k : -1", "tap / k) * wide + min(tap % k + 1, k - 1) : -1"),), "normal"),
    "a term of dw beside": ("bf16", (("tap / k * pitch + tap % k;", "tap / k * pitch + min(tap % k + 1, k - 1);"),), "normal"),
    "a term beyond the last one": ("bf16", (("offset[i] >= 0 ?", "8 * t + i < terms - 1 ?"),), "normal"),
    "another pixel said to win": ("bf16", (("(most > 0.0f ? best.place : 4)", "(most > 0.0f ? best.place ^ 1 : 4)"),), "normal"),
    "somebody said to win where nobody does": ("bf16", (("(most > 0.0f ? best.place : 4)", "best.place"),), "normal"),
    "the bias left out": ("bf16", (("else most += biases[output + l];", ""),), "normal"),
    "packed outputs exchanged": ("bf16", (("make_uint2(pairs[q][0], pairs[q][1])", "make_uint2(pairs[q][1], "
        "pairs[q][0])"),), "normal"),
    "sums of warps left out": ("bf16", (("other = 0; other < turns;", "other = 1; other < turns;"),), "normal"),
    "sums of dw in bf16": ("bf16", ((PLAIN_W, f"{PLAIN_W} {IN_BF16}"),), "normal"),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), "
            "__float_as_uint(high), 0x7632)\nenum { SPLIT"),), "positive",
    ),
    "sums of dw in half": ("fp16", ((BACK_W, f"{BACK_W} {IN_HALF}"),), "normal"),
    "factors in bf16": ("fp16", ((HALVES, f"{HALVES} {HALVES_OF_BF16}"),), "normal"),
}  # fmt: skip
#: By day: one of each kernel and of each kind of lie; the others in .ci/run, and in fp16 at night.
BY_DAY = {
    "the scale of windows not removed",
    "low halves of gradients dropped",
    "a argmax's place swapped with the next",
}


def asked_for(precision: str, kind: str) -> Asked:
    """Windows of two warps, the second of which has no whole 16, and several pictures in a tile."""
    return Asked((3, 13, 9), 32, 3, precision=precision, kind=kind)


@pytest.mark.slow
def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    honest = EditedFirst(device)
    for precision, kind in {(precision, kind) for precision, _, kind in LIARS.values()}:
        prove(honest, asked_for(precision, kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "liar",
    [
        pytest.param(liar, marks=[] if liar in BY_DAY else nightly if LIARS[liar][0] == "fp16" else slow)
        for liar in LIARS
    ],
)
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edits, kind = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong at|never written|not finite"):
        prove(EditedFirst(device, *edits), asked_for(precision, kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("precision", "batch"),
    [
        *(pytest.param(each, 4, marks=pytest.mark.pairs) for each in ("fp32", "bf16")),
        *(pytest.param(each, batch, marks=nightly) for each in PRECISIONS for batch in (1, 64)),
    ],
)
def test_a_net_is_proven(precision: str, batch: int) -> None:
    """By the precision's bounds; the cases hold a partial last batch."""
    rung = find("tensor", device="emulated").but(precision=precision)
    verdict = verify(rung.build, NET, TrainConfig(batch_size=batch, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason


@slow
def test_the_checker_finds_nothing_and_any_order_has_the_same_bits(device: EmulatedDevice) -> None:
    checked = EmulatedDevice("check", collect=True)
    for shape, precision in zip(SHAPES, ("fp32", "bf16", "fp16"), strict=True):
        for offset in (0, 1):
            asked = replace(shape, precision=precision, offset=offset)
            numbers = drawn(asked)
            found = [
                convolved(on, asked, numbers)
                for on in (checked, device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
            ]
            for name in found[0]:
                assert len({each[name].tobytes() for each in found}) == 1, name
    assert checked.reports == []


def test_who_is_taken() -> None:
    device, window = EmulatedDevice(), (3, 1, 1)
    device.limits = Limits("some GPU", multiprocessors=132)
    wide = (3, 32, 32), (256, 32, 32)
    assert all(first.fits(problem(device, *wide, window, 132, precision)) for precision in PRECISIONS)
    for read, written, asked in (
        ((1, 28, 28), (16, 26, 26), (3, 1, 0)), ((3, 32, 32), (40, 32, 32), window), ((4, 32, 32), (64, 32, 32), window), ((3, 32, 32), (64, 15, 15), (3, 2, 0)),
        ((3, 224, 224), (64, 224, 224), window),
    ):  # fmt: skip
        assert not first.fits(problem(device, read, written, asked, 132, "bf16"))


@pytest.mark.parametrize(
    ("precision", "n", "grids"),
    [("bf16", 256, ((256, 1), (128, 1))), ("fp32", 256, ((512, 1), (128, 1))), ("fp32", 1, ((2, 16), (8, 1)))],
)
def test_the_autoencoders_batch_fills_a_gpu(precision: str, n: int, grids: tuple[tuple[int, int], ...]) -> None:
    """A block of y with all outputs for each half of a multiprocessor, in one turn or two, and a part of dw for each;
    of one picture all that it can be cut into.
    """
    device = EmulatedDevice()
    device.limits = Limits("some GPU", multiprocessors=132)
    owner, picture, written = OnDevice(device, 256), (3, 32, 32), (256, 32, 32)
    x, w, b = device.empty((n, *picture)), device.empty((256, 3, 3, 3)), device.empty((256,))
    y, argmax = device.empty((n, 256, 16, 16)), device.empty((n, 256, 16, 16), np.uint8)
    layer = FusedConv(picture, written, ConvWindow(3, 1, 1), relu=True, pool=True)
    forward = first.FirstConvolution(owner, layer, precision).launches(n, x, w, b, y, argmax)
    backward = first.FirstGradient(owner, layer, n, precision).launches(n, x, y, argmax, Gradients(w, b))
    assert tuple(launches[0].grid[:2] for launches in (forward, backward) if isinstance(launches[0], Launch)) == grids
