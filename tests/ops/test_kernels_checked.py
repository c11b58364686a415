"""Every kernel of the package in the emulator: in two orders of threads and under the checker; in a random order and
under AddressSanitizer each night.

Most of the time goes into compiling, for the checker above all. scripts/test runs half of a segment's chains of layers,
a third of those with a convolution, and each net, at one of their sizes; .ci/run the others, the reverse order, and
under the checker one of the sizes; scripts/nightly the checker at every size.
The cases follow the tables of `warpladder.ops` (kernel_cases.py); a new entry is covered as soon as it stands in one.
Each mode runs in a process of its own, which a test that asks for it starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kernel_cases
import pytest
from kernel_cases import KernelCase, every_case
from kernel_turns import BY_DAY, CASES, SHOWS_MOST

import warpladder
from warpladder.appendix.gemm.tensor import EVERY_LEVEL
from warpladder.device import source
from warpladder.device.declarations import names
from warpladder.device.emulator import asan, why_not
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MSELoss, ReLU
from warpladder.ops.engine.chain import Gather
from warpladder.ops.engine.segments import KernelTable, Segment
from warpladder.ops.linear.cuda import NaiveLinear
from warpladder.ops.tables import naive

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


PLAIN = "fast forward"
MODES = (PLAIN, "check forward", "fast reverse", "fast random")
PACKAGE = Path(warpladder.__file__).parent

#: By case: which kernels it launched, or what went wrong.
Outcome = dict[str, dict[str, Any]]


def turn(mode: str, case: KernelCase) -> str:
    """Who runs this: "day" is scripts/test, "slow" .ci/run, "nightly" scripts/nightly."""
    shows_most = case.name in SHOWS_MOST
    if mode == "fast random" or (mode == "check forward" and not shows_most):
        return "nightly"
    return "day" if case.name in BY_DAY and mode == PLAIN else "slow"


MARKS = {"day": [], "slow": [pytest.mark.slow], "nightly": [pytest.mark.nightly]}
EVERY = [
    pytest.param(mode, case, id=f"{mode}-{case.name}", marks=MARKS[turn(mode, case)])
    for mode in MODES
    for case in CASES
]


class Runs:
    """The modes, in processes. AddressSanitizer is slow to compile for: it gets as many cases as it takes to launch
    each kernel.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Outcome] = {}
        self.process: subprocess.Popen[str] | None = None

    def __getitem__(self, key: tuple[str, str]) -> Outcome:
        """What a mode found in the cases of one turn."""
        mode, when = key
        if key not in self.found:
            cases = [case.name for case in CASES if turn(mode, case) == when]
            self.found[key] = self._asan() if mode == "asan" else self._run(*mode.split(), *cases)
        return self.found[key]

    def _run(self, mode: str, order: str, *cases: str) -> Outcome:
        command = [sys.executable, kernel_cases.__file__, mode, order, *cases]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=asan.environment() if mode == "asan" else None
        )  # fmt: skip
        out, said = self.process.communicate()
        found = {entry.pop("case"): entry for entry in map(json.loads, out.splitlines())}
        died = f"the process ended with {self.process.returncode} before this case was done\n{said[-5000:]}"
        return {name: found.get(name, {"error": died}) for name in cases}

    def _asan(self) -> Outcome:
        kernels = {
            name: set(outcome.get("kernels", ()))
            for part in ("day", "slow")
            for name, outcome in self[PLAIN, part].items()
        }
        left, chosen = set().union(*kernels.values()), []
        while left:
            name = max(kernels, key=lambda name: (len(kernels[name] & left), " 1 of 1" not in name))
            chosen.append(name)
            left -= kernels[name]
        return self._run("asan", "forward", *chosen)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.close()


@pytest.mark.parametrize(("mode", "case"), EVERY)
def test_kernels(mode: str, case: KernelCase, runs: Runs) -> None:
    found = runs[mode, turn(mode, case)][case.name]
    assert "error" not in found, found["error"]


@pytest.mark.slow
def test_every_kernel_of_the_package_is_launched_by_some_case(runs: Runs) -> None:
    launched = {
        name for part in ("day", "slow") for found in runs[PLAIN, part].values() for name in found.get("kernels", ())
    }
    there = {name for file in (PACKAGE / "ops").rglob("*.cu") for name in names(source.read(file))}
    assert there - launched == set()
    assert {level.path for level in EVERY_LEVEL} >= set((PACKAGE / "appendix" / "gemm").rglob("*.cu"))


@pytest.mark.nightly
def test_kernels_under_the_address_sanitizer(runs: Runs) -> None:
    found = runs["asan", "nightly"]
    assert found
    assert [outcome["error"] for outcome in found.values() if "error" in outcome] == []


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((Conv2d, Linear), "no case covers NaiveLinear Conv2d\\+Linear"),
        ((Flatten,), "Flatten"),
        ((Gather, Conv2d), "no case covers NaiveLinear Gather\\+Conv2d"),
        ((Linear, MSELoss), "no case covers NaiveLinear Linear\\+MSELoss"),
        ((Linear, ReLU, CrossEntropyLoss), "no case covers NaiveLinear Linear\\+ReLU\\+CrossEntropyLoss"),
        ((Gather, Linear, MSELoss), "no case covers NaiveLinear Gather\\+Linear\\+MSELoss"),
    ],
    ids=lambda value: "+".join(kind.__name__ for kind in value) if isinstance(value, tuple) else "",
)
def test_an_entry_without_cases_fails(nodes: tuple[type, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cases, "tables", lambda: {"new": replace(naive.TABLE, segments={nodes: NaiveLinear})})
    with pytest.raises((AssertionError, KeyError), match=said):
        every_case()


def test_a_field_of_a_table_without_cases_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Larger(KernelTable):
        more: type[Segment] = NaiveLinear

    table = Larger(naive.TABLE.segments, naive.TABLE.update, naive.TABLE.accumulate)
    monkeypatch.setattr(kernel_cases, "tables", lambda: {"new": table})
    with pytest.raises(KeyError, match="more"):
        every_case()
