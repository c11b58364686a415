"""Every kernel of the package in the emulator: in two orders of threads and under the checker; in a random order and
under AddressSanitizer each night.

Most of the time goes into compiling, for the checker above all. scripts/test runs at most two of a segment's chains of
layers and each net, at one of their sizes; .ci/run the others in turn, the reverse order, and under the checker one of
the sizes; scripts/nightly the checker at every size.
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
    """Outcomes of the selected cases, by mode. Each mode runs in one process."""

    def __init__(self, selected: dict[str, list[str]]) -> None:
        self.selected = selected
        self.found: dict[str, Outcome] = {}
        self.process: subprocess.Popen[str] | None = None

    def __getitem__(self, mode: str) -> Outcome:
        """Outcomes of the selected cases of a mode."""
        if mode not in self.found:
            self.found[mode] = self._run(*mode.split(), *self.selected[mode])
        return self.found[mode]

    def launched(self) -> dict[str, set[str]]:
        """Kernels that each case launches."""
        found = self._run(*PLAIN.split(), *(case.name for case in CASES if turn(PLAIN, case) != "nightly"))
        return {name: set(outcome.get("kernels", ())) for name, outcome in found.items()}

    def asan(self) -> Outcome:
        """Outcomes of as many cases under AddressSanitizer, which is slow to compile for, as launch each kernel."""
        kernels, chosen = self.launched(), []
        left = set().union(*kernels.values())
        while left:
            name = max(kernels, key=lambda name: (len(kernels[name] & left), " 1 of 1" not in name))
            chosen.append(name)
            left -= kernels[name]
        return self._run("asan", "forward", *chosen)

    def _run(self, mode: str, order: str, *cases: str) -> Outcome:
        command = [sys.executable, kernel_cases.__file__, mode, order, *cases]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=asan.environment() if mode == "asan" else None
        )  # fmt: skip
        out, said = self.process.communicate()
        found = {entry.pop("case"): entry for entry in map(json.loads, out.splitlines())}
        died = f"the process ended with {self.process.returncode} before this case was done\n{said[-5000:]}"
        return {name: found.get(name, {"error": died}) for name in cases}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    selected: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == test_kernels.__name__:
            mode, case = item.callspec.params["mode"], item.callspec.params["case"]
            assert isinstance(mode, str) and isinstance(case, KernelCase)
            selected.setdefault(mode, []).append(case.name)
    runs = Runs(selected)
    yield runs
    runs.close()


@pytest.mark.parametrize(("mode", "case"), EVERY)
def test_kernels(mode: str, case: KernelCase, runs: Runs) -> None:
    found = runs[mode][case.name]
    assert "error" not in found, found["error"]


@pytest.mark.nightly
def test_every_kernel_of_the_package_is_launched_by_some_case(runs: Runs) -> None:
    launched = set().union(*runs.launched().values())
    there = {name for file in (PACKAGE / "ops").rglob("*.cu") for name in names(source.read(file))}
    assert there - launched == set()
    assert {level.path for level in EVERY_LEVEL} >= set((PACKAGE / "appendix" / "gemm").rglob("*.cu"))


@pytest.mark.nightly
def test_kernels_under_the_address_sanitizer(runs: Runs) -> None:
    found = runs.asan()
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
