"""Products of packed factors on tensor cores: right in every tile, layout and precision, at any size of the numbers;
what is a little wrong is found.
"""

from __future__ import annotations

import numpy as np
import pytest
from tensor_tools import (
    EVERY_TILE,
    IN_BF16,
    LAYOUTS,
    PRECISIONS,
    Asked,
    Edited,
    multiplied,
    prove,
    prove_with_bytes,
    size_of,
    unaligned,
)

from warpladder.appendix.gemm.proof import KINDS
from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ops.engine.kernels import OnDevice, ceil_div
from warpladder.ops.linear.tensor.packed import FORMATS, Formats, Outlet, PackedFactor, pack
from warpladder.ops.linear.tensor.tiles import TILES, packed_planner

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

MIDDLE, FLAT, NARROW = TILES[2], TILES[5], TILES[4]
layouts = pytest.mark.parametrize("layout", LAYOUTS)
precisions = pytest.mark.parametrize("precision", PRECISIONS)


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def by_day(asked: Asked) -> bool:
    """Each tile, layout and precision stands in some of these."""
    return asked.layout == "dw" if asked.precision == "fp32" else asked.tile is MIDDLE


@pytest.mark.parametrize(
    "asked", [pytest.param(asked, marks=[] if by_day(asked) else [pytest.mark.slow]) for asked in EVERY_TILE],
    ids=lambda asked: f"{asked.precision}-{asked.layout}-{asked.tile.bm}x{asked.tile.bn}-{asked.tile.threads}-{asked.parts}",
)  # fmt: skip
@pytest.mark.by_day("fp32-dw", "tf32-y", "bf16-")
def test_every_tile_multiplies(device: EmulatedDevice, asked: Asked) -> None:
    assert asked.tile is not None
    prove(device, asked, *size_of(asked.tile))


@precisions
def test_sums_of_every_length(device: EmulatedDevice, precision: str) -> None:
    for number, k in enumerate((1, 2, 7, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 400)):
        prove(device, Asked(tuple(LAYOUTS)[number % 3], precision, MIDDLE), 19, 11, k, "positive")
    prove(device, Asked("y", precision, MIDDLE), 5, 9, 4096, "positive")


@precisions
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, precision: str, kind: str) -> None:
    """Factors of 2^100 and of 2^-100, and rows and columns of which one is 2^60 times another; rows that begin nowhere
    in particular.
    """
    for number, size in enumerate(((70, 67, 45), (1, 1, 1), (7, 10, 33), (64, 64, 64))):
        asked = Asked(tuple(LAYOUTS)[number % 3], precision, MIDDLE)
        prove(device, asked, *size, kind)
        prove(device, unaligned(asked), *size, kind)


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [(1e-30, 1.0), (1e20, 1.0), (1e-30, 1e20), (1e-20, 1e-17), (2e36, 1e-30), (2e36, 1.0), (1e-30, 3e38), (1e-3, 3e38), (1e-36, 1e-1), (1.0, 1e-37)],
)  # fmt: skip
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_fp32s_whole_range(device: EmulatedDevice, of_a: float, of_b: float, precision: str) -> None:
    """Each number within a few roundings of |A| |B|, or of the smallest that a float is made of: fp16 needs no scale of
    the loss.
    """
    rng = np.random.default_rng(1)
    a, b = (
        (rng.uniform(-1, 1, size) * scale).astype(np.float32) for size, scale in (((21, 70), of_a), ((70, 18), of_b))
    )
    found = multiplied(device, Asked("dx", precision), a, b).astype(float)
    off = abs(found - a.astype(float) @ b.astype(float))
    unit = (
        2.0**-21 if precision == "fp32" else 2.0**-9.9
    )  # of a product of two halves: each is off by half of its last bit, 2^-11
    limit = unit * (abs(a).astype(float) @ abs(b).astype(float)) + 2.0**-149 * (1 + abs(b).astype(float).sum(axis=0))
    assert np.isfinite(found).all() and (off <= limit).all()


