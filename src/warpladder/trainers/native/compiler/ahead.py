"""Compiling on several cores: numba compiles one function at a time in a process, so others compile some of them and
leave them in the cache.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ....machine.facts import cores
from .machine_code import CompiledFunction, address, is_kept, keep

PROCESSES = 3  # that help, at most: each takes a second to start, and 200 MB
WORTH_IT = 4  # functions to compile, before another process is started for them

#: What takes longest to compile: begun first, so that nobody waits for it alone in the end.
LONGEST = (
    "steps",
    "weight_gradient",
    "convolve",
    "max_pool_gradient",
    "few_outputs_of_bytes",
    "gather",
    "max_pool",
    "gather_rows",
    "sgd",
)


def ahead(functions: Iterable[CompiledFunction]) -> None:
    """Compile these functions with the help of other processes; what is kept already is left alone.

    A process that ends early, or cannot be started, leaves its function to whoever asks for its address.
    """
    missing = [function for function in dict.fromkeys(functions) if not is_kept(function)]
    left = deque(
        sorted(missing, key=lambda function: LONGEST.index(function.name) if function.name in LONGEST else len(LONGEST))
    )
    helpers = min(PROCESSES, cores() - 1, len(left) // WORTH_IT)
    if helpers < 1:
        return
    processes = [process for process in (_started() for _ in range(helpers)) if process is not None]
    with ThreadPoolExecutor(helpers, thread_name_prefix="compiling") as pool:
        try:
            asked = [pool.submit(_keep_busy, process, left) for process in processes]
            while left:
                address(left.popleft())
            for future in asked:
                future.result()
        finally:
            left.clear()
            for process in processes:
                process.kill()
                process.communicate()


def _started() -> subprocess.Popen[str] | None:
    package = str(Path(__file__).parents[4])
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {package!r}); from {__name__} import child; child()",
    ]
    try:
        return subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None


def _keep_busy(process: subprocess.Popen[str], left: deque[CompiledFunction]) -> None:
    """Give a process a function whenever it has compiled the one before, until none is left or it has ended."""
    assert process.stdin is not None and process.stdout is not None
    while process.stdout.readline():
        try:
            print(*left.popleft(), file=process.stdin, flush=True)
        except (IndexError, OSError):  # nothing is left; or the process has ended meanwhile
            return


def child() -> None:
    """Compile what standard input names, a line each; a line on standard output asks for the next."""
    while True:
        print("next", flush=True)
        words = sys.stdin.readline().split()
        if not words:
            return
        keep(CompiledFunction(*words))
