"""Convolutions of few pixels on tensor cores: right in every precision at any size of the numbers, whole nets proven;
what is a little wrong is found.
"""

from __future__ import annotations

import numpy as np
import pytest
from few_pixel_convolutions import PRECISIONS, SHAPES, Bound, EditedFewPixels, computed, named, prove
from narrow_convolutions import prove_relus_and_zeros, spread
from tensor_convolutions import KINDS, drawn

from warpladder.device import Device, Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.nets import ReLU
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv, Image
from warpladder.ops.conv2d.tensor.algorithm import ConvProblem
from warpladder.ops.conv2d.tensor.few_pixels.few_pixels import (
    CLUSTER,
    GROUPS,
    MOST,
    PIXELS,
    FewPixels,
    FewPixelsPass,
    plan,
    shared_bytes,
)
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

slow, nightly = pytest.mark.slow, pytest.mark.nightly


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def with_and_without() -> list[tuple[str, bool]]:
    """Each shape, and whether a pool follows; none does behind an upsampling."""
    return [
        (name, pool) for name, (*_, upsampled) in SHAPES.items() for pool in ((False,) if upsampled else (True, False))
    ]


def marks(name: str, pool: bool, precision: str) -> list[pytest.MarkDecorator]:
    """Who runs this: by day those with a pool or an upsampling and few channels in fp32, and one in bf16; .ci/run the
    others of fp32, and one in fp16.
    """
    if (precision == "fp32" and (pool or SHAPES[name][3]) and name != "many channels") or (name, pool, precision) == (
        "odd",
        True,
        "bf16",
    ):
        return []
    return [slow] if precision == "fp32" or (name, pool, precision) == ("upsampled", False, "fp16") else [nightly]


@pytest.mark.parametrize(
    ("name", "pool", "precision"),
    [
        pytest.param(
            name,
            pool,
            precision,
            id=f"{name}-{'pool' if pool else 'plain'}-{precision}",
            marks=marks(name, pool, precision),
        )
        for name, pool in with_and_without()
        for precision in PRECISIONS
    ],
)
@pytest.mark.by_day("odd-pool-fp32")
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, name: str, pool: bool, precision: str) -> None:
    for kind in KINDS if precision != "bf16" else ("normal", "positive"):
        for offset in (0, 1):
            prove(device, named(name, precision, kind, offset), pool, seed=1)


@pytest.mark.parametrize("processors", [1, 132])
@pytest.mark.by_day("132")
def test_blocks_of_any_width(processors: int) -> None:
    """On one multiprocessor the widest blocks, on many the narrowest that are enough."""
    some = EmulatedDevice()
    some.limits = Limits(some.limits.device, multiprocessors=processors)
    for name, pool in (("one", True), ("upsampled", False), ("last", False)):
        prove(some, named(name, "fp32", "positive"), pool)


def test_relus_and_zeros_and_what_is_not_finite(device: EmulatedDevice) -> None:
    """ReLUs to the bit; zeros of a whole image, output or argmax stay zeros; infinity and NaN are seen where they are
    read, and nowhere else.
    """
    asked = named("odd")
    x, w, dy, given, argmax = prove_relus_and_zeros(device, asked, by=computed)
    for wrong in (np.inf, np.nan):
        bad, beyond = x.copy(), given.copy()
        bad[1, 5, 3, 2], beyond[0, 4, 1, 1], argmax[0, 4, 1, 1] = wrong, wrong, 3
        found = computed(device, asked, (bad, w, dy), True, gradient=(beyond, argmax))
        assert not np.isfinite(np.delete(found.y[1, :, 2:5, 1:4], 2, 0)).any() and np.isfinite(found.y[0]).all()
        assert np.isfinite(found.y[1, :, 5:]).all() and np.isfinite(found.y[1, :, :, 4:]).all()
        assert (
            not np.isfinite(found.dw[4]).any()
            and not np.isfinite(found.db[4])
            and np.isfinite(np.delete(found.db, 4)).all()
        )
        assert (
            not np.isfinite(found.dx[0, :, 2:5, 2:5]).any()
            and np.isfinite(found.dx[1]).all()
            and np.isfinite(found.dx[0, :, 5:]).all()
        )
        pooled = computed(
            device,
            asked,
            (np.where(np.isfinite(bad), bad, np.nan).astype(np.float32), w, dy),
            True,
            gradient=(given, argmax),
        ).pooled
        assert pooled is not None and np.isnan(np.delete(pooled[1, :, 1, :2], 2, 0)).all(), "a pool passes NaN on"