def test_a_line_of_zeros_stays_zero_and_what_is_not_finite_is_seen(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(2)
    for precision, layout in zip(PRECISIONS, ("y", "dx", "dw", "dw"), strict=True):
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


def test_bias_and_relu_ride_along_and_nan_goes_on(device: EmulatedDevice) -> None:
    rng = np.random.default_rng(3)
    a, b, bias = (rng.normal(size=size).astype(np.float32) for size in ((20, 300), (300, 21), (21,)))
    a[4, 4] = np.nan
    for parts in (1, 3):
        found = multiplied(device, Asked("y", "fp32", NARROW, parts), a, b, bias, fused_relu=True)
        wanted = np.maximum(a.astype(float) @ b + bias, 0)
        assert np.isnan(found[4]).all()
        np.testing.assert_allclose(np.delete(found, 4, 0), np.delete(wanted, 4, 0), atol=1e-4)


#: y of bytes and dw of them: how the other factor is stored follows.
WITH_BYTES = [Asked("y", "fp32", MIDDLE, 2, exact="a"), Asked("dw", "fp32", FLAT, exact="b")]
with_bytes = pytest.mark.parametrize("asked", WITH_BYTES, ids=["y", "dw"])


@with_bytes
def test_bytes_are_exact_and_take_two_products(device: EmulatedDevice, asked: Asked) -> None:
    assert asked.formats().products == 2
    for k in (1, 31, 33, 97, 784):
        prove_with_bytes(device, asked, 67, 35, k)
    for kind in KINDS:
        prove_with_bytes(device, asked, 9, 33, 70, kind)


@pytest.mark.parametrize(
    "edit",
    [("FORMAT == SPLIT ? 0 : 2;", "2;"), ("product == 1 && B == EXACT", "product == 0 && B == EXACT")],
    ids=["high", "wrong"],
)
def test_without_the_low_half_beside_bytes_a_product_is_refused(device: EmulatedDevice, edit: tuple[str, str]) -> None:
    with pytest.raises(WarpladderError, match="wrong at"):
        prove_with_bytes(Edited(device, edit), WITH_BYTES[1], 67, 35, 97)  # type: ignore[arg-type]


@with_bytes
def test_bytes_whose_scale_is_left_out_are_refused(device: EmulatedDevice, asked: Asked) -> None:
    edit = (
        ("* inverse_scale_a, inverse_scale_b,", "* DOWN, inverse_scale_b,")
        if asked.exact == "a"
        else ("* inverse_scale_a, inverse_scale_b,", "* inverse_scale_a, UP,")
    )
    with pytest.raises(WarpladderError, match="wrong at"):
        prove_with_bytes(Edited(device, edit), asked, 67, 35, 97)  # type: ignore[arg-type]


@precisions
def test_fewer_samples_after_more_leave_nothing_behind(device: EmulatedDevice, precision: str) -> None:
    """An epoch's last batch is packed where a full one was: what is summed over samples ends in the midst of a record."""
    kind, owner, rng = FORMATS[precision], OnDevice(device, 256), np.random.default_rng(7)
    full, few = rng.normal(size=(150, 40)).astype(np.float32), rng.normal(size=(70, 40)).astype(np.float32)
    both, fresh = ((PackedFactor(owner, 150, 40, kind), PackedFactor(owner, 40, 150, kind)) for _ in range(2))
    for x, (along, across) in ((full, both), (few, both), (few, fresh)):
        pack(owner, kind, device.array(x), len(x), 40, Outlet(along, across)).send()
    records = ceil_div(70, kind.terms)
    np.testing.assert_array_equal(both[1].numbers.download()[:records], fresh[1].numbers.download()[:records])
    np.testing.assert_array_equal(both[0].numbers.download()[:, :70], fresh[0].numbers.download()[:, :70])


def test_the_gradient_of_relu_and_the_bias_are_those_of_float32(device: EmulatedDevice) -> None:
    """A number counts where y is above 0, and nowhere else; the sums over 32 rows are of what counts."""
    kind, owner, rng = FORMATS["fp32"], OnDevice(device, 256), np.random.default_rng(8)
    for rows, columns in ((70, 37), (1, 4), (33, 64)):
        dy, y = rng.normal(size=(rows, columns)).astype(np.float32), rng.normal(size=(rows, columns)).astype(np.float32)
        y[0, 0], masked = 0, np.where(y > 0, dy, 0)
        masked[0, 0] = 0
        sums = device.array(np.full((ceil_div(rows, 32), columns), np.nan, np.float32))
        found, wanted = PackedFactor(owner, rows, columns, kind), PackedFactor(owner, rows, columns, kind)
        pack(owner, kind, device.array(dy), rows, columns, Outlet(found, None, sums), device.array(y)).send()
        pack(owner, kind, device.array(masked), rows, columns, Outlet(wanted)).send()
        np.testing.assert_array_equal(found.numbers.download(), wanted.numbers.download())
        truth = np.stack([masked[first : first + 32].astype(float).sum(0) for first in range(0, rows, 32)])
        np.testing.assert_allclose(sums.download(), truth, rtol=0, atol=32 * 2.0**-24 * 4)


@precisions
@pytest.mark.by_day("fp32", "bf16")
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice, precision: str) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(70, 200)).astype(np.float32), rng.normal(size=(200, 66)).astype(np.float32)
    on = (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
    for asked in (Asked("dw", precision), Asked("y", precision, MIDDLE, parts=3)):
        assert len({multiplied(each, asked, a, b).tobytes() for each in on}) == 1


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param("fp32", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("tf32", "fp16")),
    ],
)
def test_the_checker_finds_nothing(precision: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(70, 150)).astype(np.float32), rng.normal(size=(150, 67)).astype(np.float32)
    checked = EmulatedDevice("check", collect=True)
    for asked in (Asked("y", precision, MIDDLE), Asked("dw", precision, FLAT, parts=2)):
        multiplied(checked, asked, a, b)
        multiplied(checked, unaligned(asked), a, b)
    assert checked.reports == []


