"""How the tests are spread over processes: `pytest -n auto` takes one for each processor, and each process takes whole
files.

A file is the unit because its tests share what is dear to make: compiled kernels, drawn cases, references.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hurry
import processors
import pytest
from hypothesis import settings
from turns import function_of, in_turn, runs_by_day

# Drawn cases of tests that say how many by the usual number: half as many in scripts/test, ten times as many at night.
settings.register_profile("day", max_examples=50)
settings.register_profile("night", max_examples=500)
settings.load_profile("day")

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell without job control has begun this in the background: Ctrl-C is tested all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:
    processors.share()  # before a test imports anything that asks how many processors there are


os.environ.setdefault("WARPLADDER_PROOF_SEED", "0")  # the nightly sweeps have other seeds

gc.disable()  # until all tests are collected: nothing that collection makes goes before the end

#: Seconds that each test file took: of processor time where these were measured, else of a run with --write-seconds.
SECONDS = Path(__file__).with_name("seconds.json")


def part(text: str) -> tuple[int, int]:
    """K/N as two numbers."""
    number, _, of = text.partition("/")
    try:
        k, n = int(number), int(of)
    except ValueError:
        raise argparse.ArgumentTypeError(f"wants two numbers, as in 3/7, got {text!r}") from None
    if not 0 <= k < n:
        raise argparse.ArgumentTypeError(f"wants a number from 0 to {n - 1} before the stroke, got {text!r}")
    return k, n


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        type=part,
        metavar="K/N",
        help="of the tests that are selected, every N-th from number K on, counted from 0",
    )
    parser.addoption(
        "--turn",
        type=part,
        metavar="K/N",
        help="turn K of N of pairs, and of a test's slow parameters if scripts/test runs others of its parameters",
    )
    parser.addoption(
        "--write-seconds",
        action="store_true",
        help=f"write what each file took to {SECONDS.name}, which orders later runs",
    )


#: Test functions of which scripts/test runs at least one set of parameters.
_daily: set[str] = set()

#: By test function: names of its mark `by_day` that none of its parameters' ids holds.
_unknown: dict[str, set[str]] = {}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark as slow all but those parameters that the mark `by_day` names."""
    by_day = item.get_closest_marker("by_day")
    if by_day is not None:
        found = {name for name in by_day.args if name in item.name.partition("[")[2]}
        _unknown.setdefault(item.nodeid.partition("[")[0], set(by_day.args)).difference_update(found)
        if not found:
            item.add_marker(pytest.mark.slow)
    if runs_by_day(item):
        _daily.add(function_of(item))


@pytest.hookimpl(trylast=True)  # of what -m and -k have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("turn") is not None:
        kept = set(in_turn(items, _daily, *config.getoption("turn")))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    if config.getoption("part") is not None and items:
        k, n = config.getoption("part")
        n = min(n, len(items))  # there is always one
        k %= n
        config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number % n != k])
        items[:] = items[k::n]
    if "PYTEST_XDIST_WORKER" in os.environ:
        seconds = json.loads(SECONDS.read_text(encoding="utf-8"))
        items.sort(
            key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0)
        )  # the longest first: no process is left with one at the end


_spent: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = report.nodeid.partition("::")[0]
    _spent[file] = _spent.get(file, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("write_seconds") and "PYTEST_XDIST_WORKER" not in os.environ:
        longest = sorted(_spent.items(), key=lambda spent: -spent[1])
        SECONDS.write_text(
            json.dumps({file: round(spent, 1) for file, spent in longest if spent >= 1}, indent=1) + "\n",
            encoding="utf-8",
        )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the garbage collector from what collection made: a look through it takes a third of a second, the first one
    too.
    """
    wrong = [f"{test}: by_day names {sorted(names)}, which no test has" for test, names in _unknown.items() if names]
    if wrong and not any("::" in argument for argument in session.config.args):
        raise pytest.UsageError("\n".join(wrong))
    gc.freeze()
    gc.set_threshold(10_000)  # most looks, after each 700 objects, find nothing: 3 % of the tests' own time
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return processors.processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "load":
        return None  # somebody asked for another way
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # by the number of tests

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

    return ByFile(config, log)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process: its exit code, stdout and stderr."""
    from warpladder.cli import main

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def machine_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Climbs and profiles share one measurement of the machine (test_machine.py makes its own)."""
    hurry.measured_once(monkeypatch)


@pytest.fixture
def small_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Climbs and profiles in a hurry: `hurry.hurried`."""
    hurry.hurried(monkeypatch)


@pytest.fixture(scope="module")
def small_climbs_in_module() -> Iterator[None]:
    """The same, for fixtures that a whole file shares."""
    with pytest.MonkeyPatch.context() as patch:
        hurry.hurried(patch)
        yield


@pytest.fixture
def cases_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a proof's reference cases once for each net, configuration and precision, not for each trainer."""
    from shared_cases import made_once

    import warpladder.proof

    monkeypatch.setattr(warpladder.proof, "Cases", lambda net, config, rng, dataset, *how: made_once(net, config, *how))
