"""Convolutions by warpgroup products (wgmma), on the emulator: right for every shape that they take; what is a little
wrong is found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from clockwork import Clockwork
from strategies import case
from tensor_convolutions import Asked, conv, drawn, folded, problem, truth, truth_of_folded
from warpgroup_convolutions import (
    CODER,
    NET,
    PRECISIONS,
    Bound,
    EditedWarpgroups,
    between,
    prove,
    prove_between,
    prove_first_layer,
)

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.machine.peaks import TENSOR, Peaks
from warpladder.nets import Net
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.conv2d.tensor.warpgroups.images import PackedImages
from warpladder.ops.conv2d.tensor.warpgroups.warpgroups import Warpgroups
from warpladder.ops.engine.kernels import OnDevice
from warpladder.ops.tables.tensor import TABLE
from warpladder.proof import verify
from warpladder.proof.tolerance import bound
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: Outputs, input (channels, rows, columns), images: two squares, the second cut off after 16 bytes; several of an
#: image, ragged; more images than a tile, outputs and channels that fill no tile; more squares of an image than fp16's
#: sums stay in the tensor cores for. Then images that are upsampled by 2 before the window: ragged squares; one image
#: alone, and outputs that fill no tile.
SHAPES = (
    (64, (64, 7, 12), 1), (64, (128, 5, 11), 3), (192, (64, 9, 8), 3), (64, (64, 9, 34), 2),
    (64, (128, 3, 5), 3), (192, (64, 9, 7), 1),
)  # fmt: skip
WINDOW, LONG, ENLARGED = 1, 3, 4
nightly, pairs, slow = pytest.mark.nightly, pytest.mark.pairs, pytest.mark.slow
#: With fp16 at night, where by day another test or the other precisions show the same.
REPEATED = tuple(pytest.param(name, marks=nightly if name == "fp16" else []) for name in PRECISIONS)


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def asked(shape: int, precision: str, kind: str = "normal") -> Asked:
    o, image, n = SHAPES[shape]
    return Asked(conv(o, 3, padding=1), image, n, precision, kind, upsampled=shape >= ENLARGED)


def turn(shape: int, precision: str, processors: int) -> list[pytest.MarkDecorator]:
    """Who runs this: in fp16 by day several squares and images in one part, whose sums stay in the tensor cores; the
    longest sums, of it alone, at night.
    """
    if precision == "fp16":
        return [] if processors == 1 and shape in (WINDOW, ENLARGED) else [nightly]
    return [nightly] if shape == LONG or (shape, processors) in ((ENLARGED, 132), (ENLARGED + 1, 1)) else []


@pytest.mark.parametrize(
    ("processors", "shape", "precision"),
    [
        pytest.param(processors, shape, precision, marks=turn(shape, precision, processors))
        for processors in (1, 132)
        for shape in range(len(SHAPES))
        for precision in PRECISIONS
    ],
)
@pytest.mark.by_day("1-1-fp32", "1-2-bf16")
def test_y_dx_and_dw(shape: int, precision: str, processors: int) -> None:
    """With one multiprocessor a block makes several tiles, all sums of dw in one part; with 132 every square is a part."""
    device = EmulatedDevice()
    device.limits = Limits(device.limits.device, multiprocessors=processors)
    prove(device, asked(shape, precision))


@pytest.mark.parametrize(
    ("net", "precision"),
    [
        pytest.param(net, precision, marks=pairs if (net, precision) == (NET, "bf16") else nightly)
        for net in (NET, CODER)
        for precision in PRECISIONS
    ],
    ids=lambda each: getattr(each, "name", each),
)  # fmt: skip
def test_a_net_of_them_is_proven(net: Net, precision: str) -> None:
    """By the precision's bounds; the last batch is a partial one."""
    rung = find("tensor", device="emulated").but(precision=precision)
    verdict = verify(rung.build, net, TrainConfig(batch_size=3, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("capability", "found"), [((9, 0), True), ((8, 0), False), ((10, 0), False), (None, True)])
def test_who_takes_them(capability: tuple[int, int] | None, found: bool) -> None:
    device = EmulatedDevice()
    device.capability = capability
    image, written, window = (128, 16, 16), (64, 16, 16), (3, 1, 1)

    def fits(*of: Any) -> bool:
        return Warpgroups.supports(problem(device, *of))

    assert [fits(image, written, window, 4, precision) for precision in HALF_FORMATS] == [found] * len(HALF_FORMATS)
    assert fits(image, (64, 32, 32), window, 4, "fp32", 2) == found and not fits(
        image, (64, 48, 48), window, 4, "fp32", 3
    )
    for wrong in (
        ((96, 16, 16), written, window, 4, "fp32"), (image, (3, 16, 16), window, 4, "fp32"), (image, written, (5, 1, 2), 4, "fp32"),
        (image, written, (3, 2, 1), 4, "fp32"), (image, written, window, 4, "fp64"),
    ):  # fmt: skip
        assert not fits(*wrong)
    device.limits = Limits("many", multiprocessors=132)
    assert fits(image, written, window, 33, "fp32") == found and not fits(image, written, window, 32, "fp32"), (
        "half of them busy"
    )


@pytest.mark.parametrize(
    ("capability", "precision", "count", "packing"),
    [
        ((9, 0), "fp32", 9, 8),
        ((9, 0), "tf32", 9, 8),
        ((9, 0), "bf16", 9, 5),
        ((9, 0), "fp16", 9, 8),
        ((8, 0), "fp32", 0, 0),
        ((10, 0), "bf16", 0, 0),
    ],
)
def test_the_autoencoders_layers_3_6_and_9_take_them_on_hopper_alone(
    capability: tuple[int, int], precision: str, count: int, packing: int
) -> None:
    """y, dx and dw of each, in a step of 256 images, by the names that a profile shows; bf16's layers pack the next
    one's images, layer 12 packs 9's gradient.
    """
    trained = case(nets.autoencoder(), TrainConfig(batch_size=256), seed=1, samples=256)
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    device.capability = capability
    with GraphedTrainer(
        nets.autoencoder(), trained.config, trained.state, device, TABLE, precision=precision
    ) as trainer:
        trainer.load(trained.dataset)
        (part,) = trainer.parts()
        files = [call.kernel.source.path.name for call in trainer.program(part)]  # type: ignore[attr-defined]
        peaks = Peaks((9, 0), 132, 1.98e9)
        device.limits = replace(device.limits, peaks=peaks)
        assert trainer.peak() == peaks.of("fp16" if (precision, count > 0) == ("tf32", True) else precision, TENSOR), (
            "tf32's numbers are halves here"
        )
    assert sum(file in ("warpgroups.cu", "warpgroup_weights.cu") for file in files) == count
    assert files.count("warpgroup_pack.cu") == packing
    assert files.count("first.cu") == files.count("first_weights.cu") == 1, "layer 0"


@pytest.mark.parametrize("precision", REPEATED)
@pytest.mark.parametrize("kind", ["positive", "huge", "tiny", "far apart"])
@pytest.mark.by_day("huge-fp32", "tiny-bf16", "far apart-bf16")
def test_numbers_of_every_size(device: EmulatedDevice, kind: str, precision: str) -> None:
    for shape in (
        (WINDOW, ENLARGED) if precision != "bf16" else (WINDOW,)
    ):  # bf16 has no scales that an upsampling could mistake
        prove(device, asked(shape, precision, kind), seed=1)


@pytest.mark.parametrize("kind", ["normal", "far apart"])
def test_tf32_is_multiplied_as_halves(device: EmulatedDevice, kind: str) -> None:
    """By its own bounds, and as exactly as the sums of numbers that were rounded to halves."""
    prove(device, asked(WINDOW, "tf32", kind))


@pytest.mark.parametrize("precision", REPEATED)
@pytest.mark.by_day("bf16")
def test_what_follows_y_and_what_lies_below_dx(device: EmulatedDevice, precision: str) -> None:
    """Bias, ReLU and pool as of the plain sums to the bit, odd rows and columns left out; dx is 0 where below is not
    above 0.
    """
    of = asked(2, precision)
    numbers = drawn(of)
    bias = np.random.default_rng(3).normal(size=len(numbers[1])).astype(np.float32)
    plain = Bound(device, of, numbers).send()
    y = plain["y"] + bias[:, None, None]
    packs = precision == "bf16"
    np.testing.assert_array_equal(Bound(device, of, numbers, "RELU", bias, packs=packs).send()["y"], np.maximum(y, 0))
    layer = Bound(device, of, numbers, "POOL", bias, below=True, packs=packs)
    found = layer.send()
    n, o, h, w = y.shape
    four = (
        y[:, :, : h // 2 * 2, : w // 2 * 2]
        .reshape(n, o, h // 2, 2, w // 2, 2)
        .transpose(0, 1, 2, 4, 3, 5)
        .reshape(n, o, h // 2, w // 2, 4)
    )
    np.testing.assert_array_equal(found["y"], np.maximum(four.max(-1), 0))
    assert layer.argmax is not None
    np.testing.assert_array_equal(layer.argmax.download(), np.where(four.max(-1) > 0, four.argmax(-1), 4))
    np.testing.assert_array_equal(found["dx"], np.where(numbers[0] > 0, plain["dx"], 0))


#: Of a pool's gradient: rows whose numbers are read four at a time, and rows where they are not; and a ReLU's.
BETWEEN = ((0, True), (WINDOW, True), (WINDOW, False))


@pytest.mark.parametrize(("shape", "pools"), BETWEEN)
@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=slow), pytest.param("fp16", marks=nightly)])
def test_what_stands_before_the_gradient_is_packed_with_it(
    device: EmulatedDevice, shape: int, pools: bool, precision: str
) -> None:
    """The bits of a gradient that was spread over the pool's windows, or set to 0 by the ReLU, before."""
    prove_between(device, asked(shape, precision), pools)


def test_an_image_of_more_pixels_than_a_block_holds_has_one_scale_and_one_sum(device: EmulatedDevice) -> None:
    """Of 288 pixels a block of 512 threads holds 256; the largest number is among them. A scale of the others alone is
    refused.
    """
    x = np.random.default_rng(6).normal(size=(1, 64, 9, 32)).astype(np.float32)
    x[0, 5, 2, 3] = 1e30

    def wrong(on: EmulatedDevice) -> np.floating:
        images, sums = (
            PackedImages(OnDevice(on, 256), (64, 9, 32), 1, "fp32"),
            on.array(np.full((1, 64), np.nan, np.float32)),
        )
        images.pack(1, on.array(x), sums=sums).send()
        high, low = (half.download().view(np.float16).astype(float) for half in (images.halves.high, images.halves.low))
        assert images.halves.inverse is not None
        with np.errstate(invalid="ignore"):  # infinity and its rest, of a number that its scale was not made for
            error = (
                np.abs((high + low) * images.halves.inverse.download().astype(float) - x.transpose(0, 2, 3, 1)).max()
                / 1e30
            )
        added = x.astype(float).sum((2, 3))
        return np.maximum(error, np.abs((sums.download() - added) / np.abs(x).astype(float).sum((2, 3))).max())

    assert wrong(device) <= bound("fp32", 288)
    every = "if (turn < rounds - 1) continue;"
    edited = EditedWarpgroups(device, (every, every.replace("continue", "{ largest = 0; continue; }")))
    assert not wrong(edited) <= bound("fp32", 288)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fused_relu", "pool"), [(True, True), pytest.param(True, False, marks=slow)])
def test_a_first_layer_packs_what_a_layer_of_them_reads(device: EmulatedDevice, fused_relu: bool, pool: bool) -> None:
    prove_first_layer(device, fused_relu, pool)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=nightly)])