@pytest.mark.parametrize("processors", [1, 16, 132])
def test_the_model_cuts_every_product_into_whole_records(processors: int) -> None:
    limits = Limits("some GPU", multiprocessors=processors)
    for kind in FORMATS.values():
        for m, n, k in (
            (512, 1024, 784),
            (10, 1024, 512),
            (512, 10, 1024),
            (1, 1, 1),
            (59_000, 10, 784),
            (10, 784, 59_000),
        ):
            planned = packed_planner(lambda _, shape=(m, n, k): shape, limits, 1, Formats.alike(kind))  # type: ignore[misc]
            for plan in planned.options(1):
                assert plan.parts == ceil_div(ceil_div(k, kind.terms), plan.depth)
                tiles = ceil_div(m, plan.tile.bm) * ceil_div(n, plan.tile.bn)
                assert plan.parts == 1 or (
                    tiles <= planned.counters and tiles * plan.parts * plan.tile.bm * plan.tile.bn <= planned.partials
                )
            assert any(plan.parts == 1 for plan in planned.options(1))
    large = packed_planner(
        lambda n: (n, 1024, 1024), Limits("a large GPU", multiprocessors=132), 512, Formats.alike(FORMATS["fp32"])
    )
    blocks = {
        n: ceil_div(n, (plan := large(n)).tile.bm) * ceil_div(1024, plan.tile.bn) * plan.parts for n in (16, 64, 512)
    }
    assert min(blocks.values()) >= 64, "blocks for half of the multiprocessors at least, also where samples are few"