@pytest.mark.parametrize("name", ["odd", pytest.param("upsampled", marks=slow)])
def test_what_a_relu_and_a_pool_pass_back_is_what_is_spread_before(device: EmulatedDevice, name: str) -> None:
    """A pool's gradient by its argmaxes, and a ReLU's that this layer has to make itself, give the bits of the gradient
    that they stand for.
    """
    asked = named(name)
    x, w, dy = drawn(asked)
    if not asked.upsampled:
        given, argmax, spread_out = spread(dy, 3)
        pooled, plain = (
            computed(device, asked, (x, w, dy), True, gradient=(given, argmax)),
            computed(device, asked, (x, w, spread_out)),
        )
        for each in ("dx", "dw"):
            np.testing.assert_array_equal(getattr(pooled, each), getattr(plain, each), err_msg=each)
    own = Bound(device, asked, (x, w, dy), (ReLU(),)).send()
    cut_before = Bound(
        device, asked, (x, w, np.where(own["y"] > 0, dy, 0).astype(np.float32)), (ReLU(),), cut=True
    ).send()
    for each in ("dx", "dw", "db"):
        np.testing.assert_array_equal(own[each], cut_before[each], err_msg=each)


@slow
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice) -> None:
    for name in ("many channels", "upsampled"):
        asked = named(name)
        found = [
            Bound(on, asked, drawn(asked)).send()
            for on in (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
        ]
        for each in found[0]:
            assert len({one[each].tobytes() for one in found}) == 1, (name, each)


@pytest.mark.parametrize(
    ("name", "pool", "precision"),
    [
        pytest.param(
            name,
            pool,
            precision,
            marks=slow if precision == "fp32" and name in ("odd", "upsampled", "many channels") else nightly,
        )
        for name, pool in with_and_without()
        for precision in PRECISIONS
    ],
)
def test_the_checker_finds_nothing(name: str, pool: bool, precision: str) -> None:
    checked = EmulatedDevice("check", collect=True)
    asked = named(name, precision, offset=1)
    x, w, dy = drawn(asked)
    if pool:
        given, argmax, _ = spread(dy, 0)
        computed(checked, asked, (x, w, dy), True, gradient=(given, argmax))
    else:
        Bound(checked, asked, (x, w, dy)).send()
    assert checked.reports == []


def fits(
    small: Image, written: Image, window: tuple[int, int, int], n: int, precision: str, upsample: int, limits: Limits
) -> bool:
    """True if a batch of n images has few pixels."""
    conv = FusedConv(small, written, ConvWindow(*window), upsample)
    return FewPixels.fits(ConvProblem(conv, precision, n, limits))


def test_the_model_cuts_every_layer_that_it_takes() -> None:
    """Its tiles cover all pixels, and its blocks all channels, columns and no more than shared memory; other windows
    and larger batches are for others.
    """
    for processors in (1, 132):
        limits = Limits("some GPU", multiprocessors=processors)
        for small, written in (
            ((256, 16, 16), (128, 16, 16)),
            ((128, 8, 8), (256, 16, 16)),
            ((16, 33, 5), (7, 33, 5)),
            ((48, 1, 40), (3, 2, 80)),
        ):
            fold = written[1] // small[1]
            for precision, kind in HALF_FORMATS.items():
                assert fits(small, written, (3, 1, 1), 1, precision, fold, limits)
                for of in (
                    FewPixelsPass(small, written),
                    FewPixelsPass(written, small, is_backward=True),
                    *([FewPixelsPass(small, written, pool=True)] if fold == 1 else []),
                ):
                    (high, across), (rows, columns), form = of.image, of.tile, plan(of, 2, limits)
                    assert rows * columns <= PIXELS and of.tiles >= -(-high // max(rows, 1)) * -(-across // columns) * (
                        rows > 0
                    )
                    assert not of.pool or rows % 2 == columns % 2 == 0
                    assert (
                        form.cluster <= CLUSTER
                        and form.groups <= GROUPS
                        and shared_bytes(of, form, kind) <= limits.shared_opt_in
                    )
    few = Limits("some GPU", multiprocessors=132)
    assert not fits((256, 16, 16), (128, 16, 16), (3, 1, 1), MOST // 4 + 1, "fp32", 1, few)
    for window in ((5, 1, 2), (3, 2, 1), (3, 1, 0)):
        assert not fits((16, 8, 8), (16, 8, 8), window, 1, "fp32", 1, few)
    assert not fits((16, 8, 8), (16, 24, 24), (3, 1, 1), 1, "fp32", 3, few) and not fits(
        (20, 8, 8), (16, 8, 8), (3, 1, 1), 1, "fp32", 1, few
    )
    assert not fits(
        (16, 8, 8), (16, 8, 8), (3, 1, 1), 1, "fp32", 1, Limits("no clusters", multiprocessors=108, cluster=1)
    )


#: Which products there are: al bh, ah bl and ah bh.
ALL_HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
EXPONENT = "min(268u - (largest >> 23), 253u)"
#: Where sums are added to.
SUM_Y, SUM_W = "fmaf(part[l], back[l / 2], of_chunk[of][l])", "fmaf(part[l] * down[l / 2], up[l % 2], sum[tap][l])"
IN_BF16 = "__uint_as_float(two_bf16({}, 0.0f) << 16)"
#: What is planted, in which precision, with which numbers and in which shape it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str, str]] = {
    "a argmax's place swapped": ("fp32", (("!= row % 2 * 2 + column % 2", "!= row % 2 * 2 + (column + 1) % 2"),), "normal", "odd"),
    "a window beyond those that a pool makes": ("fp32", (("most_column = POOLED ? wide / 2 * 2 : wide", "most_column = wide"),), "normal", "odd"),
    "the low halves of the first factor dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("? 0", "? 1")),), "normal", "odd"),
    "the low halves of the second factor dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")),), "normal", "odd"),
    "the scale of pixels not removed": ("fp32", (("back = power_of_two(254u - exponent) * DOWN", "back = DOWN"),), "normal", "odd"),
    "a neighbour's scale removed": ("fp32", (("row_of, g))", "row_of, g ^ 1))"),), "normal", "odd"),
    "another tap's scale removed": ("fp32", (("inverse_scale[l][4 * offset * Row::STRIDE]", "inverse_scale[l][0 * offset]"),), "normal", "odd"),
    "the scale of weights not removed": ("fp32", (("? *weights.inverse_scale(", "? UP + 0.0f * *weights.inverse_scale("),), "normal", "odd"),
    "another column's scale removed": ("fp32", (("2 * t + l % 2) : 1.0f;\n                sum", "2 * t) : 1.0f;\n            "
        "    sum"),), "normal", "odd"),
    "the scale of what stands still not removed": ("fp32", (("? inverse_scale[first_m + g] :", "? DOWN :"),), "normal", "odd"),
    "the scale of what is seen removed twice": ("fp32", (("part[l] * down[l / 2], up", "part[l] * down[l / 2] * "
        "up[l % 2], up"),), "normal", "odd"),
    "the largest of half a pixel": ("fp32", (("shared_exponent<16, 32>", "shared_exponent<32, 32>"),), "far apart", "one"),
    "the largest of half of an output's weights": ("fp32", (("exponent<1, CHANNELS / 2>", "exponent<1, CHANNELS / 4>"),), "normal", "odd"),
    "the largest of half of a channel's pixels": ("fp32", (("of_lanes<1, EACH>", "of_lanes<1, EACH / 2>"),), "normal", "odd"),
    "the largest of a tile before": ("fp32", (("largest[1 - turn][threadIdx.x] = 0;", ""),), "far apart", "crowded"),
    "no scale, huge": ("fp32", ((EXPONENT, "127u + 0 * largest"),), "huge", "odd"),
    "no scale, tiny": ("fp32", ((EXPONENT, "127u + 0 * largest"),), "tiny", "odd"),
    "no scale, tiny, of one half": ("fp16", ((EXPONENT, "127u + 0 * largest"),), "tiny", "odd"),
    "a window that is not turned on the way back": ("fp32", (("turned = KIND == WINDOW && backwards", "turned = false"),), "normal", "odd"),
    "a tap beside": ("fp32", (("(i + down) * halo.wide() + j + col", "(i + down) * halo.wide() + (j + 1) % SIDE + "
        "col"),), "normal", "odd"),
    "a block of the cluster left out": ("fp32", (("if (block < size) all = all", "if (block < size && block != 1) "
        "all = all"),), "normal", "many channels"),
    "a group of warps left out": ("fp32", (("from_group < groups; ++from_group", "from_group < 1; ++from_group"),), "normal", "many channels"),
    "channels beyond the first round left out": ("fp32", (("chunk0 < chunks; chunk0", "chunk0 < min(chunks, 16); "
        "chunk0"),), "normal", "many channels"),
    "pixels of two classes exchanged": (
        "fp32", (("2 * row + of_class / 2", "2 * row + of_class % 2"), ("2 * col + of_class % 2", "2 * col + of_class / 2")), "normal", "upsampled",
    ),
    "another class's weights": ("fp32", (("(3 - down - 2 * i)", "(2 + down - 2 * i)"),), "normal", "upsampled"),
    "odd columns of dy for even ones": ("fp32", (("column % 2 * (columns + 1)", "(column + 1) % 2 * (columns + 1)"),), "normal", "upsampled"),
    "a folded number of three": ("fp32", (("((of[0] + of[1]) + of[4]) + of[5]", "(of[0] + of[1]) + of[4]"),), "normal", "upsampled"),
    "a number of the folded kernel beside": ("fp32", (("row = 2 - at / 4 + e / 2", "row = 2 - at / 4 - e / 2"),), "normal", "upsampled"),
    "the last tile not in dw": ("fp32", (("number < n * tiles; number += size", "number < n * tiles - 1; number += "
        "size"),), "normal", "odd"),
    "one block's sums for all": ("fp32", (("shared_of(all, block)", "shared_of(all, 0)"),), "normal", "odd"),
    "the first image's bias": ("fp32", (("image < n; ++image", "image < 1; ++image"),), "normal", "odd"),
    "the bias of windows that nobody won": ("fp32", (("!POOLED || pool_argmax[from + i] < 4 ? number", "true ? number"),), "normal", "odd"),
    "sums of y in bf16": ("fp32", ((SUM_Y, IN_BF16.format(SUM_Y)),), "normal", "odd"),
    "sums of dw in bf16": ("fp32", ((SUM_W, IN_BF16.format(SUM_W)),), "normal", "odd"),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), "
            "__float_as_uint(high), 0x7632)\nenum { SPLIT"),), "positive", "odd",
    ),
    "factors of one half in bf16": (
        "fp16", (("high = two_halves(x, y);", f"high = two_halves({IN_BF16.format('x')}, {IN_BF16.format('y')});"),), "normal", "odd",
    ),
}  # fmt: skip
#: Who is refused for every change, and by .ci/run; the others at night.
BY_DAY = (
    "a argmax's place swapped",
    "another tap's scale removed",
    "a block of the cluster left out",
    "another class's weights",
    "one block's sums for all",
)
BY_CI = (
    "the low halves of the first factor dropped", "the scale of weights not removed", "the largest of half a pixel", "no scale, tiny", "a group of warps left out",
    "a window that is not turned on the way back", "odd columns of dy for even ones", "a folded number of three", "sums of dw in bf16",
    "factors of one half in bf16",
)  # fmt: skip


def shown(edited: Device, precision: str, kind: str, name: str) -> None:
    prove(edited, named(name, precision, kind), pool=not SHAPES[name][3])


@pytest.mark.slow
def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    for precision, kind, name in sorted({(precision, kind, name) for precision, _, kind, name in LIARS.values()}):
        shown(EditedFewPixels(device), precision, kind, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if liar in BY_DAY else slow if liar in BY_CI else nightly) for liar in LIARS]
)
@pytest.mark.by_day("a argmax's place swapped")
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edits, kind, name = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong|never written"):
        shown(EditedFewPixels(device, *edits), precision, kind, name)  # type: ignore[arg-type]
