"""How the tests are spread over processes: `pytest -n auto` takes one for each processor, and each process takes whole files.

A file is the unit because its tests share what is dear to make: compiled kernels, drawn cases, references.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

import hurry
import processors

settings.register_profile("night", max_examples=500)  # five times as many drawn cases where a test says how many by the usual 100

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell without job control has begun this in the background: Ctrl-C is tested all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:
    processors.share()  # before a test imports anything that asks how many processors there are


#: The files that take longest, longest first: they are begun first, so that no process is left with one when the others are done.
LONGEST = (
    "test_verify", "test_kernels_checked", "test_optimizers", "test_tensor_convolutions", "test_tensor_offline", "test_bench", "test_gemm_ops",
    "test_check", "test_steps", "test_batch_sizes", "test_tensor_rung", "test_peers", "test_tensor_products",
    "test_kill", "emulator/test_correct", "test_tiled_ops", "test_own_rung", "test_climb_command", "test_verdicts", "test_compiled",
    "test_tensor_levels",
    "test_svm", "test_fp64", "test_extending", "test_precision", "test_loss_every", "test_thin_chain", "test_cli", "emulator/test_bugs", "test_docs",
    "test_native", "test_reproduce_command", "test_native_optimizers", "test_kernelwise", "test_asked", "test_wrong_inputs", "test_kernel_liars",
    "test_fresh", "test_tuner", "test_tuned_runs", "emulator/test_device", "test_cli_tables", "test_interrupt", "test_features", "test_profile",
)  # fmt: skip


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
    parser.addoption("--part", type=part, metavar="K/N", help="of the tests that are selected, every N-th from number K on, counted from 0")


@pytest.hookimpl(trylast=True)  # of what -m and -k have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("part") is not None and items:
        k, n = config.getoption("part")
        n = min(n, len(items))  # there is always one
        k %= n
        config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number % n != k])
        items[:] = items[k::n]
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = {f"tests/{name}.py": number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """What all tests have imported is there to the end: the garbage collector takes a third of a second to look through it, each time."""
    gc.collect()
    gc.freeze()


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
def small_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Climbs and profiles in a hurry: `hurry.hurried`."""
    hurry.hurried(monkeypatch)


@pytest.fixture(scope="module")
def small_climbs_in_module() -> Iterator[None]:
    """The same, for fixtures that a whole file shares."""
    with pytest.MonkeyPatch.context() as patch:
        hurry.hurried(patch)
        yield