#: What undoes the scale of a line of A; and each number of a pair scaled once more where it is packed, along rows and
#: across them.
OF_A = "of_a[16 * i + l / 2 * 8]"
TWICE = tuple(
    (f"{x} * by, {y} * by", f"{x} * by * by, {y} * by * by")
    for x, y in (("v[i][0]", "v[i][1]"), ("v[0][q]", "v[1][q]"))
)
#: What is planted, in which precision, by which edits, and with which factors and how many terms it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str, int]] = {
    "the low half of A dropped": ("fp32", (("FORMAT == SPLIT ? 0 : 2;", "FORMAT == SPLIT ? 1 : 2;"),), "normal", 92),
    "the low half of B dropped": ("fp32", (("++product)", "product += FORMAT == SPLIT ? 2 : 1)"),), "normal", 92),
    "the scale of B not removed": ("fp32", (("* inverse_scale_a, inverse_scale_b,", "* inverse_scale_a, UP,"),), "normal", 92),
    "the scale of B not removed, of one half": ("fp16", (("* inverse_scale_a, inverse_scale_b,", "* inverse_scale_a, UP,"),), "normal", 92),
    "a neighbour's scale removed": ("fp32", (("of_a[16 * i + l / 2 * 8]", "of_a[16 * i]"),), "far apart", 92),
    "the scale of the first step removed": ("fp32", (("a_inverse_scale + (record * SCALES + s)", "a_inverse_scale + (from * "
        "SCALES + s)"),), "far apart", 92),
    "no scale, huge": ("fp16", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "huge", 92),
    "no scale, tiny": ("fp32", (("min(268u - (largest >> 23), 253u)", "127u + 0 * largest"),), "tiny", 92),
    "low halves that underflow": ("fp32", (("min(268u -", "min(244u -"),), "normal", 92),
    "the largest of half a line": (
        "fp32", (("shared_exponent<1, 8>", "shared_exponent<1, 4>"), ("shared_exponent<8, 32>", "shared_exponent<8, 16>")), "far apart", 92,
    ),
    "sums in bf16, of halves": ("fp32", (("inverse_scale_b, sum[i][j][l]);", "inverse_scale_b, sum[i][j][l]); "
        f"{IN_BF16}"),), "normal", 92),
    "sums in bf16, of bf16": ("bf16", (("sum[i][j][l] += part[i][j][l];", f"sum[i][j][l] += part[i][j][l]; {IN_BF16}"),), "normal", 92),
    "sums in bf16, of tf32": ("tf32", (("sum[i][j][l] += part[i][j][l];", f"sum[i][j][l] += part[i][j][l]; {IN_BF16}"),), "normal", 92),
    "sums in bf16, of one half": ("fp16", (("inverse_scale_b, sum[i][j][l]);", "inverse_scale_b, sum[i][j][l]); "
        f"{IN_BF16}"),), "normal", 92),
    "the scale of A not removed, of one half": ("fp16", (("* inverse_scale_a, inverse_scale_b,", "* DOWN, inverse_scale_b,"),), "normal", 92),
    "a scale removed twice": ("fp32", ((OF_A, f"{OF_A} * {OF_A}"),), "normal", 92),
    "a scale removed twice, of one half": ("fp16", ((OF_A, f"{OF_A} * {OF_A}"),), "normal", 92),
    "a scale applied twice": ("fp32", TWICE, "normal", 92),
    "a scale applied twice, of one half": ("fp16", TWICE, "normal", 92),
    "factors in bf16 for one half": (
        "fp16", (("high = two_halves(x, y);", "high = two_bf16(x, y), high = two_halves(__uint_as_float(high << 16), "
            "__uint_as_float(high & ~0xffffu));"),),
        "normal", 92,
    ),
    "bf16 cut off, not rounded": (
        "bf16", (("high = two_bf16(x, y);", "high = __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632);"),), "positive", 92,
    ),
    "the second half of a record left out": ("bf16", (("first < P::TERMS; first += 32", "first < 32; first += 32"),), "normal", 92),
    "the last record left out": ("fp32", (("min(records - from, depth)", "min(records - from - 1, depth)"),), "normal", 92),
    "a part left out": ("fp32", (("p < static_cast<int>(gridDim.y); ++p", "p < static_cast<int>(gridDim.y) - 1; ++p"),), "normal", 300),
}  # fmt: skip


def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    for precision, kind, k in {(precision, kind, k) for precision, _, kind, k in LIARS.values()}:
        prove(Edited(device), Asked("dw", precision, MIDDLE, parts=2), 33, 20, k, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("liar", "layout"),
    [
        pytest.param(liar, layout, marks=[] if number % 9 == 4 * at else [pytest.mark.slow])
        for number, liar in enumerate(LIARS)
        for at, layout in enumerate(LAYOUTS)
    ],
)
@pytest.mark.by_day("the low half of A dropped-y", "the last record left out-dx")
def test_liars_are_refused(device: EmulatedDevice, liar: str, layout: str) -> None:
    precision, edits, kind, k = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"wrong at|never written"):
        prove(Edited(device, *edits), Asked(layout, precision, MIDDLE, parts=2), 33, 20, k, kind)  # type: ignore[arg-type]
