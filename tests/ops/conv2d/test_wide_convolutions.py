"""Implicit GEMMs by warpgroup products: right in every precision at any size of the numbers; a little wrong is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from implicit_convolutions import (
    PRECISIONS,
    WIDE_SHAPES,
    EditedImplicit,
    computed,
    passes,
    prove,
    prove_any_order,
    prove_checked,
    prove_not_finite,
)
from tensor_convolutions import KINDS, Asked, drawn
from warpgroup_convolutions import Unwritten

from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.ops.conv2d.problem import ConvWindow
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.conv2d.tensor.implicit.implicit import ImplicitPass, WidePass, conv_pass
from warpladder.ops.conv2d.tensor.implicit.plan import ImplicitShape
from warpladder.ops.conv2d.tensor.implicit.plan_wide import WideProblem
from warpladder.ops.cost.plans import best

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

slow, nightly = pytest.mark.slow, pytest.mark.nightly


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with passes(WidePass):
        yield


def marks(name: str, pool: bool, precision: str) -> list[pytest.MarkDecorator]:
    """Who runs this: by day one shape in fp32 and one in bf16; .ci/run the others in fp32."""
    if (name, pool, precision) in (("strided", True, "fp32"), ("planes", False, "bf16")):
        return []
    return [slow] if precision == "fp32" else [nightly]


@pytest.mark.parametrize(
    ("name", "pool", "precision"),
    [
        pytest.param(name, pool, precision, marks=marks(name, pool, precision))
        for name in WIDE_SHAPES
        for pool in (True, False)
        for precision in PRECISIONS
        if (name, pool) != ("fives", True)  # y and its pool add planes in another order
    ],
)
def test_numbers_of_every_size_at_any_address(device: EmulatedDevice, name: str, pool: bool, precision: str) -> None:
    for kind in KINDS if precision != "bf16" else ("normal", "positive"):
        if kind != "far apart" or (precision == "fp32" and not pool):
            for offset in (0, 1):
                prove(device, Asked(*WIDE_SHAPES[name], precision, kind, offset), pool, seed=1)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=slow)])
def test_stages_of_planes(precision: str) -> None:
    """Where shared memory holds one plane of many, on the way forth and back."""
    some = EmulatedDevice()
    some.limits = Limits(some.limits.device, shared_opt_in=64 << 10)
    shape = ImplicitShape((100, 6, 7), (48, 6, 7), ConvWindow(3, 1, 1))
    plan = best(WideProblem(5, shape, HALF_FORMATS[precision], some.limits))
    assert plan.together < shape.planes
    prove(some, Asked(*WIDE_SHAPES["planes"], precision))


@slow
def test_relus_and_zeros_and_what_is_not_finite(device: EmulatedDevice) -> None:
    prove_not_finite(device, Asked(*WIDE_SHAPES["strided"]))


@slow
def test_the_same_bits_in_any_order_of_threads(device: EmulatedDevice) -> None:
    prove_any_order(device, Asked(*WIDE_SHAPES["strided"]))


@slow
@pytest.mark.parametrize(("name", "precision"), [("planes", "bf16"), ("strided", "fp32")])
def test_the_checker_finds_nothing(name: str, precision: str) -> None:
    prove_checked(Asked(*WIDE_SHAPES[name], precision, offset=1))


#: Which products there are: al bh, ah bl and ah bh.
ALL_HALVES = "product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)"
#: What is planted, in which precision and layer.
LIARS: dict[str, tuple[str, str, tuple[str, str]]] = {
    "a column of another parity": ("bf16", "strided", (": Halo::at(0, i, j);", ": Halo::at(0, i, 0) + j;")),
    "the low halves of pixels dropped": ("fp32", "strided", (ALL_HALVES, ALL_HALVES.replace("? 0", "? 1"))),
    "the low halves of weights dropped": ("fp32", "strided", (ALL_HALVES, ALL_HALVES.replace("++product", "product += FORMAT == SPLIT ? 2 : 1"))),
    "another tap's scale removed": ("fp32", "strided", ("plane) + offset + m0", "plane) + m0")),
    "the scales of rows exchanged": ("fp32", "strided", ("e / 2 % 2 ? lower : upper", "e / 2 % 2 ? upper : lower")),
    "a class's taps of the next": ("bf16", "strided", ("const int i0 = BACK ? first_tap(b0, S, P)", "const int i0 = BACK ? first_tap(b0 + 1, S, P)")),
    "the first stage again": ("bf16", "planes", ("first = (stage * TOGETHER + plane) * CHANNELS", "first = plane * CHANNELS")),
    "a stage from the half before": ("bf16", "planes", ("descriptor(staged + round % HALVES * PIXELS + m0", "descriptor(staged + m0")),
    "a row's sums of the next": ("bf16", "planes", ("row = number / Halo::PART % Halo::DOWN,", "row = (number / Halo::PART + 1) % Halo::DOWN,")),
    "weights of the next eight channels": ("bf16", "planes", ("b + term * BN,", "b + (term ^ 2) * BN,")),
}  # fmt: skip
#: Who is refused for every change; .ci/run has half of the others, and the night all.
BY_DAY = ("a column of another parity",)


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if liar in BY_DAY else slow if i % 2 else nightly) for i, liar in enumerate(LIARS)]
)  # fmt: skip
def test_liars_are_refused(liar: str) -> None:
    precision, name, edit = LIARS[liar]
    some = EmulatedDevice()
    if name == "planes":  # which come in stages
        some.limits = Limits(some.limits.device, shared_opt_in=64 << 10)
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong|never written"):
        prove(EditedImplicit(some, edit), Asked(*WIDE_SHAPES[name], precision))  # type: ignore[arg-type]


@slow
def test_products_without_a_fence_are_reported() -> None:
    """Pixels that threads have stored are not visible to the tensor cores before a fence."""
    checked = EmulatedDevice("check", collect=True)
    asked = Asked(*WIDE_SHAPES["strided"], "bf16")
    computed(EditedImplicit(checked, ("tiles_written();", "")), asked, drawn(asked))  # type: ignore[arg-type]
    assert {report.kind for report in checked.reports} == {"proxy fence"}


def test_few_channels_are_not_for_warpgroups(device: EmulatedDevice) -> None:
    window, kind = ConvWindow(3, 1, 1), HALF_FORMATS["bf16"]
    for channels, planned in ((3, False), (16, False), (17, True), (64, True)):
        problem = WideProblem(64, ImplicitShape((channels, 9, 9), (64, 9, 9), window), kind, device.limits)
        assert any(problem.plans()) is planned


def test_the_faster_one_by_the_models_is_taken(device: EmulatedDevice) -> None:
    some, kind = EmulatedDevice(), HALF_FORMATS["bf16"]
    some.limits = Limits("H100", multiprocessors=132)
    owner = Unwritten(some, 256)
    fives = ImplicitShape((64, 24, 24), (128, 24, 24), ConvWindow(5, 1, 2))
    assert type(conv_pass(owner, fives, 64, kind)) is WidePass
    assert type(conv_pass(owner, fives.reversed, 64, kind)) is WidePass
    thin = ImplicitShape((20, 9, 9), (24, 9, 9), ConvWindow(3, 1, 1))
    assert type(conv_pass(owner, thin, 8, kind)) is ImplicitPass