def test_what_follows_y_and_what_lies_below_dx_of_an_enlarged_layer(device: EmulatedDevice, precision: str) -> None:
    """Bias and ReLU as of the plain sums to the bit; dx is 0 where x, the small image, is not above 0."""
    of = asked(ENLARGED, precision)
    numbers = drawn(of)
    bias = np.random.default_rng(3).normal(size=len(numbers[1])).astype(np.float32)
    plain = Bound(device, of, numbers).send()
    found = Bound(device, of, numbers, "RELU", bias, below=True, packs=precision == "bf16").send()
    np.testing.assert_array_equal(found["y"], np.maximum(plain["y"] + bias[:, None, None], 0))
    np.testing.assert_array_equal(found["dx"], np.where(numbers[0] > 0, plain["dx"], 0))


def test_folded_weights_are_an_enlargement_and_its_window() -> None:
    """The truth that rounded factors are held against is the layer's own, so far as float64 goes."""
    of = asked(ENLARGED, "fp32")
    x, w, dy = (array.astype(float) for array in drawn(of))
    wanted, sizes, found = (
        truth(of, (x, w, dy)),
        truth(of, (abs(x), abs(w), abs(dy))),
        truth_of_folded((x, folded(w), dy)),
    )
    for name, each in found.items():
        error = np.abs(each - wanted[name]).max() / sizes[name].max()
        assert error <= bound("fp64", 16 * dy.size), name


