"""Precompilation by several processes, since numba compiles one function at a time in each."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ....machine.facts import cores
from ....ops.jit.cache import is_known
from .machine_code import CompiledFunction, address, is_loaded, is_stored, store

PROCESSES = 3  # that help, at most: each takes a second to start, and 200 MB
WORTH_IT = 4  # functions to compile for each process that is started

#: functions that take longest to compile: they begin first, so that none is compiled alone in the end
LONGEST = (
    "weight_gradient", "multiply", "convolve", "steps", "gather", "weight_step", "convolve_pixel_runs",
    "gather_few_outputs", "sgd",
)  # fmt: skip


def precompile(functions: Iterable[CompiledFunction]) -> None:
    """Compile missing functions in several processes; `address` compiles those whose process failed."""
    wanted = [function for function in dict.fromkeys(functions) if not is_loaded(function)]
    most = min(PROCESSES, cores() - 1, len(wanted) // WORTH_IT)
    if most < 1:
        return
    processes = [] if is_known() else _started(most)  # they import numba while this process parses the sources
    with ThreadPoolExecutor(most, thread_name_prefix="compiling") as pool:
        left: deque[CompiledFunction] = deque()
        try:
            missing = [function for function in wanted if not is_stored(function)]
            ranks = {name: rank for rank, name in enumerate(LONGEST)}
            left += sorted(missing, key=lambda function: ranks.get(function.name, len(LONGEST)))
            helpers = min(most, len(left) // WORTH_IT)
            if helpers < 1:
                return
            processes = processes or _started(helpers)
            busy = [pool.submit(_feed, process, left) for process in processes]
            while left:
                address(left.popleft())
            for future in busy:
                future.result()
        finally:
            left.clear()
            for process in processes:
                process.kill()
                process.communicate()


def _started(count: int) -> list[subprocess.Popen[str]]:
    """Processes that compile, at most `count`."""
    return [process for process in (_one() for _ in range(count)) if process is not None]


def _one() -> subprocess.Popen[str] | None:
    package = str(Path(__file__).parents[4])
    code = f"import sys; sys.path.insert(0, {package!r}); from {__name__} import child; child()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None


def _feed(process: subprocess.Popen[str], left: deque[CompiledFunction]) -> None:
    """Send a process one function at a time, after it has compiled the previous one, until none is left or it ends."""
    assert process.stdin is not None and process.stdout is not None
    while process.stdout.readline():
        try:
            print(*left.popleft(), file=process.stdin, flush=True)
        except (IndexError, OSError):  # nothing is left; or the process has ended meanwhile
            return


def child() -> None:
    """Compile the functions named on standard input, a line each; a line on standard output requests the next."""
    # numba would import its linear algebra, which takes a fifth of a second
    sys.modules["scipy"] = None  # type: ignore[assignment]
    from . import functions  # noqa: F401  # imports numba before the first function is known

    while True:
        print("next", flush=True)
        words = sys.stdin.readline().split()
        if not words:
            return
        store(CompiledFunction(*words))
