"""Clocks of a GPU next to repetitions: recorded, and repetitions under another clock set aside."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest
from climbs import example

from warpladder.errors import ResultsError
from warpladder.results import Timing
from warpladder.timing.entry_result import _set_aside
from warpladder.timing.gpu_clock import ClockReading, GpuClock


class FakeLibrary:
    """NVML as far as it is called; the pointers that it gets are ctypes' own."""

    def __init__(self, mhz: int = 1980, reasons: int = 0, failing: str = "") -> None:
        self.mhz, self.reasons, self.failing = mhz, reasons, failing
        self.opened: Any = None

    def nvmlInit_v2(self) -> int:
        return int(self.failing == "init")

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, into: Any) -> int:
        self.opened = index.value
        return int(self.failing == "handle")

    def nvmlDeviceGetHandleByUUID(self, name: bytes, into: Any) -> int:
        self.opened = name
        return 0

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int, into: Any) -> int:
        ctypes.cast(into, ctypes.POINTER(ctypes.c_uint))[0] = self.mhz
        return int(self.failing == "clock")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, into: Any) -> int:
        ctypes.cast(into, ctypes.POINTER(ctypes.c_ulonglong))[0] = self.reasons
        return 0


@pytest.mark.parametrize(
    ("visible", "opened"), [(None, 0), ("3,1", 3), ("GPU-abc,GPU-def", b"GPU-abc"), ("", 0), ("none", 0)]
)
def test_the_clock_is_that_of_the_first_visible_gpu(visible, opened, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    library = FakeLibrary(1410, 0x4 | 0x40 | 0x20)
    assert GpuClock(library).read() == ClockReading(1410.0, ("power limit", "heat"))
    assert library.opened == opened


@pytest.mark.parametrize("failing", ["init", "handle", "clock"])
def test_a_clock_that_cannot_be_read_is_none(failing):
    assert GpuClock(FakeLibrary(failing=failing)).read() is None


def timing(seconds, clocks, slowed=None) -> Timing:
    count = len(seconds)
    return Timing(seconds, (0.0,) * count, None, 10, 100, 10, 100, 1, clocks, slowed or ("",) * count)


@pytest.mark.parametrize(
    ("clocks", "others"),
    [
        ((1980.0, 1980.0, 1200.0, 1965.0, 1980.0), (2,)),
        ((1200.0, 1980.0, 1980.0), (0,)),
        ((1200.0, 1210.0, 1980.0), (2,)),
        ((1980.0,) * 4, ()),
        ((1200.0, 1980.0), ()),
        ((1000.0, 1500.0, 2000.0), ()),
    ],
)
def test_repetitions_under_another_clock_are_set_aside(clocks, others):
    seconds = tuple(3.0 if i in others else 1.0 + 0.001 * i for i in range(len(clocks)))
    found = timing(seconds, clocks)
    assert found.set_aside == others and found.epochs == pytest.approx(seconds)
    assert found.seconds_per_epoch < 1.01 and found.spread < 0.01
    remarks = _set_aside(found)
    assert len(remarks) == bool(others)
    if others:
        assert f"{len(others)} of {len(clocks)} repetitions are set aside" in remarks[0]


def test_a_clock_that_was_lowered_is_a_remark_but_not_for_the_power_limit():
    assert _set_aside(timing((1.0, 1.0), (1980.0, 1980.0), ("power limit", "power limit, heat"))) == [
        "the GPU lowered its clock: heat"
    ]
    assert _set_aside(timing((1.0, 1.0), (1980.0, 1980.0), ("power limit", ""))) == []


def test_clocks_are_stored_and_checked(tmp_path):
    from warpladder.results import load

    results = example()
    known = results.rungs[1]
    timed = replace(known.timing, clocks=(1980.0, 1980.0, 1200.0), slowed=("", "", "heat"))
    results = replace(results, rungs=(replace(known, timing=timed),))
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results
    for wrong in ({"clocks": (1.0,)}, {"clocks": (1980.0, 1980.0, float("nan"))}, {"slowed": ("",)}):
        with pytest.raises(ResultsError):
            replace(known.timing, **wrong)
