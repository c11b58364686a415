"""How the tests are spread over processes: `pytest -n auto` takes one for each processor, and each process takes whole files.

A file is the unit because its tests share what is dear to make: compiled kernels, drawn cases, references.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

import processors

settings.register_profile("night", max_examples=500)  # five times as many drawn cases where a test says how many by the usual 100

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell without job control has begun this in the background: Ctrl-C is tested all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:
    processors.share()  # before a test imports anything that asks how many processors there are


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return processors.processes()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "load":
        return None  # somebody asked for another way
    from xdist.scheduler import LoadScopeScheduling

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
