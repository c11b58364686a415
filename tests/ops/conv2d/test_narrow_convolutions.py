"""Convolutions of few channels on tensor cores: right in every precision at any size of the numbers; what is a little
wrong is found.
"""

from __future__ import annotations

import numpy as np
import pytest
from narrow_convolutions import (
    PRECISIONS,
    SHAPES,
    EditedNarrow,
    computed,
    prove,
    prove_any_order,
    prove_relus_and_zeros,
    spread,
)
from tensor_convolutions import KINDS, Asked, drawn

from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.conv2d.tensor.narrow.narrow import fits
from warpladder.ops.conv2d.tensor.narrow.plan import NarrowConvolve, NarrowCorrelate, NarrowShape
from warpladder.ops.cost.plans import best

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

slow, nightly = pytest.mark.slow, pytest.mark.nightly


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def marks(name: str, pool: bool, precision: str) -> list[pytest.MarkDecorator]:
    """Who runs this: by day the shapes that cnn's kernels compute with a pool, all in fp32 and one in bf16; .ci/run one
    without, one in fp16, and a wide one.
    """
    if pool and name in ("cnn's", "one", "far") and (precision == "fp32" or (name, precision) == ("cnn's", "bf16")):
        return []
    return (
        [slow]
        if (name, pool, precision) in (("cnn's", False, "fp32"), ("cnn's", True, "fp16"), ("wide", True, "fp32"))
        else [nightly]
    )


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
        for name in SHAPES
        for pool in (True, False)
        for precision in PRECISIONS
    ],
)
@pytest.mark.by_day("one-pool-fp32", "far-pool-fp32")
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, name: str, pool: bool, precision: str) -> None:
    for kind in KINDS if precision != "bf16" else ("normal", "positive"):
        for offset in (0, 1):
            prove(device, Asked(*SHAPES[name], precision, kind, offset), pool, seed=1)


def test_many_tiles_of_a_block_are_added_up() -> None:
    """On one multiprocessor, where a block of dw has all tiles, and on many, where each tile has a block and the last
    rows are fewer.
    """
    for processors in (1, 132):
        some = EmulatedDevice()
        some.limits = Limits(some.limits.device, multiprocessors=processors)
        layer, image, _ = SHAPES["cnn's"]
        prove(some, Asked(layer, image, 7, "fp32", "positive"), pool=True)


def test_relus_and_zeros_and_what_is_not_finite(device: EmulatedDevice) -> None:
    """ReLUs to the bit; zeros of a whole image, output or argmax stay zeros; infinity and NaN are seen where they are
    read, and nowhere else.
    """
    asked = Asked(*SHAPES["cnn's"])
    x, w, dy, given, argmax = prove_relus_and_zeros(device, asked)
    for wrong in (np.inf, np.nan):
        bad, beyond = x.copy(), given.copy()
        bad[2, 5, 3, 2], beyond[0, 4, 1, 1], argmax[0, 4, 1, 1] = wrong, wrong, 3
        found = computed(device, asked, (bad, w, dy), True, gradient=(beyond, argmax))
        assert (
            not np.isfinite(np.delete(found.y[2, :, 1:4, :3], 2, 0)).any()
            and np.isfinite(found.y[:2]).all()
            and np.isfinite(found.y[2, :, 4:]).all()
        )
        assert (
            not np.isfinite(found.dw[4]).any()
            and not np.isfinite(found.db[4])
            and np.isfinite(np.delete(found.db, 4)).all()
        )
        assert (
            not np.isfinite(found.dx[0, :, 3:6, 3:6]).any()
            and np.isfinite(found.dx[1:]).all()
            and np.isfinite(found.dx[0, :, 6:]).all()
        )
        pooled = computed(
            device,
            asked,
            (np.where(np.isfinite(bad), bad, np.nan).astype(np.float32), w, dy),
            True,
            gradient=(given, argmax),
        ).pooled
        assert pooled is not None and np.isnan(np.delete(pooled[2, :, 1, :1], 2, 0)).all(), "a pool passes NaN on"


@slow
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice) -> None:
    prove_any_order(device, Asked(*SHAPES["cnn's"]))


@pytest.mark.parametrize(
    ("name", "pool", "precision"),
    [
        pytest.param(name, pool, precision, marks=slow if (name, pool, precision) == ("one", True, "fp32") else nightly)
        for name in ("one", "wide")
        for pool in (True, False)
        for precision in PRECISIONS
    ],
)
def test_the_checker_finds_nothing(name: str, pool: bool, precision: str) -> None:
    checked = EmulatedDevice("check", collect=True)
    asked = Asked(*SHAPES[name], precision, offset=1)
    x, w, dy = drawn(asked)
    given, argmax, _ = spread(dy, 0)
    computed(checked, asked, (x, w, dy), pool, gradient=(given, argmax) if pool else None)
    assert checked.reports == []