@pytest.mark.parametrize("precision", REPEATED)
@pytest.mark.by_day("bf16")
def test_infinity_and_nan_are_seen_and_stay_in_their_image(device: EmulatedDevice, precision: str) -> None:
    of = asked(WINDOW, precision)
    x, w, dy = drawn(of)
    for wrong in (np.inf, np.nan):
        bad = x.copy()
        bad[2, 32, 3, 2] = wrong
        found = Bound(device, of, (bad, w, dy)).send()
        assert not np.isfinite(found["y"][2, :, 2:5, 1:4]).any() and np.isfinite(found["y"][:2]).all()
        assert not np.isfinite(found["dw"][:, 32, 1, 1]).any() and np.isfinite(found["dx"]).all()


@pytest.mark.parametrize("precision", REPEATED)
@pytest.mark.by_day("bf16")
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice, precision: str) -> None:
    of = asked(0 if precision == "fp32" else ENLARGED, precision)
    found = [
        Bound(on, of, drawn(of)).send()
        for on in (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
    ]
    for name in found[0]:
        assert len({each[name].tobytes() for each in found}) == 1, name


@pytest.mark.parametrize(
    ("precision", "shape"),
    [
        pytest.param("fp32", 0, marks=slow), ("bf16", 0), ("bf16", ENLARGED),
        *(pytest.param(name, shape, marks=nightly) for name, shape in (("fp32", ENLARGED), ("fp16", 0), ("fp16", ENLARGED))),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_the_checker_finds_nothing(precision: str, shape: int) -> None:
    checked, of = EmulatedDevice("check", collect=True), asked(shape, precision)
    of = replace(of, n=1) if of.upsampled else of
    Bound(
        checked, of, drawn(of), packs=precision == "bf16", owner=OnDevice
    ).send()  # scratch memory that nobody has written, so that reading it is seen
    assert checked.reports == []


HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
SUM_Y, SUM_W = (
    "sum[0][i] = fmaf(part[i], back, sum[0][i]);",
    "sum[0][i] = fmaf(parts[i] * back, back_x[i / 32], sum[0][i]);",
)
SCALE, W_UNDO = "min(268u - (largest >> 23), 253u)", "? to.inverse_scale[output] :"
#: What rounds a thread's own sum to half.
IN_HALF = "sum[0][i] = low_half(two_halves(sum[0][i], 0.0f));"
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "the low halves of the first factor dropped": ("fp32", ((HALVES, HALVES.replace("? 0", "? 1")),), "normal"),
    "the low halves of the second factor dropped": ("fp32", ((HALVES, HALVES.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")),), "normal"),
    "the scale of an image not removed": ("fp32", ((SUM_Y, SUM_Y.replace("back", "DOWN")),), "normal"),
    "the scale of weights not removed": ("fp32", ((W_UNDO, "? UP :"),), "normal"),
    "the scale of dy not removed": ("fp32", ((SUM_W, SUM_W.replace("* back,", "* DOWN,")),), "normal"),
    "the scale of x not removed in dw": ("fp32", ((SUM_W, SUM_W.replace("back_x[i / 32]", "UP")),), "normal"),
    "no scale": ("fp32", ((SCALE, "127u + 0 * largest"),), "tiny"),
    **{
        f"{what}, of one half": ("fp16", (edit,), kind)
        for what, edit, kind in (
            ("no scale", (SCALE, "127u + 0 * largest"), "tiny"),
            ("the scale of an image not removed", (SUM_Y, SUM_Y.replace("back", "DOWN")), "normal"),
            ("the scale of an image removed twice", (SUM_Y, SUM_Y.replace("back", "back * back")), "normal"),
            ("the scale of weights removed twice", (W_UNDO, "? to.inverse_scale[output] * "
                "to.inverse_scale[output] :"), "normal"),
            ("the scale of dy not removed", (SUM_W, SUM_W.replace("* back,", "* DOWN,")), "normal"),
            ("the scale of x removed twice in dw", (SUM_W, SUM_W.replace("back_x[i / 32]", "back_x[i / 32] * back_x[i / "
                "32]")), "normal"),
            ("squares of the next image under this one's scale", ("min(min(end, first + STAYING), "
                "squares.after(image))", "min(end, first + STAYING)"), "far apart"),
            *((f"sums of {name} in half", (line, f"{line[:-1]}, {IN_HALF}"), "positive") for name, line in (("y", SUM_Y), ("dw", SUM_W))),
        )
    },
    "an image left out of the bias's sums": (
        "bf16", (("sums[blockIdx.x * 64 + channel] = sum;", "sums[blockIdx.x * 64 + channel] = blockIdx.x > 0 ? sum "
            ": 0.0f;"),), "normal",
    ),
    "a tap too far": ("bf16", (("row[piece] + down", "row[piece] + down + 1"),), "normal"),
    "dw of the tap beside": ("bf16", (("column + taps.far(j[at], 0)", "column + taps.far(j[at], 0) + 1"),), "normal"),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), "
            "__float_as_uint(high), 0x7632)\nenum { SPLIT"),), "positive",
    ),
}  # fmt: skip
#: Those that only an upsampled layer shows.
OF_ENLARGED: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "pixels of y's classes exchanged": (
        "bf16",
        (("along * to.spacing + of_class % 2;", "along * to.spacing + 1 - of_class % 2;"),),
        "normal",
    ),
    "pixels of dy's classes exchanged": ("bf16", (("by_class(row, column,", "by_class(row ^ 1, column,"),), "normal"),
    "weights of another class": (
        "bf16",
        (("tap / taps.side(), of_class / 2", "tap / taps.side(), 1 - of_class / 2"),),
        "normal",
    ),
}


