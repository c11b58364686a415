"""`check`: the launches of a description in every mode of the emulator, and what was found, each fault once.

Every mode runs in a process of its own: a kernel that writes anywhere brings down no more than that, AddressSanitizer
needs its libraries loaded first, and Ctrl-C ends a kernel that does not end: a process lives as long as its standard
input is held open.
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
from ..device.source import read
from ..errors import KernelError, WarpladderError
from .description import Description, packed
from .faults import MODES, Outcome, Problem, found, refused
from .hostcode import bodiless, device_code, host_code
from .plan import plan
from .processes import translated

#: Seconds that a launch may take in each mode.
LIMIT = 60.0
ORDERS = ("forward", "reverse", "random")


def check(
    description: Description, modes: Sequence[str] = MODES, orders: Sequence[str] = ORDERS, seed: int = 0, limit: float = LIMIT,
    ended: Callable[[str, tuple[Problem, ...]], None] | None = None,
) -> Outcome:  # fmt: skip
    """Run a description's launches. Ctrl-C ends it, and what was found until then is its outcome.

    Parameters
    ----------
    description : Description
    modes : of "check", "asan", "fast"
    orders : of "forward", "reverse", "random"
        In which threads and blocks run in the fast mode; the others run forward.
    seed : int
        Of random content and of the random order.
    limit : float
        Seconds that a launch may take in a mode; 0 for as long as it takes.
    ended : callable, optional
        Is called with a mode that has ended and with what it alone has found, in the thread that called `check`.

    Raises
    ------
    ConfigError, KernelError, DeviceError
        Where the description does not fit, no launch can be made, the source cannot be compiled, or there is no
        compiler.
    """
    plan(
        description, device_code(description.source), seed
    )  # what is wrong with it is said before anything is compiled
    finished: dict[str, Ended] = {}
    stopped = False
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(modes)) as pool:
        leash, held = os.pipe()
        jobs = {
            mode: Job(
                Path(folder), leash, description, mode, tuple(orders) if mode == "fast" else ("forward",), seed, limit
            )
            for mode in modes
        }
        runs = {pool.submit(job.run): mode for mode, job in jobs.items()}
        try:
            for run in as_completed(runs):
                finished[runs[run]] = run.result()
                if ended:
                    ended(runs[run], found({runs[run]: finished[runs[run]].entries})[0])
        except KeyboardInterrupt:
            stopped = True
        finally:
            os.close(held)  # whatever still runs ends now
            wait(runs)
            os.close(leash)
        entries = {mode: finished[mode].entries if mode in finished else jobs[mode].written() for mode in modes}
    whole = [mode for mode in modes if mode in finished]
    ran = [mode for mode in whole if mode != "fast"] + [f"{order} order" for order in orders if "fast" in whole]
    problems, remarks = found(entries)
    without = tuple((kernel, why + _left_out(why, description.source)) for kernel, why in refused(entries))
    if without and not problems and len(without) == len({launch.kernel for launch in description.launches}):
        raise KernelError(without[0][1])
    printed = finished[modes[0]].printed if modes[0] in finished else ""
    return Outcome(problems, remarks, len(description.launches), tuple(ran), printed, without, stopped)


@dataclass(frozen=True)
class Ended:
    """What a process of its own wrote down, and what its kernels printed."""

    entries: list[dict[str, Any]]
    printed: str


@dataclass(frozen=True)
class Job:
    """One mode, to be run in a process of its own."""

    folder: Path
    leash: int
    description: Description
    mode: str
    orders: tuple[str, ...]
    seed: int
    limit: float

    def run(self) -> Ended:
        """Run the mode to its end; raises the error that the process could not go on from."""
        job = {
            "description": packed(self.description),
            "mode": self.mode,
            "orders": self.orders,
            "seed": self.seed,
            "limit": self.limit,
        }
        asked = self.folder / f"{self.mode}.json"
        asked.write_text(json.dumps(job), encoding="utf-8")
        environment = asan.environment() if self.mode == "asan" else None
        command = [sys.executable, "-m", "warpladder.checker.run", str(asked), str(self._result)]
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
        return Ended(entries, process.stdout)

    def written(self) -> list[dict[str, Any]]:
        """The entries that the process has written so far; a line that is not whole yet is left out."""
        if not self._result.is_file():
            return []
        lines = self._result.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def _result(self) -> Path:
        return self.folder / f"{self.mode}.jsonl"


def _left_out(message: str, path: Path) -> str:
    """Where the compiler misses a name: which function was taken for the host's, or which headers are not here."""
    missing = re.search(r"[‘'](\w+)[’'] (?:was not declared|does not name a|has not been declared|is not a)", message)
    bodies = bodiless(read(path).text, path.name) if missing else []
    host = host_code(path) if missing else ""
    if missing and re.search(rf"\b{missing[1]}\s*\(", host):
        return f"; {missing[1]} stands there without __device__, as a function of the host"
    if bodies:
        return f"; {', '.join(bodies)}"
    headers = re.findall(r"#\s*include\s*([<\"][^>\"]+[>\"])", host)
    return f"; {', '.join(headers)} {'was' if len(headers) == 1 else 'were'} left out" if headers else ""


def _death(process: subprocess.CompletedProcess[str], mode: str) -> dict[str, Any]:
    """What a process died of."""
    found = translated(process.stderr)
    if found:
        return {"kind": found[0], "message": found[1], "places": found[2], "array": ""}
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        does = {
            "SIGFPE": "divides a whole number by zero",
            "SIGABRT": "gives up",
            "SIGILL": "comes to an end that it should not reach",
            "SIGKILL": "somebody ends, or that takes too much memory",
        }
        how = f"the {mode} mode died of {name}, as a program does that {does.get(name, 'uses memory which is not its own')}"
        return {"kind": "crash", "message": how, "places": [], "array": ""}
    raise RuntimeError(f"the {mode} mode ended with {process.returncode}:\n{process.stderr}")
