"""Every kernel of the package in the emulator: in three orders of threads, under the checker, and under AddressSanitizer.

The cases follow the tables of `warpladder.ops` (kernel_cases.py); a new entry is covered as soon as it stands in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kernel_cases
import warpladder
from kernel_cases import KernelCase, emulated, every_case
from warpladder.device import Device, source
from warpladder.device.signature import names
from warpladder.emulator import asan, why_not
from warpladder.gemm import LEVELS
from warpladder.nets import Conv2d, Linear
from warpladder.ops import naive
from warpladder.ops.linear.cuda import NaiveLinear

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CASES = every_case()
PACKAGE = Path(warpladder.__file__).parent


@pytest.fixture(scope="module", params=["fast forward", "fast reverse", "fast random", "check forward"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    with emulated(*request.param.split()) as device:
        yield device


@pytest.fixture(scope="module")
def launched() -> dict[str, set[str]]:
    """The kernels that each case launches."""
    return {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernels(device: Device, case: KernelCase, launched: dict[str, set[str]]) -> None:
    launched[case.name] = case.run(device)


@pytest.fixture(scope="module")
def kernels(launched: dict[str, set[str]]) -> dict[str, set[str]]:
    """The kernels of every case, also where these tests are run alone."""
    with emulated("fast") as device:
        return {case.name: launched.get(case.name) or case.run(device) for case in CASES}


def test_every_kernel_of_the_package_is_launched_by_some_case(kernels: dict[str, set[str]]) -> None:
    there = {name for file in (PACKAGE / "ops").rglob("*.cu") for name in names(source.read(file))}
    assert there - set().union(*kernels.values()) == set()
    assert {level.path for level in LEVELS} >= set((PACKAGE / "gemm").rglob("*.cu"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": {(Conv2d, Linear): NaiveLinear}}, "no case covers NaiveLinear Conv2d\\+Linear"),
        ({"losses": {Linear: NaiveLinear}}, "Linear"),
    ],
)
def test_an_entry_without_cases_fails(change: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cases, "tables", lambda: {"new": replace(naive.TABLE, **change)})
    with pytest.raises((AssertionError, KeyError), match=said):
        every_case()


def test_kernels_under_the_address_sanitizer(kernels: dict[str, set[str]]) -> None:
    """As many cases as it takes to launch each kernel; compiled for this mode they are slow."""
    left, chosen = set().union(*kernels.values()), []
    while left:
        name = max(kernels, key=lambda name: (len(kernels[name] & left), " 1 of 1" not in name))
        chosen.append(name)
        left -= kernels[name]
    done = asan.run([kernel_cases.__file__, "asan", *chosen])
    assert (done.returncode, done.stdout) == (0, f"{len(chosen)} cases, 0 failed\n"), done.stdout + done.stderr[:4000]
