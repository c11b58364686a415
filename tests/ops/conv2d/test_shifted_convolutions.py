"""Convolutions of few outputs whose products come first and shifts afterwards, on the emulator: right for all that they
take; what is a little wrong is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from clockwork import Clockwork
from shifted_convolutions import NARROW, PRECISIONS, Bound, EditedShifts, prove, prove_packed
from strategies import case
from tensor_convolutions import Asked, conv, drawn, problem

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.ops.conv2d.tensor.shifted.shifted import Shifted
from warpladder.ops.engine.kernels import OnDevice
from warpladder.ops.tables.tensor import TABLE
from warpladder.proof import verify
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
pairs, slow, nightly = pytest.mark.pairs, pytest.mark.slow, pytest.mark.nightly

#: Outputs, small image (channels, rows, columns), images: rows of an odd number of pixels; all that an image may have;
#: one image, one output; more channels than a block keeps sums of, in two slices.
SHAPES = ((3, (64, 5, 3), 3), (4, (128, 16, 16), 3), (1, (64, 4, 4), 1), (2, (320, 3, 6), 2))
ODD, FULL, ONE, WIDE = range(len(SHAPES))


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    """With two multiprocessors, so that a block has several images and its sums of dw are added up."""
    device = EmulatedDevice()
    device.limits = Limits(device.limits.device, multiprocessors=2)
    return device


def asked(shape: int, precision: str, kind: str = "normal") -> Asked:
    o, image, n = SHAPES[shape]
    return Asked(conv(o, 3, padding=1), image, n, precision, kind, upsampled=True)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.by_day("fp32", "bf16")
def test_y_dx_dw_and_db(device: EmulatedDevice, precision: str) -> None:
    for shape in range(len(SHAPES)):
        prove(device, asked(shape, precision))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.by_day("fp32", "bf16")
def test_numbers_of_every_size(device: EmulatedDevice, precision: str) -> None:
    for kind in ("positive", "huge", "tiny", "far apart"):
        prove(device, asked(ODD, precision, kind), seed=1)


def test_tf32_is_asked_of_halves(device: EmulatedDevice) -> None:
    """They have as many bits, and the same numbers come out to the bit."""
    of = asked(ODD, "fp16")
    wanted, found = (Bound(device, replace(of, precision=name), drawn(of)).send() for name in ("fp16", "tf32"))
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_the_bias_and_what_lies_below_dx(device: EmulatedDevice, precision: str) -> None:
    """The bias as of the plain sums to the bit; dx is 0 where x is not above 0, be it ever so small."""
    of = asked(ODD, precision)
    x, w, dy = drawn(of)
    x[0, :, 0, 0], x[1, :, 0, 0] = np.float32(1e-45), 0.0
    bias = np.random.default_rng(3).normal(size=len(w)).astype(np.float32)
    plain, found = (Bound(device, of, (x, w, dy), each, below).send() for each, below in ((None, False), (bias, True)))
    np.testing.assert_array_equal(found["y"], plain["y"] + bias[:, None, None])
    np.testing.assert_array_equal(found["dx"], np.where(x > 0, plain["dx"], 0))
    np.testing.assert_array_equal(found["dw"], plain["dw"])
    assert plain["dx"][1, :, 0, 0].all() and found["dx"][0, :, 0, 0].all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.slow
def test_dx_as_the_layer_below_packs_it(device: EmulatedDevice, precision: str) -> None:
    """Pixel by pixel or by classes, to the bit; and its sums, for that layer's bias. Channels in two slices; images far
    apart, each with its own scale.
    """
    prove_packed(device, asked(ODD, precision), classes=1, below=False)
    for shape, kind in ((WIDE, "normal"), (FULL, "far apart")):
        o, (c, _, _), n = SHAPES[shape]
        image = (c, 4, 6) if shape == WIDE else (c, 16, 16)
        prove_packed(device, Asked(conv(o, 3, padding=1), image, n, precision, kind, upsampled=True), classes=4)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=nightly)])
def test_infinity_and_nan_are_seen_and_stay_where_they_are(device: EmulatedDevice, precision: str) -> None:
    of = asked(ODD, precision)
    x, w, dy = drawn(of)
    for wrong in (np.inf, np.nan):
        bad = x.copy()
        bad[2, 32, 3, 1] = wrong
        found = Bound(device, of, (bad, w, dy)).send()
        assert not np.isfinite(found["y"][2, :, 5:9, 1:5]).any() and np.isfinite(found["y"][:2]).all()
        assert np.isfinite(found["y"][2, :, :5]).all()
        assert not np.isfinite(found["dw"][:, 32, 1, 1]).any() and np.isfinite(found["dx"]).all()


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=slow)])
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice, precision: str) -> None:
    of = asked(ODD, precision)
    found = [
        Bound(on, of, drawn(of)).send()
        for on in (EmulatedDevice(), EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
    ]
    for name in found[0]:
        assert len({each[name].tobytes() for each in found}) == 1, name


@nightly
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_checker_finds_nothing(precision: str) -> None:
    """Nothing in bf16 either (test_kernels_checked.py). The last image comes to a block that has made one."""
    checked, of = EmulatedDevice("check", collect=True), asked(ODD, precision)
    checked.limits = Limits(checked.limits.device, multiprocessors=1)
    Bound(checked, replace(of, n=2), drawn(replace(of, n=2)), owner=OnDevice).send()
    assert checked.reports == []


@pytest.mark.parametrize(("capability", "found"), [((9, 0), True), ((8, 0), False), ((10, 0), False), (None, True)])
def test_who_takes_them(capability: tuple[int, int] | None, found: bool) -> None:
    device = EmulatedDevice()
    device.capability = capability
    image, written, window = (128, 16, 16), (3, 32, 32), (3, 1, 1)

    def takes(small: Any, written: Any, window: Any, n: int, precision: str) -> bool:
        return Shifted.supports(problem(device, small, written, window, n, precision, upsample=2))

    assert [takes(image, written, window, 4, precision) for precision in ("fp32", "tf32", "bf16", "fp16")] == [
        found
    ] * 4
    for wrong in (
        ((96, 16, 16), written, window, 4, "fp32"), (image, (5, 32, 32), window, 4, "fp32"), (image, written, (5, 1, 2), 4, "fp32"),
        ((128, 16, 17), (3, 32, 34), window, 4, "fp32"), (image, written, (3, 2, 1), 4, "fp32"),
    ):  # fmt: skip
        assert not takes(*wrong)
    device.limits = Limits("many", multiprocessors=132)
    assert takes(image, written, window, 66, "fp32") == found and not takes(image, written, window, 65, "fp32"), (
        "half of them busy"
    )


@pytest.mark.parametrize(
    ("precision", "capability", "count"), [("bf16", (9, 0), 2), ("tf32", (9, 0), 2), ("bf16", (8, 0), 0)]
)
def test_the_autoencoders_last_layer_takes_them_on_hopper_alone(
    precision: str, capability: tuple[int, int], count: int
) -> None:
    """y, and dx with dw and db, in a step of 256 images; layer 9 takes its dy from there, packed and summed up."""
    trained = case(nets.autoencoder(), TrainConfig(batch_size=256), seed=1, samples=256)
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    device.capability = capability
    with GraphedTrainer(
        nets.autoencoder(), trained.config, trained.state, device, TABLE, precision=precision
    ) as trainer:
        trainer.load(trained.dataset)
        (part,) = trainer.parts()
        names = [call.name for call in trainer.program(part)]
        files = [call.kernel.source.path.name for call in trainer.program(part)]  # type: ignore[attr-defined]
    kind = "BF16" if precision == "bf16" else "HALF"
    assert (f"differentiate_shifted<{kind}, true>" in names) == (count > 0) == ("sum_gradient" not in names)
    assert sum(file in ("shifted.cu", "shifted_gradient.cu") for file in files) == count
    assert files.count("shifted_pack.cu") == (count > 0)


@pytest.mark.parametrize(
    "precision",
    [pytest.param("bf16", marks=pairs), pytest.param("fp32", marks=nightly), pytest.param("fp16", marks=nightly)],
)
def test_a_net_of_them_is_proven(precision: str) -> None:
    """By the precision's bounds; the last batch is a partial one."""
    rung = find("tensor", device="emulated").but(precision=precision)
    verdict = verify(rung.build, NARROW, TrainConfig(batch_size=3, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason


HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
SCALE, UNDO_X, UNDO_W, SHIFT = (
    "min(268u - (largest >> 23), 253u)",
    "fmaf(part[i], back, sum[i])",
    "sum[4 * j + 2 * i] * inverse_scale, sum",
    "row + taps.far(i, lower)",
)
UNDO_DX, UNDO_DW, MET = (
    "sum[4 * j + 2 * i] * back * inverse_scale",
    "fmaf(sum[i] * back, back_x, dw_sum[i])",
    "2 * column - 1 + pair % 2 * 2",
)
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[str, str], str]] = {
    "the low halves of the first factor dropped": ("fp32", (HALVES, HALVES.replace("? 0", "? 1")), "normal"),
    "the low halves of the second factor dropped": ("fp32", (HALVES, HALVES.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")), "normal"),
    "the scale of x not removed": ("fp32", (UNDO_X, UNDO_X.replace("back", "DOWN")), "normal"),
    "the scale of weights not removed": ("fp32", (UNDO_W, UNDO_W.replace("inverse_scale", "UP")), "normal"),
    "the scale of dy not removed": ("fp32", (UNDO_DX, UNDO_DX.replace("back", "DOWN")), "normal"),
    "the scale of dy not removed in dw": ("fp16", (UNDO_DW, UNDO_DW.replace("back,", "DOWN,")), "normal"),
    "the scale of x removed twice in dw": ("fp16", (UNDO_DW, UNDO_DW.replace("back_x", "back_x * back_x")), "normal"),
    "no scale": ("fp16", (SCALE, "127u + 0 * largest"), "tiny"),
    "taps of classes exchanged": ("bf16", ("4 * taps.number(i, lower) + taps.number(j, right)", "4 * taps.number(i, right) + "
        "taps.number(j, lower)"), "normal"),
    "a tap a pixel too far": ("bf16", (SHIFT, f"{SHIFT} + 1"), "normal"),
    "a tap beyond the row's end": ("bf16", ("from >= 0 && from < w", "from >= 0 && from <= w"), "normal"),
    "dy met a pixel too far": ("bf16", (MET, MET.replace("- 1 ", "")), "normal"),
    "dy beyond the image": ("bf16", ("of_row < 2 * h", "of_row <= 2 * h"), "normal"),
    "dw of a block's last image alone": ("bf16", ("gradient + piece * PIECE, LOW, true)", "gradient + piece * PIECE, "
        "LOW, piece > 0)"), "normal"),
    "dy of a warp not added up": ("bf16", ("(sums[threadIdx.x][0] + ", "("), "positive"),
    "bf16 cut off, not rounded": (
        "bf16", ("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), "
            "__float_as_uint(high), 0x7632)\nenum { SPLIT"), "positive",
    ),
}  # fmt: skip
#: Those that are refused in scripts/test, and those at night, which repeat others for the other factor or at the other
#: edge; .ci/run has the rest.
BY_DAY = (
    "the scale of x not removed",
    "taps of classes exchanged",
    "dy met a pixel too far",
    "dw of a block's last image alone",
)

AT_NIGHT = (
    "the low halves of the second factor dropped", "the scale of dy not removed in dw", "the scale of x "
        "removed twice in dw", "a tap beyond the row's end",
)  # fmt: skip


def turn(liar: str) -> list[pytest.MarkDecorator]:
    return [] if liar in BY_DAY else [nightly] if liar in AT_NIGHT else [slow]


def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    """With numbers as they are mostly planted with; `test_numbers_of_every_size` has the others, of the same shapes."""
    for precision in PRECISIONS:
        for shape in (ODD, FULL):
            prove(EditedShifts(device), asked(shape, precision))  # type: ignore[arg-type]


@pytest.mark.parametrize("liar", [pytest.param(liar, marks=turn(liar)) for liar in LIARS])
@pytest.mark.by_day("the scale of x not removed", "dy met a pixel too far")
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edit, kind = LIARS[liar]
    edited = EditedShifts(device, edit)
    for shape in (ODD, FULL):
        with pytest.raises((WarpladderError, AssertionError), match=r"is wrong at|never written"):
            prove(edited, asked(shape, precision, kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("precision", "before", "after", "what"),
    [
        ("bf16", "from[4] * by, from[5] * by", "from[5] * by, from[4] * by", "dx packed"),
        ("bf16", " + sum[m / 2 * 4 + 2 + m % 2]", "", "sums of dx"),
        pytest.param("fp32", "+ chunk] = power_of_two(254u", "+ chunk] = power_of_two(253u", "dx packed", marks=slow),
        pytest.param("bf16", "row % 8 / 2 * 8 + row / 8 % 4 * 2", "row % 8 / 2 * 2 + row / 8 % 4 * 8", "dx packed", marks=slow),
    ],
)  # fmt: skip
def test_liars_about_dx_packed_are_refused(
    device: EmulatedDevice, precision: str, before: str, after: str, what: str
) -> None:
    with pytest.raises(AssertionError, match=f"{what} (is|are) wrong"):
        prove_packed(EditedShifts(device, (before, after)), asked(FULL, precision), classes=4)  # type: ignore[arg-type]


def test_dx_without_what_lies_below_is_refused(device: EmulatedDevice) -> None:
    of = asked(ODD, "bf16")
    numbers = drawn(of)
    edited = EditedShifts(device, ("masks_dx ? 0 : 15", "15"))
    found, honest = (Bound(on, of, numbers, below=True).send()["dx"] for on in (edited, device))  # type: ignore[arg-type]
    assert honest[numbers[0] <= 0].any() == 0 and found[numbers[0] <= 0].any()
