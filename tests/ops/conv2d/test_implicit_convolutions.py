"""Convolutions as implicit GEMMs: right in every precision at any size of the numbers; a little wrong is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from implicit_convolutions import (
    PRECISIONS,
    SHAPES,
    EditedImplicit,
    passes,
    prove,
    prove_any_order,
    prove_checked,
    prove_not_finite,
)
from tensor_convolutions import KINDS, Asked
from tensor_tools import IN_BF16

from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ops.conv2d.problem import ConvWindow
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.conv2d.tensor.implicit.implicit import ImplicitPass
from warpladder.ops.conv2d.tensor.implicit.plan import ImplicitProblem, ImplicitShape
from warpladder.ops.conv2d.tensor.implicit.plan_weights import ImplicitCorrelate
from warpladder.ops.cost.plans import best

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

slow, nightly = pytest.mark.slow, pytest.mark.nightly


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


@pytest.fixture(autouse=True)
def implicit() -> Iterator[None]:
    with passes(ImplicitPass):
        yield


def marks(name: str, pool: bool, precision: str) -> list[pytest.MarkDecorator]:
    """Who runs this: by day two shapes in fp32 and one in bf16; .ci/run the others in fp32."""
    if (name, pool, precision) in (("strided", False, "fp32"), ("few", True, "fp32"), ("gaps", True, "bf16")):
        return []
    return [slow] if precision == "fp32" else [nightly]


@pytest.mark.parametrize(
    ("name", "pool", "precision"),
    [
        pytest.param(name, pool, precision, marks=marks(name, pool, precision))
        for name in SHAPES
        for pool in (True, False)
        for precision in PRECISIONS
    ],
)
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, name: str, pool: bool, precision: str) -> None:
    """Not with images far apart before a pool: a channel has one scale in a rectangle of several images, and where the
    pool hides the large one, what is left is below its last bits.
    """
    for kind in KINDS if precision != "bf16" else ("normal", "positive"):
        if kind != "far apart" or (precision == "fp32" and not pool):
            for offset in (0, 1):
                prove(device, Asked(*SHAPES[name], precision, kind, offset), pool, seed=1)


@pytest.mark.parametrize("processors", [1, pytest.param(132, marks=slow)])
def test_many_rectangles_of_a_block_are_added_up(processors: int) -> None:
    """On one multiprocessor, where a block of dw has many rectangles, and on many."""
    some = EmulatedDevice()
    some.limits = Limits(some.limits.device, multiprocessors=processors)
    layer, image, _ = SHAPES["strided"]
    prove(some, Asked(layer, image, 9, "fp32", "positive"), pool=True)


def test_stages_of_planes() -> None:
    """Where shared memory holds one plane of many, on the way forth and back."""
    some = EmulatedDevice()
    some.limits = Limits(some.limits.device, shared_opt_in=80 << 10)
    asked = Asked(*SHAPES["wide"], "fp32")
    shape = ImplicitShape((100, 7, 9), (130, 3, 4), ConvWindow(3, 2, 0))
    for each in (shape, shape.reversed):
        assert best(ImplicitProblem(2, each, HALF_FORMATS["fp32"], some.limits)).together < each.planes
    prove(some, asked)


def test_relus_and_zeros_and_what_is_not_finite(device: EmulatedDevice) -> None:
    prove_not_finite(device, Asked(*SHAPES["strided"]))


@slow
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice) -> None:
    prove_any_order(device, Asked(*SHAPES["strided"]))


@pytest.mark.parametrize(
    ("name", "precision"), [pytest.param("gaps", "fp32", marks=slow), pytest.param("few", "bf16", marks=nightly)]
)
def test_the_checker_finds_nothing(name: str, precision: str) -> None:
    prove_checked(Asked(*SHAPES[name], precision, offset=1))


#: Which products there are: al bh, ah bl and ah bh.
ALL_HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
EXPONENT = "min(268u - (largest >> 23), 253u)"
SUM_Y = "to = SCALED<FORMAT> ? fmaf(part[i][e][l], back[i][l / 2], to) : to + part[i][e][l];"
CUT_OFF = "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632)\nenum { SPLIT"
#: What is planted, in which precision, and with which numbers it must show.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str]] = {
    "the low halves of pixels dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("? 0", "? 1")),), "normal"),
    "the low halves of weights dropped": ("fp32", ((ALL_HALVES, ALL_HALVES.replace("++product", "product += FORMAT == SPLIT ? 2 : 1")),), "normal"),
    "sums of y in bf16": ("fp32", ((SUM_Y, f"{SUM_Y} {IN_BF16.replace('sum[i][j][l]', 'to')}"),), "normal"),
    "no scale, huge": ("fp32", ((EXPONENT, "127u + 0 * largest"),), "huge"),
    "bf16 cut off, not rounded": ("bf16", (("enum { SPLIT", CUT_OFF),), "positive"),
    "the scale of pixels not removed": ("fp32", (("? *tile.inverse_scale(own[i][half] + offset)", "? DOWN"),), "normal"),
    "another tap's scale removed": ("fp32", (("inverse_scale(own[i][half] + offset)", "inverse_scale(own[i][half])"),), "normal"),
    "the scale of weights not removed": ("fp32", (("SCALED<FORMAT> ? scales[o0 + i] : 1.0f", "UP"),), "normal"),
    "the scale of dy removed twice": ("fp32", (("* scale, back_y[i][l / 2], to)", "* scale * back_y[i][l / 2], back_y[i][l / 2], to)"),), "normal"),
    "no scale, tiny": ("fp32", ((EXPONENT, "127u + 0 * largest"),), "tiny"),
    "a column of another parity": ("fp32", (("j % Halo::STEP * Halo::PART + j / Halo::STEP", "j"),), "normal"),
    "a class's taps of the next": ("fp32", (("const int i0 = BACK ? first_tap(b0, S, P)", "const int i0 = BACK ? first_tap(b0 + 1, S, P)"),), "normal"),
    "a turn of warps left out": ("fp32", (("turn = 0; turn < TURNS; ++turn) value", "turn = 1; turn < TURNS; ++turn) value"),), "normal"),
    "a bias's sum without one warp": ("fp32", (("each = 0; each < WARPS; ++each", "each = 1; each < WARPS; ++each"),), "normal"),
    "a pool's gradient to every pixel": ("fp32", (("(two & 255u) == place", "(two & 255u) < 4"),), "normal"),
    "the scale of weights not removed, of one half": ("fp16", (("SCALED<FORMAT> ? scales[o0 + i] : 1.0f", "UP"),), "normal"),
}  # fmt: skip
#: Who is refused for every change; .ci/run has half of the others, and the night all.
BY_DAY = ("a column of another parity",)


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if liar in BY_DAY else slow if i % 2 else nightly) for i, liar in enumerate(LIARS)]
)  # fmt: skip
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    precision, edits, kind = LIARS[liar]
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong|never written"):
        prove(EditedImplicit(device, *edits), Asked(*SHAPES["strided"], precision, kind), pool=True)  # type: ignore[arg-type]


def test_without_an_edit_the_same_device_finds_nothing(device: EmulatedDevice) -> None:
    prove(EditedImplicit(device), Asked(*SHAPES["strided"]), pool=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("processors", [1, 132])
def test_the_model_cuts_every_layer(processors: int) -> None:
    """Its blocks cover all pixels and fit shared memory; parts have all rectangles."""
    limits = Limits("some GPU", multiprocessors=processors)
    for kind in HALF_FORMATS.values():
        for read, written, window in (
            ((512, 7, 7), (512, 4, 4), (3, 2, 1)), ((64, 57, 55), (64, 29, 28), (5, 2, 2)), ((1, 5, 5), (1, 5, 5), (1, 1, 0)),
            ((256, 14, 14), (64, 14, 14), (1, 1, 0)), ((6, 14, 14), (16, 10, 10), (5, 1, 0)),
        ):  # fmt: skip
            shape = ImplicitShape(read, written, ConvWindow(*window))
            for n in (1, 64, 1000):
                for each in (shape, shape.reversed):
                    problem = ImplicitProblem(n, each, kind, limits)
                    tile = best(problem)
                    pieces, tiles = problem.blocks(tile)
                    assert pieces * tile.at.pixels >= n * each.made[0] * each.made[1]
                    assert tiles * tile.bn >= each.written[0] and problem.shared(tile) <= limits.shared_opt_in
                correlation = ImplicitCorrelate(n, shape, kind, limits)
                plan = best(correlation)
                assert correlation.shared(plan) <= limits.shared_opt_in and plan.warps <= 12
                assert plan.parts * plan.depth * plan.at.pixels >= n * shape.made[0] * shape.made[1]
