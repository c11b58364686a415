"""`check`: runs the launches of a description in every mode of the emulator, and merges the faults.

Every mode runs in a separate process: a kernel that writes to any address ends only this process, AddressSanitizer
needs its libraries loaded first, and Ctrl-C can end an endless kernel, because a process ends when its standard input
is closed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import errors
from ..device.emulator import asan
from ..device.emulator.hostcode import absent, bodiless, device_code, host_code
from ..device.source import read
from ..errors import KernelError, WarpladderError
from .description import Description, packed
from .faults import MODES, Outcome, Problem, found, refused
from .plan import plan
from .sanitizers import translated
from .shared_names import overlaps

#: Most seconds of a launch in each mode.
LIMIT = 60.0
ORDERS = ("forward", "reverse", "random")


def check(
    description: Description, modes: Sequence[str] = MODES, orders: Sequence[str] = ORDERS, seed: int = 0,
    limit: float = LIMIT, ended: Callable[[str, tuple[Problem, ...]], None] | None = None,
) -> Outcome:  # fmt: skip
    """Run a description's launches, and return the faults. After Ctrl-C the outcome has the faults so far.

    modes : some of "check", "asan", "fast". orders : some of "forward", "reverse", "random", for the fast mode; the
    other modes run forward.
    seed : seed of random content and order. limit : most seconds of a launch in a mode; 0 for no limit.
    ended : called with a finished mode and its faults, in the thread that called `check`.
    Raises ConfigError, KernelError, DeviceError: the description does not fit, no launch can be made, the source does
    not compile, or there is no compiler.
    """
    plan(description, device_code(description.source), seed)  # reports errors before anything is compiled
    finished, unfinished, stopped = _run_modes(description, tuple(modes), tuple(orders), seed, limit, ended)
    entries = {mode: finished[mode].entries if mode in finished else unfinished[mode] for mode in modes}
    ran = [mode for mode in modes if mode in finished and mode != "fast"]
    ran += [f"{order} order" for order in orders if "fast" in finished]
    problems, remarks = found(entries)
    names = {launch.kernel.partition("<")[0] for launch in description.launches}
    text = description.source.read_text(encoding="utf-8", errors="replace")
    problems += tuple(each for each in overlaps(description.source, text) if each.kernel in names)
    lost = absent(read(description.source).text, description.source.name)
    remarks += tuple(f"{message}, and the kernels were compiled without it" for message in lost)
    without = tuple((kernel, why + _left_out(why, description.source)) for kernel, why in refused(entries))
    if without and not problems and len(without) == len({launch.kernel for launch in description.launches}):
        raise KernelError(without[0][1])
    printed = finished[modes[0]].printed if modes[0] in finished else ""
    return Outcome(problems, remarks, len(description.launches), tuple(ran), printed, without, stopped)


#: Entries of unfinished modes.
Unfinished = dict[str, list[dict[str, Any]]]


def _run_modes(
    description: Description, modes: tuple[str, ...], orders: tuple[str, ...], seed: int, limit: float,
    ended: Callable[[str, tuple[Problem, ...]], None] | None,
) -> tuple[dict[str, ModeResult], Unfinished, bool]:  # fmt: skip
    """Results of the modes that ended, entries of the others, and True if Ctrl-C stopped them."""
    finished: dict[str, ModeResult] = {}
    stopped = False
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(modes)) as pool:
        leash, held = os.pipe()
        processes = {}
        for mode in modes:
            own_orders = orders if mode == "fast" else ("forward",)
            processes[mode] = ModeProcess(Path(folder), leash, description, mode, own_orders, seed, limit)
        runs = {pool.submit(process.run): mode for mode, process in processes.items()}
        try:
            for run in as_completed(runs):
                finished[runs[run]] = run.result()
                if ended:
                    ended(runs[run], found({runs[run]: finished[runs[run]].entries})[0])
        except KeyboardInterrupt:
            stopped = True
        finally:
            os.close(held)  # ends every process that still runs
            wait(runs)
            os.close(leash)
        unfinished = {mode: process.written() for mode, process in processes.items() if mode not in finished}
    return finished, unfinished, stopped


@dataclass(frozen=True)
class ModeResult:
    """Result of a mode: the entries that its process wrote, and the output of its kernels."""

    entries: list[dict[str, Any]]
    printed: str


@dataclass(frozen=True)
class ModeProcess:
    """One mode, run in a separate process; `leash` is its standard input, whose closing ends the process."""

    folder: Path
    leash: int
    description: Description
    mode: str
    orders: tuple[str, ...]
    seed: int
    limit: float

    def run(self) -> ModeResult:
        """Run the mode to its end. Raises an error that ended the process early."""
        job = {"mode": self.mode, "orders": self.orders, "seed": self.seed, "limit": self.limit}
        job_file = self.folder / f"{self.mode}.json"
        job_file.write_text(json.dumps({**job, "description": packed(self.description)}), encoding="utf-8")
        environment = asan.environment() if self.mode == "asan" else None
        command = [sys.executable, "-m", "warpladder.checker.run", str(job_file), str(self._result)]
        process = subprocess.run(
            command, stdin=self.leash, capture_output=True, text=True, errors="replace", env=environment
        )
        entries = self.written()
        for entry in entries:
            if "error" in entry:
                kind = getattr(errors, entry["error"], WarpladderError)
                raise kind(entry["message"] + _left_out(entry["message"], self.description.source))
        if not entries or "end" not in entries[-1]:
            entries.append(_death(process, self.mode))
        return ModeResult(entries, process.stdout)

    def written(self) -> list[dict[str, Any]]:
        """Entries that the process has written so far, without an incomplete last line."""
        if not self._result.is_file():
            return []
        lines = self._result.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def _result(self) -> Path:
        return self.folder / f"{self.mode}.jsonl"


def _left_out(message: str, path: Path) -> str:
    """Clause on the cause of an undeclared name: a function mistaken for host code, or missing headers."""
    undeclared = "was not declared|does not name a|has not been declared|is not a"
    missing = re.search(rf"[‘'](\w+)[’'] (?:{undeclared})|no matching function for call to [‘'](\w+)", message)
    bodies = bodiless(read(path).text, path.name) if missing else []
    host = host_code(path) if missing else ""
    if missing and missing[1] and re.search(rf"\b{missing[1]}\s*\(", host):
        return f"; {missing[1]} stands there without __device__, as a function of the host"
    if bodies:
        return f"; {', '.join(bodies)}"
    headers = re.findall(r"#\s*include\s*([<\"][^>\"]+[>\"])", host)
    return f"; {', '.join(headers)} {'was' if len(headers) == 1 else 'were'} left out" if headers else ""


def _death(process: subprocess.CompletedProcess[str], mode: str) -> dict[str, Any]:
    """Entry that describes how a process was ended."""
    found = translated(process.stderr)
    if found:
        return {"kind": found[0], "message": found[1], "places": found[2], "array": ""}
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        cause = _CAUSES.get(name, "uses memory which is not its own")
        message = f"the {mode} mode died of {name}, as a program does that {cause}"
        return {"kind": "crash", "message": message, "places": [], "array": ""}
    raise RuntimeError(f"the {mode} mode ended with {process.returncode}:\n{process.stderr}")


#: Usual causes of the signals that end a process.
_CAUSES = {
    "SIGFPE": "divides a whole number by zero",
    "SIGABRT": "gives up",
    "SIGILL": "comes to an end that it should not reach",
    "SIGKILL": "the user ends, or that takes too much memory",
}