@pytest.mark.slow
def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    """With numbers as they are mostly planted with; `test_numbers_of_every_size` has the others, of the same shapes."""
    for precision in PRECISIONS:
        for shape in (WINDOW, ENLARGED):
            prove(EditedWarpgroups(device), asked(shape, precision))  # type: ignore[arg-type]


def day_or_night(liar: str) -> list[pytest.MarkDecorator]:
    """Each night fp16's faults, which repeat fp32's but for the scale without which it sees nothing; scales that are
    not removed by day for one factor.
    """
    if liar in LIARS and LIARS[liar][0] == "fp16" and not liar.startswith("no scale"):
        return [nightly]
    return (
        [slow]
        if liar.startswith(
            ("the scale of weights", "the scale of dy", "the scale of x", "the low halves of the second")
        )
        else []
    )


@pytest.mark.parametrize("liar", [pytest.param(liar, marks=day_or_night(liar)) for liar in (*LIARS, *OF_ENLARGED)])
@pytest.mark.by_day("no scale, of one half", "an image left out of the bias's sums")
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    """Before a window alone and behind an upsampling, where they lie about both."""
    precision, edits, kind = (LIARS | OF_ENLARGED)[liar]
    edited = EditedWarpgroups(device, *edits)
    for shape in (WINDOW, ENLARGED) if liar in LIARS else (ENLARGED,):
        with pytest.raises((WarpladderError, AssertionError), match=r"is wrong at|never written"):
            prove(edited, asked(shape, precision, kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "edit",
    [
        (
            "column + along >= to.w",
            "column + along >= to.w && output > 0",
        ),  # of one output, so that what is written stays within the array
        pytest.param(("row + down >= to.h", "row + down >= to.h && output > 0"), marks=slow),
        pytest.param(("column + along >= to.w", "column + along + 4 >= to.w"), marks=slow),
    ],
    ids=["beyond the rows' end", "beyond the last row", "too little"],
)
def test_rows_clipped_wrongly_are_refused(device: EmulatedDevice, edit: tuple[str, str]) -> None:
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong at|never written"):
        prove(EditedWarpgroups(device, edit), asked(0, "bf16"))  # type: ignore[arg-type]


def test_y_packed_with_neighbours_exchanged_is_refused(device: EmulatedDevice) -> None:
    edited, of = (
        EditedWarpgroups(device, ("two_bf16(left.x, right.x)", "two_bf16(right.x, left.x)")),
        asked(ENLARGED, "bf16"),
    )
    with pytest.raises(AssertionError, match="y packed is wrong"):
        Bound(edited, of, drawn(of), packs=True).send()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edit", "shape", "pools"),
    [
        (("== upper + e % 2", "== upper + 1 - e % 2"), 0, True),
        pytest.param(("== row % 2 * 2 + column % 2 ?", "== column % 2 * 2 + row % 2 ?"), WINDOW, True, marks=slow),
        pytest.param(("== row % 2 * 2 + column % 2 ?", "!= 4 ?"), WINDOW, True, marks=slow),
        pytest.param(
            ("y[begin + at + i * plane]", "1.0f + 0.0f * y[begin + at + i * plane]"), WINDOW, False, marks=slow
        ),
    ],
    ids=["a row's argmaxes exchanged", "argmaxes exchanged", "every place has won", "the ReLU forgotten"],
)
def test_liars_about_what_stands_before_the_gradient_are_refused(
    device: EmulatedDevice, edit: tuple[str, str], shape: int, pools: bool
) -> None:
    of = asked(shape, "bf16")
    numbers, given = between(of, pools)
    wanted, found = (Bound(on, of, numbers, given=given).send() for on in (device, EditedWarpgroups(device, edit)))  # type: ignore[arg-type]
    assert not np.array_equal(found["dx"], wanted["dx"]) and not np.array_equal(found["dw"], wanted["dw"])
