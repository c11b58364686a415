"""Products of packed factors by warpgroups of Hopper (wgmma): right in every tile and precision, alone and in a
cluster; what is a little wrong is found.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from tensor_tools import (
    EVERY_WARPGROUP_TILE,
    PRECISIONS,
    Asked,
    Edited,
    multiplied,
    prove,
    prove_with_bytes,
    size_of,
    unaligned,
)

from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import KernelError, WarpladderError
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.ops.engine.segments import Segment
from warpladder.ops.linear.tensor.packed import FORMATS, Formats
from warpladder.ops.linear.tensor.tiles import (
    OF_WARPGROUPS,
    SOURCE,
    TILES,
    WARPGROUPS,
    WarpgroupTile,
    packed_planner,
    tiles_of,
)
from warpladder.proof import verify
from warpladder.trainers.tuning.candidates import TileChoice

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: 64 x 64 numbers by two warpgroups that take records in turn, in clusters of 2 x 2 blocks.
TURNS = OF_WARPGROUPS[4]


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def when(asked: Asked) -> list[pytest.MarkDecorator]:
    """Every tile stands in one of these by day, in bf16; in .ci/run all of two precisions, and the clusters of each."""
    if asked.parts == 3 and asked.precision == "bf16":
        return []
    return [pytest.mark.slow] if asked.precision in ("fp32", "bf16") or asked.tile is TURNS else [pytest.mark.nightly]


@pytest.mark.parametrize(
    "asked", [pytest.param(asked, marks=when(asked)) for asked in EVERY_WARPGROUP_TILE],
    ids=lambda asked: f"{asked.precision}-{asked.layout}-{asked.tile}-{asked.parts}".replace(", ", "x"),
)  # fmt: skip
def test_every_tile_multiplies(device: EmulatedDevice, asked: Asked) -> None:
    assert asked.tile is not None
    prove(device, asked, *size_of(asked.tile))


@pytest.mark.parametrize(
    "precision", [pytest.param(name, marks=[pytest.mark.slow] if name == "tf32" else []) for name in PRECISIONS]
)
@pytest.mark.by_day("fp32", "bf16")
def test_sums_of_every_length_and_size(device: EmulatedDevice, precision: str) -> None:
    """Also rows and columns of which one is 2^60 times another, at no address in particular, and sums that go around
    the ring many times.
    """
    for k in (1, 16, 31, 33, 64, 65, 129, 400):
        prove(device, Asked("dx", precision, TURNS), 19, 11, k, "positive")
    prove(device, Asked("y", precision, TURNS), 5, 9, 4096, "positive")
    for kind in ("huge", "tiny", "far apart"):
        prove(device, unaligned(Asked("dw", precision, TURNS)), 70, 67, 45, kind)


@pytest.mark.parametrize(("layout", "exact"), [("y", "a"), ("dw", "b")])
def test_bytes_lie_in_lines_of_64_bytes(device: EmulatedDevice, layout: str, exact: str) -> None:
    for k in (1, 33, 97):
        prove_with_bytes(device, Asked(layout, "fp32", TURNS, exact=exact), 67, 35, k)


def test_parts_and_shares_are_added_in_order(device: EmulatedDevice) -> None:
    """The same bits in any order of threads and blocks, in a cluster and alone; bias and ReLU ride along, and NaN goes
    on.
    """
    rng = np.random.default_rng(4)
    a, b, bias = (rng.normal(size=size).astype(np.float32) for size in ((70, 200), (200, 130), (130,)))
    a[4, 4] = np.nan
    on = (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
    found = [multiplied(each, Asked("y", "bf16", TURNS, parts=3), a, b, bias, fused_relu=True) for each in on]
    found += [multiplied(device, Asked("y", "bf16", OF_WARPGROUPS[3], parts=3), a, b, bias, fused_relu=True)]
    assert len({each.tobytes() for each in found}) == 1
    assert np.isnan(found[0][4]).all() and (np.delete(found[0], 4, 0) >= 0).all() and np.delete(found[0], 4, 0).any()


@pytest.mark.parametrize(
    "precision",
    [pytest.param(name, marks=[] if name in ("fp32", "bf16") else [pytest.mark.slow]) for name in PRECISIONS],
)
@pytest.mark.parametrize("tile", OF_WARPGROUPS, ids=lambda tile: str(tile).replace(", ", "x"))
@pytest.mark.by_day("128x64x32x64x64x8x2x1x1-bf16")
def test_the_checker_finds_nothing(tile: WarpgroupTile, precision: str) -> None:
    """Sums that go twice around the ring and further: what waits for the wrong time around, or is read too late, shows
    from the second one on.
    """
    k = 2 * tile.stages * FORMATS[precision].terms + 5
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(70, k)).astype(np.float32), rng.normal(size=(k, 67)).astype(np.float32)
    checked = EmulatedDevice("check", collect=True)
    for asked in (Asked("y", precision, tile), Asked("dw", precision, tile, parts=2)):
        multiplied(checked, asked, a, b)
    assert checked.reports == []


def test_warpgroups_that_share_stages_are_refused() -> None:
    """Four in turn on a ring of six: a warpgroup's third record is the second one of a stage whose first one another
    has waited for. It hung on an H200.
    """
    shared = "STAGES % SHARES == 0"
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(64, 13 * 64)).astype(np.float32), rng.normal(size=(13 * 64, 64)).astype(np.float32)
    tile = replace(OF_WARPGROUPS[5], stages=6)
    with pytest.raises(WarpladderError, match="stages of its own"):
        multiplied(EmulatedDevice(), Asked("y", "bf16", tile), a, b)
    with pytest.raises(KernelError, match="does not know that phase 0 has ended"):
        multiplied(
            cast(EmulatedDevice, Edited(EmulatedDevice("check"), (shared, "true"))), Asked("y", "bf16", tile), a, b
        )


#: How the kernel waits for a stage, how it adds in bf16, and where it asks for its part of A's panel.
PHASE = "barrier_wait(&filled[stage], parity);"
ADDS = "sum[0][j][l] += part[4 * j + l]"
OTHER_HALF = (
    ("first_a = across_n * LINES_A", "first_a = (across_n ^ 1) * LINES_A"), ("a_lines - BM) + first_a", "a_lines - BM) + across_n * "
        "LINES_A"),
)  # fmt: skip
#: What is planted, in which precision, by which edits, with which factors and how many terms; whether a day shows it.
LIARS: dict[str, tuple[str, tuple[tuple[str, str], ...], str, int, bool]] = {
    "the low half of A dropped": ("fp32", (("SPLIT ? 0 : 2, begun", "SPLIT ? 1 : 2, begun"),), "normal", 92, True),
    "the low half of B dropped": ("fp32", (("(product == 1 ? 4 : 0)", "0"),), "normal", 92, False),
    "the scale of B not removed": (
        "fp32",
        (("(l % 2 ? inverse_scale_b[j].y : inverse_scale_b[j].x) * UP", "UP"),),
        "normal",
        92,
        False,
    ),
    "a neighbour's scale removed": (
        "fp32",
        (("inverse_scale[line + 8] * DOWN", "inverse_scale[line] * DOWN"),),
        "far apart",
        92,
        False,
    ),
    "the first half's scales removed": (
        "fp16",
        (("stage * INVERSE_SCALE + first / 32 * (BM + BN)", "stage * INVERSE_SCALE"),),
        "far apart",
        92,
        True,
    ),
    "the last record left out": (
        "bf16",
        (("min(records - from, depth)", "min(records - from - 1, depth)"),),
        "normal",
        92,
        False,
    ),
    "a share left out": (
        "bf16",
        (("other < SHARES - 1; ++other", "other < SHARES - 2; ++other"),),
        "normal",
        92,
        False,
    ),
    "sums in bf16": (
        "bf16",
        ((ADDS, f"{ADDS}, sum[0][j][l] = __uint_as_float(two_bf16(sum[0][j][l], 0.0f) << 16)"),),
        "normal",
        200,
        False,
    ),
    "a phase too early": ("bf16", ((PHASE, PHASE.replace("parity", "parity ^ 1")),), "normal", 92, True),
    "always the first phase": ("bf16", ((PHASE, PHASE.replace("parity", "0")),), "normal", 900, False),
    "a panel's half where the other belongs": ("bf16", OTHER_HALF, "normal", 92, False),
    "a panel for this block alone": (
        "bf16",
        (("((1u << CN) - 1) << across_m * CN", "1u << rank"),),
        "normal",
        92,
        True,
    ),
}


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if LIARS[liar][-1] else [pytest.mark.slow]) for liar in LIARS]
)
@pytest.mark.by_day("the first half's scales removed", "a phase too early")
def test_liars_are_refused(device: EmulatedDevice, liar: str) -> None:
    """By a number that is wrong, or because somebody waits for what never comes."""
    precision, edits, kind, k, _ = LIARS[liar]
    with pytest.raises(
        (WarpladderError, AssertionError), match=r"wrong at|never written|waits|wait for|lacks|bytes|has arrived"
    ):
        prove(Edited(device, *edits), Asked("dw", precision, TURNS), 70, 67, k, kind)  # type: ignore[arg-type]


def test_hopper_alone_has_them() -> None:
    on = EmulatedDevice()
    for capability, found in (((9, 0), True), ((8, 0), False), ((10, 0), False), (None, False)):
        on.capability = capability
        assert (tiles_of(on) == TILES) != found and set(TILES) <= set(tiles_of(on))


def test_the_model_keeps_both_kernels_and_whole_clusters() -> None:
    limits = Limits("a large GPU", multiprocessors=132)
    for kind in FORMATS.values():
        for m, n, k in ((512, 1024, 784), (1000, 10, 512), (1, 1, 1), (10, 784, 59_000)):
            shape = (m, n, k)
            planned = packed_planner(lambda _: shape, limits, 1, Formats.alike(kind), (*TILES, *OF_WARPGROUPS))  # noqa: B023
            kinds = {type(plan.tile) for plan in planned.options(1)}
            assert len(kinds) == 2
            for tile in OF_WARPGROUPS:
                blocks, (down, across) = tile.blocks(m, n), tile.cluster
                assert blocks % (down * across) == 0 and blocks * tile.bm * tile.bn >= m * n
    wide = packed_planner(
        lambda n: (n, 1024, 1024), limits, 512, Formats.alike(FORMATS["bf16"]), (*TILES, *OF_WARPGROUPS)
    )
    assert isinstance(wide(512).tile, WarpgroupTile)
    timed = TileChoice(0, cast(Segment, SimpleNamespace(products={"y": wide})), 512, "y").candidates()
    assert {plan.tile.kind for plan in timed} == {tile.kind for tile in (*TILES, *OF_WARPGROUPS)} and len(timed) <= 6, (
        "the clock decides, soon"
    )
    assert {plan.tile.source for plan in timed} == {SOURCE, WARPGROUPS}


#: Three layers of linear ones, of which two products need more than one tile.
NET = Net(
    "layers",
    (1, 9, 9),
    (Flatten(), Linear(out_features=70), ReLU(), Linear(out_features=33), ReLU(), Linear(out_features=20)),
    CrossEntropyLoss(),
)


@pytest.mark.parametrize(
    "precision",
    [pytest.param(name, marks=pytest.mark.pairs if name == "fp32" else pytest.mark.nightly) for name in PRECISIONS],
)
def test_a_net_of_them_is_proven(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the precision's bounds, in fp32 of bytes; every product is one of warpgroups, as the model has it for a large
    GPU.
    """
    asked: set[str] = set()
    honest = EmulatedDevice.kernel

    def seen(device: EmulatedDevice, path: object, name: str) -> object:
        asked.add(getattr(path, "name", str(path)) if name.startswith("multiply<") else "")
        return honest(device, path, name)  # type: ignore[arg-type]

    monkeypatch.setattr(EmulatedDevice, "kernel", seen)
    monkeypatch.setattr(EmulatedDevice, "capability", (9, 0))
    rung = find("tensor", device="emulated", precision=precision)
    verdict = verify(rung.build, NET, TrainConfig(batch_size=7, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason
    assert "warpgroups.cu" in asked
