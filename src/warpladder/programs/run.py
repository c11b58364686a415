"""Build and run of a program: its output is passed on, and its faults are returned."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ..checker.faults import Problem, add
from ..checker.shared_names import overlaps
from ..device.emulator.counts import KernelCounts
from ..device.emulator.reports import REMARKS, foreign, places, read
from ..device.emulator.rewrite import bare
from ..device.emulator.toolchain import deadline
from ..errors import KernelError
from ..machine.cores import cores
from . import suspects, symbols
from .build import ProgramOptions, program
from .gpus import described
from .metrics import counted
from .sources import ProgramFiles, collected, references

#: Seconds after a signal in which a program may end by itself.
PATIENCE = 3.0

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
_DAMAGED = (
    "host code is ended by {}, and no line is known: it may have damaged the memory of its objects, as a copy of more "
    "bytes than the host's array has does"
)

#: What may say to other host code that a function has run which a stream calls.
_SIGNALS = re.compile(
    r"condition_variable|\batomic\b|\batomic_|\bvolatile\b|semaphore|\bsem_|promise|\bfuture\b|pthread_cond|\blatch\b|"
    r"\bmutex\b|std::barrier|cutWaitForBarrier|WaitForSingleObject"
)
_UNMASKED = re.compile(r"(?<![\w.>])(__(?:shfl(?:_up|_down|_xor)?|ballot|any|all))\s*\((?![^;{}]*\)\s*\{)")


@dataclass(frozen=True)
class ProgramOutcome:
    """Outcome of a program.

    counts : of its launches, in the mode "count".
    code : that main returned, or 128 and the number of the signal that ended it. problems : faults, each once.
    remarks : what is no fault. is_late : True if the time limit ended it. is_compiled : False if it ended the compiler.
    """

    code: int
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...]
    is_late: bool = False
    is_compiled: bool = True
    counts: tuple[KernelCounts, ...] = ()


def run(
    files: Sequence[Path], options: ProgramOptions, arguments: Sequence[str] = (), folders: Sequence[Path] = (),
    limit: float = 0.0, directory: Path | None = None, say: Callable[[str], None] | None = None,
) -> ProgramOutcome:  # fmt: skip
    """Compile the files to one program, run it with its arguments, and return its outcome.

    limit : most seconds to compile and run; 0 for no limit. directory : working directory of the program.
    say : called with a line before the emulator itself is compiled.
    Raises ConfigError, KernelError, DeviceError: a file cannot be read or does not compile, or there is no compiler.
    """
    until = time.monotonic() + limit if limit else None
    sources = collected(tuple(files), tuple(folders))
    token = deadline.set(until)
    try:
        executable = program(sources, options, say)
    except TimeoutError:
        return ProgramOutcome(128 + signal.SIGKILL, (), (), is_late=True, is_compiled=False)
    finally:
        deadline.reset(token)
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        environment = os.environ | {
            "WARPLADDER_REPORTS": str(reports),
            "WARPLADDER_GPU": described(options.gpu, cores()),
        }
        if any(_SIGNALS.search(source.text) for source in sources.files.values()):
            environment["WARPLADDER_SIGNALS"] = "1"
        process = subprocess.Popen(
            [str(files[0].with_suffix("")), *arguments], executable=executable, env=environment, cwd=directory
        )
        is_late = False
        try:
            code = process.wait(None if until is None else max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            is_late = True
            code = _ended(process)
        except BaseException:  # Ctrl-C, which the program receives too
            _ended(process)
            raise
        text = reports.read_text(encoding="utf-8", errors="replace") if reports.exists() else ""
    problems, remarks = found(text, executable)
    crashed = -code in _CRASHES and not is_late
    if crashed and not problems:  # its handler could report nothing: the heap is damaged
        problems = (Problem("crash", _DAMAGED.format(signal.Signals(-code).name), (), "", "", 0, ()),)
    if code:  # it ended early
        remarks = tuple(remark for remark in remarks if remark.kind not in ("leak", "unread result"))
    counts = counted(text, executable) if options.mode == "count" else ()
    code = code if code >= 0 else 128 - code
    remarks = (*outdated(sources), *searched(sources), *suspects.remarks(executable), *remarks)
    shared = (each for path, source in sources.files.items() for each in overlaps(path, source.text))
    problems = (*symbols.problems(sources), *shared, *problems)
    return ProgramOutcome(code, problems, remarks, is_late, counts=counts)


def outdated(sources: ProgramFiles) -> list[Problem]:
    """Remarks on the first use of what CUDA removed: warp functions without a mask, texture references."""
    found = []
    for path, source in sources.files.items():
        match = _UNMASKED.search(bare(source.text))
        if match:
            line = source.text.count("\n", 0, match.start()) + 1
            message = f"{match[1]} is gone since Volta: write {match[1]}_sync with a mask of the lanes that take part"
            found = [Problem("outdated", message, ((str(path), line),), "", "", 0, ())]
            break
    if at := references(sources):
        message = "texture references are gone since CUDA 12: use a texture object, cudaCreateTextureObject"
        found.append(Problem("outdated", message, ((str(at[0]), at[1]),), "", "", 0, ()))
    return found


def searched(sources: ProgramFiles) -> list[Problem]:
    """Remark on each header that was found in the project, in a folder that neither the file nor -I names."""
    found = {header: (path, name) for (path, name), header in reversed(sources.near.items())}
    out = []
    for header, (path, name) in reversed(found.items()):
        text = sources.files[path].text
        include = re.search(rf'^[ \t]*#[ \t]*include[ \t]*[<"]{re.escape(name)}', text, re.MULTILINE)
        line = text.count("\n", 0, include.start()) + 1 if include else 0
        message = f"{name} is taken from {os.path.relpath(header, path.parent)}, which no -I names"
        out.append(Problem("searched header", message, ((str(path), line),), "", "", 0, ()))
    return out


def _ended(process: subprocess.Popen[bytes]) -> int:
    """End a process, and return its code: by SIGTERM, after which it reports the launch's position, or by SIGKILL.

    Its child processes end too.
    """
    children = _descendants(process.pid)
    try:
        for _ in range(2):  # a launch that has just begun does not see the first one
            with suppress(subprocess.TimeoutExpired):
                process.send_signal(signal.SIGTERM)
                return process.wait(PATIENCE)
    except KeyboardInterrupt:
        pass
    finally:
        if process.poll() is None:
            process.kill()
        for child in children:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
    return process.wait()


def _descendants(process: int) -> list[int]:
    """Process ids of a process's descendants."""
    found = []
    for path in Path("/proc").glob(f"{process}/task/*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def found(text: str, executable: Path) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Problems and remarks in a program's reports, each once with a count; of the threads that ran when the time limit
    came, one with a line. Raises `KernelError` if a part cannot be
    emulated.
    """
    out: dict[str, list[Problem]] = {"problem": [], "remark": []}
    records = [
        record.split("\x1d", 3)
        for record in text.split("\x1c")
        if record.count("\x1d") >= 3 and not record.startswith("counts")
    ]
    lines = places("".join(reports for *_, reports in records), executable)
    for level, kernel, launch, reports in records:
        kernel, _, called = kernel.partition("\x1b")  # where a library was called whose work it is
        file, _, line = called.rpartition(":")
        at_call = (
            {at: (file, int(line)) if foreign(there[0]) else there for at, there in lines.items()} if line else lines
        )
        for report in read(reports, kernel, executable, at_call):
            if report.kind == "refused":
                raise KernelError(report.message)
            if report.kind == "no body":
                raise KernelError(f"kernel {kernel}: {report.message}")
            if report.kind == "stopped":
                report = replace(report, kind="time limit", array="")
            if report.kind == "left early":  # the launch goes on, unlike after another fault of a barrier
                report = replace(report, kind="barrier")
            at = tuple(place for place in report.locations if place[1])
            to = out["remark" if report.kind in REMARKS else level]
            problem = Problem(report.kind, report.message, at, report.array, kernel, int(launch), ())
            add(to, problem)
    late = sorted((p for p in out["problem"] if p.kind == "time limit"), key=lambda p: not p.places)[1:]
    return tuple(p for p in out["problem"] if p not in late), tuple(out["remark"])