#: Which products there are: al bh, ah bl and ah bh.
ALL_HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
EXPONENT = "min(268u - (largest >> 23), 253u)"
#: Where sums are added to.
SUM_Y, SUM_W = "fmaf(part[i][j][l], back[2 * i + l / 2], sum[i][j][l])", "sum[tap][i][j][l] += parts[i][j][l];"
IN_BF16 = "__uint_as_float(two_bf16({}, 0.0f) << 16)"
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "a argmax's place swapped": ("fp32", (("(pool_argmax[2 * i] == place", "(pool_argmax[2 * i] == (place ^ 1)"),), "normal"),
    "the low halves of pixels dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("? 0", "? 1")),), "normal"),
    "the low halves of weights and of x dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("++product", "product += FORMAT == SPLIT "
        "? 2 : 1")),), "normal"),
    "the scale of pixels not removed": ("fp32", (("? *inverse_scale[e] : 1.0f", "? DOWN : 1.0f"),), "normal"),
    "a neighbour's scale removed": ("fp32", (("row_of[e / 2], g + e % 2 * 8)", "row_of[e / 2], g % 4 + e % "
        "2 * 8)"),), "normal"),
    "another tap's scale removed": ("fp32", (("inverse_scale[e] += 4 * STRIDE * pixels", "inverse_scale[e] += 0 * "
        "pixels"),), "normal"),
    "the scale of weights not removed": ("fp32", (("? scales[output] : 1.0f", "? UP : 1.0f"),), "normal"),
    "the scale of dy not removed": ("fp32", (("back = inverse_scale[CHANNELS + output]", "back = UP"),), "normal"),
    "the scale of x removed twice": (
        "fp32", (("* inverse_scale[channel] * back", "* inverse_scale[channel] * inverse_scale[channel] * back"),), "normal",
    ),
    "the largest of half a line": ("fp32", (("bit = 1; bit < EACH", "bit = 1; bit < EACH / 2"),), "normal"),
    "no scale, huge": ("fp32", ((EXPONENT, "127u + 0 * largest"),), "huge"),
    "no scale, tiny": ("fp32", ((EXPONENT, "127u + 0 * largest"),), "tiny"),
    "a tap beside": ("fp32", (("advance(halo.columns - k)", "advance(halo.columns - k - 1)"),), "normal"),
    "another row of taps in dw": ("fp32", ((" + row * wide + tap0;", " + (K - 1 - row) * wide + tap0;"),), "normal"),
    "a group of warps left out": ("fp32", (("each = 0; each < GROUPS; ++each", "each = 1; each < GROUPS; ++each"),), "normal"),
    "a bias's sum without one warp": ("fp32", (("each = 0; each < WARPS; ++each", "each = 1; each < WARPS; ++each"),), "normal"),
    "the bias added before the scale": ("fp32", (("fmaf(odd ? sent : own, scale_of, bias_of)", "((odd ? sent : own) + "
        "bias_of) * scale_of"),), "normal"),
    "the gradient of a window that a pool cuts off": ("fp32", (("static_cast<unsigned>(across) < "
        "static_cast<unsigned>(wide)", "true"),), "normal"),
    "sums of y in bf16": ("fp32", ((SUM_Y, IN_BF16.format(SUM_Y)),), "normal"),
    "sums of dw in bf16": ("fp32", ((SUM_W, "sum[tap][i][j][l] = "
        f"{IN_BF16.format('sum[tap][i][j][l] + parts[i][j][l]')};"),), "normal"),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), "
            "__float_as_uint(high), 0x7632)\nenum { SPLIT"),), "positive",
    ),
    "no scale, tiny, of one half": ("fp16", ((EXPONENT, "127u + 0 * largest"),), "tiny"),
    "the scale of weights not removed, of one half": ("fp16", (("? scales[output] : 1.0f", "? UP : 1.0f"),), "normal"),
}  # fmt: skip
#: Who is refused for every change, and by .ci/run; the others at night.
BY_DAY = ("a argmax's place swapped", "another tap's scale removed")
BY_CI = (
    "the low halves of pixels dropped", "the scale of dy not removed", "no scale, tiny", "a tap beside", "a group of warps left out", "sums of dw in bf16",
    "the gradient of a window that a pool cuts off",
)  # fmt: skip


def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    for kind in ("normal", "huge", "tiny"):
        prove(EditedNarrow(device), Asked(*SHAPES["cnn's"], "fp32", kind), pool=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if liar in BY_DAY else slow if liar in BY_CI else nightly) for liar in LIARS]
)
@pytest.mark.by_day("another tap's scale removed")
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edits, kind = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong|never written"):
        prove(EditedNarrow(device, *edits), Asked(*SHAPES["cnn's"], precision, kind), pool=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("processors", [1, 132])
def test_the_model_cuts_every_layer_that_it_takes(processors: int) -> None:
    """Its blocks cover all rows, fit shared memory and have no more warps than the kernels allow; what has no room is
    left to the general kernels.
    """
    limits = Limits("some GPU", multiprocessors=processors)
    for precision, kind in HALF_FORMATS.items():
        for shape in (
            NarrowShape((16, 26, 26), (32, 24, 24), 3, 0, True),
            NarrowShape((32, 5, 5), (32, 1, 1), 5, 0),
            NarrowShape((8, 40, 60), (24, 40, 60), 1, 0, True),
        ):
            assert fits(shape, 1, precision, limits) and not fits(shape, 2, precision, limits)
            for n in (1, 64, 1000):
                for direction in (shape, shape.back):
                    rows = best(NarrowConvolve(n, direction, kind, limits))
                    assert (
                        rows in direction.bands
                        and direction.shared(rows, kind) <= limits.shared_opt_in
                        and 4 <= direction.warps(rows) <= 18
                    )
                correlation = NarrowCorrelate(n, shape, kind, limits)
                rows, depth, blocks = best(correlation)
                assert rows in shape.bands and correlation.fits(rows) and blocks <= correlation.most(n)
                assert (blocks - 1) * depth < n * -(-shape.made[0] // rows) <= blocks * depth
        for other in (
            NarrowShape((12, 9, 9), (16, 7, 7), 3, 0), NarrowShape((16, 9, 9), (64, 7, 7), 3, 0), NarrowShape((16, 9, 9), (16, 4, 4), 6, 0),
            NarrowShape((16, 9, 900), (16, 7, 898), 3, 0), NarrowShape((16, 9, 9), (16, 11, 11), 1, 1),
        ):  # fmt: skip
            assert not fits(other, 1, precision, limits)
