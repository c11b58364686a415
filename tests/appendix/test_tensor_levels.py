"""The levels on tensor cores: right at every size and with any factors, and what is a little wrong in them is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edits import edited, occurrences

from warpladder.appendix.gemm import cublas
from warpladder.appendix.gemm.climb import SHAPES, prove_everywhere
from warpladder.appendix.gemm.formats import bf16, held, padded
from warpladder.appendix.gemm.proof import KINDS, multiplied, prove, question
from warpladder.appendix.gemm.tensor import TENSOR_LEVELS
from warpladder.appendix.gemm.tensor_level import OF_WARPS, Stored16, TensorLevel
from warpladder.device import Array, KernelSource, Limits
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.emulator.kernel import EmulatedKernel
from warpladder.errors import WarpladderError
from warpladder.machine.peaks import TENSOR, Peaks
from warpladder.machine.precision import named
from warpladder.proof.tolerance import CUT, bound, rounded

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)

DEVICE = EmulatedDevice()
LEVELS = {level.name: level for level in TENSOR_LEVELS}
levels = pytest.mark.parametrize("level", TENSOR_LEVELS, ids=lambda level: level.name)

LENGTHS = (1, 17, 33, 200)
MORE_LENGTHS = (2, 3, 7, 8, 9, 15, 16, 31, 32, 63, 65, 127, 511, 1024, 4096)


@levels
@pytest.mark.parametrize("k", [*LENGTHS, *(pytest.param(k, marks=pytest.mark.slow) for k in MORE_LENGTHS)])
def test_sums_of_every_length_are_right(level: TensorLevel, k: int) -> None:
    for kind in ("normal", "positive"):
        prove(DEVICE, level, 19, 11, k, kind=kind)


@levels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(131, 76, 92), (129, 257, 33), (128, 256, 128), (2, 1, 5)])
@pytest.mark.by_day("size0-", "size3-")
def test_odd_sizes_and_odd_factors(level: TensorLevel, size: tuple[int, int, int], kind: str) -> None:
    prove(DEVICE, level, *size, kind=kind)


@levels
@pytest.mark.slow
def test_the_checker_finds_nothing_in_them(level: TensorLevel) -> None:
    for order in ("forward", "reverse"):
        device = EmulatedDevice("check", order=order, collect=True)
        multiplied(device, level, question("normal", 70, 45, 130, 0))
        assert device.reports == []


@levels
def test_a_line_of_zeros_stays_zero_and_what_is_not_finite_is_not_hidden(level: TensorLevel) -> None:
    asked = question("normal", 20, 20, 40, 0)
    a, b = asked.a.copy(), asked.b.copy()
    a[3], b[:, 5] = 0, 0
    c = multiplied(DEVICE, level, replace(asked, a=a, b=b))
    assert not c[3].any() and not c[:, 5].any() and np.isfinite(c).all() and c[2].any()
    a[7, 0] = np.inf
    c = multiplied(DEVICE, level, replace(asked, a=a, b=b))
    assert not np.isfinite(np.delete(c[7], 5)).any() and np.isfinite(np.delete(c, 7, 0)).all()


class Edited:
    """The emulator, where a file of a level reads otherwise."""

    def __init__(self, path: Path, *edits: tuple[str, str]) -> None:
        self.path, source = path, sources.read(path)
        for before, after in edits:
            assert occurrences(source.text, before) == 1, f"{path.name} has no longer one line {before!r}"
            source = replace(source, text=edited(source.text, before, after))
        self.source: KernelSource = source

    def __getattr__(self, name: str) -> Any:
        return getattr(DEVICE, name)

    def kernel(self, path: Path, name: str) -> EmulatedKernel:
        return DEVICE.kernel(self.source if path == self.path else path, name)


def in_bf16(sums: str) -> str:
    return f"for (float& s : {sums}) s = __uint_as_float(two_bf16(s, 0.0f) << 16)"


#: What is planted, in which level, by which edits, and at which size and with which factors it must show. The others
#: may show it too.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], tuple[tuple[int, int, int], str]]] = {
    "bf16: sums in bf16, short": (
        "fragments", (("mma_bf16(sum[i][j], of_a[i], of_b[j]);", "{ mma_bf16(sum[i][j], of_a[i], of_b[j]); " + in_bf16("sum[i][j]") + "; }"),),
        ((131, 76, 92), "normal"),
    ),
    "bf16: sums in bf16, long": (
        "ring", (("mma_bf16(sum[i][j], of_a[i], of_b[j]);", "{ mma_bf16(sum[i][j], of_a[i], of_b[j]); " + in_bf16("sum[i][j]") + "; }"),),
        ((33, 20, 4096), "positive"),
    ),
    "bf16: factors cut off, not rounded": (
        "fragments", (("constexpr int TILE", "#define two_bf16(low, high) __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632)\nconstexpr int TILE"),),
        ((131, 76, 92), "positive"),
    ),
    "bf16: the last terms left out": ("ring", (("k + DEPTH - 1", "k"),), ((131, 76, 92), "normal")),
    "tf32: sums in bf16": (
        "ring_tf32", (("mma_tf32(sum[i][j], of_a[i], of_b[j]);", "{ mma_tf32(sum[i][j], of_a[i], of_b[j]); " + in_bf16("sum[i][j]") + "; }"),),
        ((131, 76, 92), "normal"),
    ),
    "tf32: factors in bf16": (
        "ring_tf32", (("to_tf32(__uint_as_float(of_a[i][part]))", "two_bf16(0.0f, __uint_as_float(of_a[i][part]))"),), ((131, 76, 92), "normal"),
    ),
    "tf32: factors cut off, not rounded": ("ring_tf32", (("to_tf32(tile_b", "__float_as_uint(tile_b"),), ((131, 76, 92), "positive")),
    "bf16: warpgroups leave the last terms out": ("specialised", (("k + Stage::DEPTH - 1", "k"),), ((131, 76, 92), "normal")),
    "bf16: columns of a box in the wrong places": ("wgmma", (("128 * first, Stage::BOX)", "128 * first, 0)"),), ((131, 76, 92), "normal")),
    "tf32: always the same terms of B": ("specialised_tf32", (("terms_along(tile_b + 4 * first)", "terms_along(tile_b)"),), ((131, 76, 92), "normal")),
    "split by warpgroups: the low half of A dropped": (
        "split_specialised", (("(product == 0 ? Stage::BYTES : 0)", "0"),), ((131, 76, 92), "normal")
    ),
    "split by warpgroups: sums in the tensor cores alone": (
        "split_specialised",
        (
            ("float sum[TILE / 2] = {}, part[TILE / 2];", "float part[TILE / 2] = {};\n            float (&sum)[TILE / 2] = part;"),
            ("product > 0 || first > 0", "true"),
            ("sum[i] += part[i];", ";"),
        ),
        ((33, 20, 4096), "positive"),
    ),
    "split: the low half of A dropped": ("split", (("int product = 0;", "int product = 1;"),), ((131, 76, 92), "normal")),
    "split: the low half of B dropped": ("split", (("++product", "product += 2"),), ((131, 76, 92), "normal")),
    "split: the scale of B not undone": ("split", (("-(a_exponents[row] + b_exponents[column])", "-a_exponents[row]"),), ((131, 76, 92), "normal")),
    "split: a scale undone once too often": ("split", (("a_exponents[row] + b_", "2 * a_exponents[row] + b_"),), ((131, 76, 92), "normal")),
    "split: the row's neighbour's scale undone": ("split", (("a_exponents[row] +", "a_exponents[max(row - 1, 0)] +"),), ((131, 76, 92), "far apart")),
    "split: no scale, huge": ("split", (("most > 0.0f ? HIGHEST - ilogbf(most) : 0", "0"),), ((131, 76, 92), "huge")),
    "split: no scale, tiny": ("split", (("most > 0.0f ? HIGHEST - ilogbf(most) : 0", "0"),), ((131, 76, 92), "tiny")),
    "split: low halves that underflow": ("split", (("HIGHEST = 14;", "HIGHEST = -10;"),), ((131, 76, 92), "normal")),
    "split: sums in the tensor cores alone": (
        "split", (("float part[4][4][4] = {};", "float (&part)[4][4][4] = sum;"), ("sum[i][j][l] += part[i][j][l];", ";")),
        ((33, 20, 4096), "positive"),
    ),
    "split: sums in bf16": (
        "split", (("sum[i][j][l] += part[i][j][l];", "{ sum[i][j][l] += part[i][j][l]; " + in_bf16("sum[i][j]") + "; }"),), ((131, 76, 92), "normal"),
    ),
}  # fmt: skip


#: One that loses digits of a factor, one that mistakes a scale, and one that loses digits of sums.
BY_DAY = (
    "split: the low half of A dropped",
    "split: the row's neighbour's scale undone",
    "split by warpgroups: sums in the tensor cores alone",
)


@pytest.mark.parametrize(
    "liar", [liar if liar in BY_DAY else pytest.param(liar, marks=pytest.mark.slow) for liar in LIARS]
)
def test_liars_are_refused(liar: str) -> None:
    name, edits, (size, kind) = LIARS[liar]
    device: Any = Edited(LEVELS[name].path, *edits)
    assert (size, kind) in [(shape, each) for shape, kinds in SHAPES for each in kinds], (
        "the command's proof would not see it"
    )
    with pytest.raises(WarpladderError, match=f"level {name} is wrong at"):
        prove(device, LEVELS[name], *size, kind=kind)


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.slow
def test_without_an_edit_the_same_device_finds_nothing(name: str) -> None:
    prove_everywhere(Edited(LEVELS[name].path), LEVELS[name])  # type: ignore[arg-type]


@pytest.mark.slow
def test_sums_that_stay_in_the_tensor_cores_lose_more_the_longer_they_are() -> None:
    _, edits, _ = LIARS["split: sums in the tensor cores alone"]
    device: Any = Edited(LEVELS["split"].path, *edits)

    def error(on: Any, k: int) -> float:
        asked = question("positive", 20, 20, k, 0)
        apart = (multiplied(on, LEVELS["split"], asked) - asked.truth) / asked.truth
        assert on is DEVICE or (apart < 0).all(), "what is cut off points towards zero"
        return float(abs(apart).mean())

    lengths = (256, 1024, 4096)
    kept, promoted = [error(device, k) for k in lengths], [error(DEVICE, k) for k in lengths]
    assert kept[1] > 3 * kept[0] and kept[2] > 3 * kept[1]  # with k
    assert promoted[2] < 2 * promoted[0] and promoted[2] < kept[2] / 50  # without


def test_numbers_in_bf16_and_tf32_are_the_nearest() -> None:
    x = (np.random.default_rng(0).standard_normal(4096) * np.exp2(np.arange(4096) % 60 - 30)).astype(np.float32)
    for name in ("bf16", "tf32"):
        np.testing.assert_array_equal(held(x, named(name)), rounded(x, name))
    ties = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8], np.float32)
    np.testing.assert_array_equal(held(ties, named("bf16")), [1, 1 + 2.0**-6, -1])
    ties = np.array([1 + 2.0**-11, -1 - 2.0**-11], np.float32)
    np.testing.assert_array_equal(held(ties, named("tf32")), [1 + 2.0**-10, -1 - 2.0**-10])
    np.testing.assert_array_equal(held(ties, named("tf32"), even=True), [1, -1])
    np.testing.assert_array_equal(
        held(np.array([1 + 3 * 2.0**-11], np.float32), named("tf32"), even=True), [1 + 2.0**-9]
    )
    assert held(x, named("fp32")) is x
    filled = padded(np.ones((2, 9), np.float32))
    assert filled.shape == (2, 16) and (filled[:, :9] == bf16(np.ones(1, np.float32))).all() and not filled[:, 9:].any()


def test_a_bound_of_sums_that_are_cut_off() -> None:
    assert bound("fp32", 4096, cuts=256) == pytest.approx(bound("fp32", 4096) + 256 * CUT)
    assert bound("fp32", 16, cuts=0) == bound("fp32", 16)
    with pytest.raises(ValueError, match="cuts of at least 0, got -1"):
        bound("fp32", 16, cuts=-1)
    assert not bound("fp32", 1, cuts=1) <= float("nan")


@levels
def test_what_is_predicted_for_hopper(level: TensorLevel) -> None:
    assert 0 < level.predicted <= level.reach
    assert (level.reach == OF_WARPS) == ("wgmma" not in level.path.read_text())


def test_small_tiles_are_bound_by_what_brings_their_numbers() -> None:
    ring = LEVELS["ring"]
    assert replace(ring, warp=(32, 32)).predicted == pytest.approx(0.5)
    assert replace(ring, warp=(16, 32)).predicted == pytest.approx(1 / 3)
    assert replace(ring, tile=(64, 64)).predicted == pytest.approx(0.5)
    assert LEVELS["fragments"].predicted == pytest.approx(0.5), "it copies floats"


class Older:
    """A device of compute capability 7.5."""

    limits = Limits("an old GPU", peaks=Peaks((7, 5), 40, 1.5e9))


@levels
def test_a_gpu_without_these_tensor_cores_says_so(level: TensorLevel) -> None:
    device: Any = Older()
    said = {
        "bf16 needs a GPU of compute capability 8.0 or later, and this one has 7.5",
        "wants a GPU of compute capability 9.0 or later, for tiles by TMA, and this one has 7.5",
        "wants a GPU of compute capability 9.0, for wgmma, and this one has 7.5",
    }
    assert level.lacks(device, 64, 64) in said
    assert level.unit == TENSOR


def test_without_cupy_there_is_no_cublas() -> None:
    assert cublas.seconds(16, named("bf16"), 1, 0.01) is None or DEVICE.hardware is None


def test_what_lies_in_memory_is_what_the_kernel_takes() -> None:
    ring = LEVELS["ring"]
    assert isinstance(ring, Stored16)
    a: Array = DEVICE.array(ring.stored(np.ones((3, 5), np.float32)))
    assert a.dtype == np.uint16 and a.shape == (3, 8)
