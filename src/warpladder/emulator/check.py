"""`check`: the launches of a description in every mode of the emulator, and what was found, each fault once.

Every mode runs in a process of its own: a kernel that writes anywhere brings down no more than that, AddressSanitizer needs
its libraries loaded first, and Ctrl-C ends a kernel that does not end: a process lives as long as its standard input is held open.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import WarpladderError
from . import asan
from .describe import Description, packed
from .hostcode import device_code, host_code
from .plan import plan
from .sanitizers import translated

MODES = ("check", "asan", "fast")
ORDERS = ("forward", "reverse", "random")

Place = tuple[str, int]


@dataclass(frozen=True)
class Problem:
    """One fault.

    kind : race, out of bounds, ...: a heading.
    message : what happened, by which threads, in a sentence.
    places : file and line of each access that it takes, the later one first.
    array : whose memory, "" where there is none.
    kernel, launch : which kernel, and in which launch, counted from 1, it was first seen.
    seen : what saw it: check, asan, forward, ...
    count : how often.
    """

    kind: str
    message: str
    places: tuple[Place, ...]
    array: str
    kernel: str
    launch: int
    seen: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    problems : each fault once.
    remarks : what is worth knowing and no fault.
    launches : how many were asked for.
    ran : modes, and the orders of the fast one.
    printed : what the kernels printed, in the first mode.
    """

    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]
    launches: int
    ran: tuple[str, ...]
    printed: str


def check(description: Description, modes: Sequence[str] = MODES, orders: Sequence[str] = ORDERS, seed: int = 0) -> Outcome:
    """Run a description's launches.

    Parameters
    ----------
    description : Description
    modes : of "check", "asan", "fast"
    orders : of "forward", "reverse", "random"
        In which threads and blocks run in the fast mode; the others run forward.
    seed : int
        Of random content and of the random order.

    Raises
    ------
    ConfigError, KernelError, DeviceError
        Where the description does not fit, the source cannot be compiled, or there is no compiler.
    """
    plan(description, device_code(description.source), seed)  # what is wrong with it is said before anything is compiled
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(modes)) as pool:
        leash, held = os.pipe()
        runs = [
            pool.submit(_child, Path(folder), leash, description, mode, tuple(orders) if mode == "fast" else ("forward",), seed)
            for mode in modes
        ]
        try:
            finished = {mode: run.result() for mode, run in zip(modes, runs, strict=True)}
        finally:
            os.close(held)  # whatever still runs ends now
            wait(runs)
            os.close(leash)
    ran = [mode for mode in modes if mode != "fast"] + [f"{order} order" for order in orders if "fast" in modes]
    problems, remarks = _found({mode: entries for mode, (entries, _) in finished.items()})
    return Outcome(problems, remarks, len(description.launches), tuple(ran), finished[modes[0]][1])


def _child(
    folder: Path, leash: int, description: Description, mode: str, orders: tuple[str, ...], seed: int
) -> tuple[list[dict[str, Any]], str]:
    """What a process of its own wrote down in this mode, and what it printed; raises the error that it could not go on from."""
    job, result = folder / f"{mode}.json", folder / f"{mode}.jsonl"
    job.write_text(json.dumps({"description": packed(description), "mode": mode, "orders": orders, "seed": seed}), encoding="utf-8")
    environment = asan.environment() if mode == "asan" else None
    command = [sys.executable, "-m", "warpladder.emulator.run", str(job), str(result)]
    process = subprocess.run(command, stdin=leash, capture_output=True, text=True, errors="replace", env=environment)
    entries = [json.loads(line) for line in result.read_text(encoding="utf-8").splitlines()] if result.is_file() else []
    for entry in entries:
        if "error" in entry:
            kind = getattr(errors, entry["error"], WarpladderError)
            raise kind(entry["message"] + _left_out(entry["message"], description.source))
    if not entries or "end" not in entries[-1]:
        entries.append(_death(process, mode))
    return entries, process.stdout


def _left_out(message: str, path: Path) -> str:
    """Where the compiler misses a name: which function was taken for the host's, or which headers are not here."""
    missing = re.search(r"[‘'](\w+)[’'] (?:was not declared|does not name a type|has not been declared)", message)
    host = host_code(path) if missing else ""
    if missing and re.search(rf"\b{missing[1]}\s*\(", host):
        return f"; {missing[1]} stands there without __device__, as a function of the host"
    headers = re.findall(r"#\s*include\s*([<\"][^>\"]+[>\"])", host)
    return f"; {', '.join(headers)} {'was' if len(headers) == 1 else 'were'} left out" if headers else ""


def _death(process: subprocess.CompletedProcess[str], mode: str) -> dict[str, Any]:
    """What a process died of."""
    found = translated(process.stderr)
    if found:
        return {"kind": found[0], "message": found[1], "places": found[2], "array": ""}
    if process.returncode < 0:
        how = f"the {mode} mode died of {signal.Signals(-process.returncode).name}, as a program does that uses memory which is not its own"
        return {"kind": "crash", "message": how, "places": [], "array": ""}
    raise RuntimeError(f"the {mode} mode ended with {process.returncode}:\n{process.stderr}")


def _found(entries: dict[str, list[dict[str, Any]]]) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Every fault once, and remarks. What the fast mode shows is a consequence where another mode knows the cause."""
    problems: list[Problem] = []
    remarks: list[str] = []
    for mode in MODES:
        known = bool(problems)
        running: dict[str, Any] = {"kernel": "", "launch": 0, "order": "forward"}
        for entry in entries.get(mode, ()):
            if "order" in entry:
                running = entry
            elif "remark" in entry:
                remarks.append(entry["remark"])
            elif "kind" in entry:
                found = _problem(entry, running, mode)
                if known and mode == "fast" and found.kind in ("order", "crash", "stopped"):
                    remarks.append(f"The fast mode shows it: {found.message}")
                else:
                    _add(problems, found)
    return tuple(_causes(problems)), tuple(dict.fromkeys(remarks))


def _problem(entry: dict[str, Any], running: dict[str, Any], mode: str) -> Problem:
    seen = f"{running['order']} order" if mode == "fast" else mode
    places = tuple((file, line) for file, line in entry["places"])
    return Problem(entry["kind"], entry["message"], places, entry["array"], running["kernel"], running["launch"], (seen,))


def _add(problems: list[Problem], new: Problem) -> None:
    """Count a fault that is there already: the same in the same lines, or seen in one of them by another mode."""
    for position, old in enumerate(problems):
        if (old.kernel, old.kind) != (new.kernel, new.kind):
            continue
        same = (old.array, set(old.places)) == (new.array, set(new.places)) and (old.places or old.message == new.message)
        if same or (old.seen != new.seen and set(old.places) & set(new.places)):
            seen = tuple(dict.fromkeys(old.seen + new.seen))
            problems[position] = replace(old, seen=seen, count=old.count + (old.seen == new.seen))
            return
    problems.append(new)


def _causes(problems: list[Problem]) -> list[Problem]:
    """Without reads of what was not written yet only because of a race that is among them."""
    races = {(p.kernel, p.array, place) for p in problems if p.kind == "race" for place in p.places}
    return [p for p in problems if p.kind != "uninitialised" or not any((p.kernel, p.array, place) in races for place in p.places)]
