"""A program built and run: its output goes where the command's goes, and what was found is returned."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..checker.faults import Problem
from ..device.emulator.reports import read
from ..device.emulator.rewrite import bare
from ..errors import KernelError
from ..machine.cores import cores
from .build import ProgramOptions, program
from .gpus import described
from .sources import ProgramFiles, collected

#: Seconds that a program gets to end by itself after a signal.
PATIENCE = 5.0

_UNMASKED = re.compile(r"(?<![\w.>])(__(?:shfl(?:_up|_down|_xor)?|ballot|any|all))\s*\((?![^;{}]*\)\s*\{)")


@dataclass(frozen=True)
class ProgramOutcome:
    """End of a program.

    code : that main returned, or 128 and the number of the signal that ended it. problems : faults, each once.
    remarks : what is no fault. is_late : True if the time limit ended it.
    """

    code: int
    problems: tuple[Problem, ...]
    remarks: tuple[Problem, ...]
    is_late: bool = False


def run(
    files: Sequence[Path], options: ProgramOptions, arguments: Sequence[str] = (), folders: Sequence[Path] = (),
    limit: float = 0.0, directory: Path | None = None,
) -> ProgramOutcome:  # fmt: skip
    """Compile the files to one program, run it with its arguments, and return how it ended.

    limit : seconds that it may run; 0 for as long as it takes. directory : in which it runs.
    Raises ConfigError, KernelError, DeviceError: a file cannot be read or does not compile, there is no compiler.
    """
    sources = collected(tuple(files), tuple(folders))
    executable = program(sources, options)
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        environment = os.environ | {
            "WARPLADDER_REPORTS": str(reports),
            "WARPLADDER_GPU": described(options.gpu, cores()),
        }
        process = subprocess.Popen(
            [str(files[0].with_suffix("")), *arguments], executable=executable, env=environment, cwd=directory
        )
        is_late = False
        try:
            code = process.wait(limit or None)
        except subprocess.TimeoutExpired:
            is_late = True
            code = _ended(process)
        except BaseException:  # Ctrl-C, which the program gets too
            _ended(process)
            raise
        text = reports.read_text(encoding="utf-8", errors="replace") if reports.exists() else ""
    problems, remarks = found(text, executable)
    return ProgramOutcome(code if code >= 0 else 128 - code, problems, (*outdated(sources), *remarks), is_late)


def outdated(sources: ProgramFiles) -> list[Problem]:
    """A remark for the first use of a warp function without a mask, which CUDA has taken away with Volta."""
    for path, source in sources.files.items():
        match = _UNMASKED.search(bare(source.text))
        if match:
            line = source.text.count("\n", 0, match.start()) + 1
            message = f"{match[1]} is gone since Volta: write {match[1]}_sync with a mask of the lanes that take part"
            return [Problem("outdated", message, ((str(path), line),), "", "", 0, ())]
    return []


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Return code of a process that is ended: by SIGTERM, which reports where a launch is, or by SIGKILL."""
    try:
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        return process.wait()


def found(text: str, executable: Path) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Problems and remarks in a program's reports, each once with a count; `KernelError` for what is not emulated."""
    out: dict[str, list[Problem]] = {"problem": [], "remark": []}
    for record in filter(None, text.split("\x1c")):
        level, kernel, launch, reports = record.split("\x1d", 3)
        for report in read(reports, kernel, executable):
            if report.kind == "no body":
                raise KernelError(f"kernel {kernel}: {report.message}")
            if report.kind == "stopped":
                report = replace(report, kind="time limit", array="")
            places = tuple(place for place in report.locations if place[1])
            problem = Problem(report.kind, report.message, places, report.array, kernel, int(launch), ())
            if not any((p.kind, p.array, p.places, p.kernel) == (problem.kind, problem.array, places, kernel)
                       and (places or p.message == problem.message) for p in out[level]):  # fmt: skip
                out[level].append(problem)
    return tuple(out["problem"]), tuple(out["remark"])
