"""Products of linear layers on tensor cores: right in every tile, layout and precision, at any size of the numbers; what is a little wrong is found."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_tools import EVERY_TILE, IN_BF16, LAYOUTS, PRECISIONS, Asked, Edited, multiplied, prove, size_of, unaligned
from warpladder.device import Limits
from warpladder.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.gemm.proof import KINDS
from warpladder.ops.kernels import ceil_div
from warpladder.ops.linear.tensor_products import DEPTH, FORMATS, TILES, cuts

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

LARGE, MIDDLE, NARROW, FLAT = TILES
layouts = pytest.mark.parametrize("layout", LAYOUTS)
precisions = pytest.mark.parametrize("precision", PRECISIONS)


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def by_day(asked: Asked) -> bool:
    """Each tile, layout and precision stands in some of these."""
    return asked.tile is MIDDLE or (asked.precision == "fp32" and (asked.layout == "dw" or asked.tile is not LARGE))


@pytest.mark.parametrize(
    "asked", [pytest.param(asked, marks=[] if by_day(asked) else [pytest.mark.slow]) for asked in EVERY_TILE],
    ids=lambda asked: f"{asked.precision}-{asked.layout}-{asked.tile.bm}x{asked.tile.bn}-{asked.parts}",
)  # fmt: skip
def test_every_tile_multiplies(device: EmulatedDevice, asked: Asked) -> None:
    assert asked.tile is not None
    prove(device, asked, *size_of(asked.tile))


@layouts
@precisions
def test_sums_of_every_length(device: EmulatedDevice, layout: str, precision: str) -> None:
    for k in (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 127, 400):
        for kind in ("normal", "positive"):
            prove(device, Asked(layout, precision, MIDDLE), 19, 11, k, kind)
    prove(device, Asked(layout, precision, MIDDLE), 5, 9, 4096, "positive")


@layouts
@precisions
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, layout: str, precision: str, kind: str) -> None:
    """Factors of 2^100 and of 2^-100, and rows and columns of which one is 2^60 times another; rows that begin nowhere in particular."""
    for size in ((70, 67, 45), (1, 1, 1), (7, 10, 33), (64, 64, 64)):
        prove(device, Asked(layout, precision, MIDDLE), *size, kind)
        prove(device, unaligned(Asked(layout, precision, MIDDLE)), *size, kind)


@layouts
@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        (1e-30, 1.0),
        (1e20, 1.0),
        (1e-30, 1e20),
        (1e-20, 1e-17),
        (2e36, 1e-30),
        (2e36, 1.0),
        (1e-30, 3e38),
        (1e-3, 3e38),
        (1e-36, 1e-1),
        (1.0, 1e-37),
    ],
)
def test_fp32s_whole_range(device: EmulatedDevice, layout: str, of_a: float, of_b: float) -> None:
    """Each number within a few roundings of |A| |B|, or of the smallest that a float is made of."""
    rng = np.random.default_rng(1)
    a, b = ((rng.uniform(-1, 1, size) * scale).astype(np.float32) for size, scale in (((21, 70), of_a), ((70, 18), of_b)))
    found = multiplied(device, Asked(layout), a, b).astype(float)
    off = abs(found - a.astype(float) @ b.astype(float))
    limit = 2.0**-21 * (abs(a).astype(float) @ abs(b).astype(float)) + 2.0**-149 * (1 + abs(b).astype(float).sum(axis=0))
    assert np.isfinite(found).all() and (off <= limit).all()


@layouts
def test_a_line_of_zeros_stays_zero_and_what_is_not_finite_is_seen(device: EmulatedDevice, layout: str) -> None:
    rng = np.random.default_rng(2)
    for precision in PRECISIONS:
        a, b = rng.normal(size=(20, 70)).astype(np.float32), rng.normal(size=(70, 21)).astype(np.float32)
        a[3], b[:, 5] = 0, 0
        found = multiplied(device, Asked(layout, precision), a, b)
        assert not found[3].any() and not found[:, 5].any() and np.isfinite(found).all() and found[2].any()
        for wrong in (np.inf, -np.inf, np.nan):
            for place in (0, 40, 69):  # in the first, a middle and the last step
                bad = a.copy()
                bad[7, place] = wrong
                found = multiplied(device, Asked(layout, precision), bad, b)
                assert not np.isfinite(np.delete(found[7], 5)).any() and np.isfinite(np.delete(found, 7, 0)).all()
                bad = b.copy()
                bad[place, 9] = wrong
                found = multiplied(device, Asked(layout, precision), a, bad)
                assert not np.isfinite(np.delete(found[:, 9], 3)).any() and np.isfinite(np.delete(found, 9, 1)).all()


def test_bias_and_relu_ride_along_and_nan_goes_on(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(3)
    a, b, bias = (rng.normal(size=size).astype(np.float32) for size in ((20, 300), (300, 21), (21,)))
    a[4, 4] = np.nan
    for parts in (1, 3):
        found = multiplied(device, Asked("y", "fp32", NARROW, parts), a, b, bias, rectify=True)
        wanted = np.maximum(a.astype(float) @ b + bias, 0)
        assert np.isnan(found[4]).all()
        np.testing.assert_allclose(np.delete(found, 4, 0), np.delete(wanted, 4, 0), atol=1e-4)


@precisions
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice, precision: str) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(70, 100)).astype(np.float32), rng.normal(size=(100, 66)).astype(np.float32)
    for layout in LAYOUTS:
        on = (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
        assert len({multiplied(each, Asked(layout, precision), a, b).tobytes() for each in on}) == 1


@precisions
@layouts
@pytest.mark.slow
def test_the_checker_finds_nothing(precision: str, layout: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(70, 70)).astype(np.float32), rng.normal(size=(70, 67)).astype(np.float32)
    checked = EmulatedDevice("check", collect=True)
    for asked in (Asked(layout, precision, MIDDLE), Asked(layout, precision, FLAT, parts=2)):
        multiplied(checked, asked, a, b)
        multiplied(checked, unaligned(asked), a, b)
    assert checked.reports == []


@pytest.mark.parametrize("processors", [1, 16, 132])
def test_the_model_cuts_every_product_into_whole_steps(processors: int) -> None:
    limits = Limits("some GPU", multiprocessors=processors)
    for kind in FORMATS.values():
        for m, n, k in ((512, 1024, 784), (10, 1024, 512), (512, 10, 1024), (1, 1, 1), (59_000, 10, 784), (10, 784, 59_000)):
            for cut in (found := cuts(m, n, k, kind, limits, True, False))[:5]:
                assert cut.depth % DEPTH == 0 and cut.parts == ceil_div(k, cut.depth)
            assert any(cut.parts == 1 for cut in found)
    best = cuts(512, 10, 1024, FORMATS["fp32"], Limits("a large GPU", multiprocessors=132), True, True)[0]
    assert best.tile is NARROW and best.parts > 1, "few outputs, and blocks enough"


#: What is planted, in which precision, by which edits, and with which factors and how many terms it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str, int]] = {
    "the low half of A dropped": ("fp32", (("FORMAT == SPLIT ? 0 : 2;", "FORMAT == SPLIT ? 1 : 2;"),), "normal", 92),
    "the low half of B dropped": ("fp32", (("++product)", "product += FORMAT == SPLIT ? 2 : 1)"),), "normal", 92),
    "the scale of B not undone": ("fp32", (("* undo_a, undo_b,", "* undo_a, UP,"),), "normal", 92),
    "a neighbour's scale undone": ("fp32", (("16 * band + 4 * (threadIdx.x % 32 / 8) + own]", "16 * band + 4 * (threadIdx.x % 32 / 8)]"),), "far apart", 92),
    "the scale of the step before undone": ("fp32", (("panel_a.undo()[rows", "reinterpret_cast<const float*>(stages + A::To::BYTES - BM * 4)[rows"),), "normal", 92),
    "no scale, huge": ("fp32", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "huge", 92),
    "no scale, tiny": ("fp32", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "tiny", 92),
    "low halves that underflow": ("fp32", (("min(268u -", "min(244u -"),), "normal", 92),
    "the largest of half a line": ("fp32", (("offset < 8;", "offset < 4;"),), "far apart", 92),
    "sums left in the tensor cores": (
        "fp32", (("float part[ACROSS_M][ACROSS_N][4] = {};", "float (&part)[ACROSS_M][ACROSS_N][4] = sum;"),
                 ("sum[i][j][l] = fmaf(part[i][j][l] * undo_a, undo_b, sum[i][j][l]);", "if (step == steps - 1) sum[i][j][l] *= undo_a * undo_b;"),
                 ("min(268u - (largest >> 23), 253u)", "135u + 0 * largest")), "positive", 4096,
    ),
    "sums in bf16, of halves": ("fp32", (("undo_b, sum[i][j][l]);", f"undo_b, sum[i][j][l]); {IN_BF16}"),), "normal", 92),
    "sums in bf16, of tf32": ("tf32", (("sum[i][j][l] += part[i][j][l];", f"sum[i][j][l] += part[i][j][l]; {IN_BF16}"),), "normal", 92),
    "sums in bf16, of bf16": ("bf16", (("sum[i][j][l] += part[i][j][l];", f"sum[i][j][l] += part[i][j][l]; {IN_BF16}"),), "normal", 92),
    "bf16 cut off, not rounded": (
        "bf16", (("enum { SPLIT", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632)\nenum { SPLIT"),),
        "positive", 92,
    ),
    "tf32 cut off, not rounded": ("tf32", (("enum { SPLIT", "#define to_tf32(x) (__float_as_uint(x) & 0xffffe000u)\nenum { SPLIT"),), "positive", 92),
    "the last terms left out": ("fp32", (("(k1 - k0 + DEPTH - 1) / DEPTH", "(k1 - k0) / DEPTH"),), "normal", 92),
}  # fmt: skip


def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    for precision, kind, k in {(precision, kind, k) for precision, _, kind, k in LIARS.values()}:
        prove(Edited(device), Asked("dw", precision, MIDDLE), 33, 20, k, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("liar", "layout"),
    [
        pytest.param(liar, layout, marks=[] if number % 3 == at else [pytest.mark.slow])
        for number, liar in enumerate(LIARS)
        for at, layout in enumerate(LAYOUTS)
    ],
)
def test_liars_are_refused(device: EmulatedDevice, liar: str, layout: str) -> None:
    precision, edits, kind, k = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"wrong at|never written"):
        prove(Edited(device, *edits), Asked(layout, precision, MIDDLE), 33, 20, k, kind)  # type: ignore[arg-type]
