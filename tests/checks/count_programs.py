"""Tables of the CUDA programs in folders of other repositories: what is read, compiled and run, and what is refused.

    PYTHONPATH=src python tests/checks/count_programs.py ~/cuda-samples ~/course --json rows.json
    PYTHONPATH=src python tests/checks/count_programs.py --json rows.json --table table.md

A folder's sources with one main() are one program; otherwise each file with a main() is one. Arguments of a program are
those of the repository's test_args.json, as cuda-samples has one, or those of SMALLER below.
Nothing of a repository is stored but names.

Ran : exit code 0, no fault, and no line of the output that says that the result is wrong. Read : a .cu file that
compiles whole. All kernels : files whose kernels all compile, with the host code or without it. Rows of the JSON file
that are there are not made again, unless --again matches the program.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from warpladder.device.emulator.hostcode import device_code
from warpladder.device.emulator.module import errors_of
from warpladder.device.emulator.symbols import refused
from warpladder.errors import WarpladderError
from warpladder.programs.build import ProgramOptions, compile_alone
from warpladder.programs.gpus import find
from warpladder.programs.rewrite import kernels
from warpladder.programs.sources import SOURCES, collected, read

MAIN = re.compile(r"^[ \t]*(?:int|auto)?\s*\bmain\s*\([^;{]*\)\s*\{", re.MULTILINE)
CUDA = re.compile(r"#\s*include\s*[<\"](?:cuda|cublas|cufft|curand|cu\w+|npp\w*|nv\w+|thrust/|helper_cuda)")
OUTCOMES = ("ran", "wrong", "faults", "code", "late", "crashed", "refused")
#: Arguments that make a program smaller, where it has some.
SMALLER = {
    "matrixMul": "-wA=128 -hA=128 -wB=128 -hB=128", "globalToShmemAsyncCopy": "-wA=128 -hA=128 -wB=128 -hB=128",
    "simpleHyperQ": "--nstreams=4", "eigenvalues": "--matrix-size=256 --iters-timing=1",
    "transpose": "--dimX=256 --dimY=256", "FDTD3d": "--dimx=64 --dimy=64 --dimz=64 --timesteps=2",
    "UnifiedMemoryPerf": "-kernel-iterations=1", "reduction": "--n=65536", "cdpAdvancedQuicksort": "size=2000",
}  # fmt: skip
#: Exit code of a program that its limit of processor time ended.
LATE = 128 + signal.SIGXCPU
RIGHT = re.compile(r"\bpass(?:ed)?\b|success\w*|\bOK\b|\bcorrect\b|\bverified\b", re.IGNORECASE)
WRONG = re.compile(r"\bfail(?:ed|ure)?\b(?!.*\b0\b)|\bincorrect\b", re.IGNORECASE)


def programs(repository: Path) -> list[list[Path]]:
    """Files of each program: those of a folder with one main(), or each file with a main() by itself."""
    found = []
    for folder in sorted({path.parent for path in repository.rglob("*") if path.suffix in SOURCES}):
        files = sorted(path for path in folder.iterdir() if path.suffix in SOURCES)
        mains = [path for path in files if MAIN.search(read(path))]
        if not any(path.suffix == ".cu" or CUDA.search(read(path)) for path in files):
            continue
        if len(mains) == 1:
            found.append([*mains, *(path for path in files if path not in mains)])
        else:
            found += [[path] for path in mains if path.suffix == ".cu" or CUDA.search(read(path))]
    return found


def arguments_of(repository: Path) -> dict[str, list[str]]:
    """Arguments of each program's first test, by the program's folder, as a repository states them."""
    stated = repository / "test_args.json"
    given = json.loads(stated.read_text(encoding="utf-8")) if stated.is_file() else {}
    return {
        name: (how.get("args") or (how.get("runs") or [{}])[0].get("args") or []) for name, how in given.items()
    }  # fmt: skip


def folders_of(repository: Path, files: list[Path]) -> list[Path]:
    """Folders of headers: those of the repository, and those next to the program."""
    here = files[0].parent
    near = (here, here.parent / "inc", here / "inc", here / "include", here.parent / "include", here.parent / "common")
    wide = (repository / "Common", repository / "Common" / "UtilNPP", repository / "include", repository / "common")
    return [folder for folder in dict.fromkeys((*wide, *near)) if folder.is_dir()]


def reading(path: Path, folders: list[Path]) -> tuple[str, int, str]:
    """First refusal of a .cu file that is compiled alone, "" if there is none, its number of kernels, and the first
    refusal of one of its kernels without the host code.
    """
    count = sum(map(len, kernels([read(path)]).values()))
    try:
        compile_alone(collected((path,), tuple(folders)), ProgramOptions(find("H100")))
    except WarpladderError as error:
        return " ".join(str(error).split()), count, of_kernels(path)
    return "", count, ""


def of_kernels(path: Path) -> str:
    """First refusal of a file's kernels as `warpladder check --list` gives it; "" if all of them compile."""
    try:
        source = device_code(path)
        reasons = [*refused(source).values(), *errors_of(source).values()]
    except WarpladderError as error:
        reasons = [str(error)]
    return " ".join(reasons[0].split()) if reasons else ""


def limited(seconds: int) -> None:
    """Limit the processor time of this process and of those that it starts, each for itself."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def outcome(repository: Path, files: list[Path], given: argparse.Namespace, words: list[str]) -> dict[str, Any]:
    """Row of a program: outcome, seconds, exit code, verdict that it prints, and the first refusal."""
    folders = folders_of(repository, files)
    options = [word for folder in folders for word in ("-I", str(folder))]
    more = shlex.split(given.options)
    command = [sys.executable, "-m", "warpladder", "run", *map(str, files), *options, *more, "--", *words]
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as printed:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, cwd=files[0].parent,
                timeout=10 * given.seconds, preexec_fn=lambda: limited(given.seconds),
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = LATE
        seconds = round(time.monotonic() - start, 1)
        texts = []
        for file in (printed, errors):
            file.seek(0)
            texts.append(file.read()[-40000:].decode(errors="replace"))
    row: dict[str, Any] = {
        "repository": repository.name,
        "program": str(files[0].relative_to(repository)),
        "arguments": words,
    }
    row |= judged(code, *texts) | {"seconds": seconds, "files": {}}
    if not given.options:
        for path in files:
            if path.suffix == ".cu":
                is_whole = row["outcome"] != "refused" or row["reason"].startswith("kernel ")
                row["files"][str(path.relative_to(repository))] = (
                    ("", sum(map(len, kernels([read(path)]).values())), "") if is_whole else reading(path, folders)
                )
    return row


def judged(code: int, printed: str, errors: str) -> dict[str, Any]:
    """Outcome of a program by its exit code, output and stderr."""
    said = re.findall(r"^(?:warpladder|Error): (.*)$", errors, re.MULTILINE)
    faults = re.findall(r"^\d+\. .*(?:\n   .*)*", errors, re.MULTILINE)
    lines = [line.strip() for line in printed.splitlines()]
    verdict = next((line for line in reversed(lines) if RIGHT.search(line) or WRONG.search(line)), "")
    wrong = next((line for line in lines if WRONG.search(line) and not RIGHT.search(line)), "")
    kind = {0: "ran", 99: "faults", LATE: "late", 128 + signal.SIGKILL: "late"}.get(
        code, "crashed" if code > 128 else "code"
    )
    if code == 2 and said:
        kind = "refused"
    if kind == "ran" and wrong:
        kind, verdict = "wrong", wrong
    tail = [line for line in errors.splitlines() if line.strip() and not line.startswith("remark")][-1:]
    reason = said[-1] if kind == "refused" else "; ".join(faults) or " ".join(tail)
    is_one_line = not re.search(r"Traceback|^\S+: (?:fatal )?error:", errors, re.MULTILINE)
    return {
        "outcome": kind, "code": code, "verdict": verdict[:100], "reason": " ".join(reason.split())[:600],
        "is_one_line": is_one_line, "remarks": re.findall(r"^remark: (.*)$", errors, re.MULTILINE)[:5],
    }  # fmt: skip


def construct(reason: str) -> str:
    """Refusal without its place, so that like ones are counted together."""
    return re.sub(r"^\S+?:\d+: ", "", reason)[:110]


def alone(repository: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Row of the .cu files that belong to no program."""
    seen = {name for row in rows if row["repository"] == repository.name for name in row["files"]}
    files = {}
    for path in sorted(repository.rglob("*.cu")):
        name = str(path.relative_to(repository))
        if name not in seen:
            files[name] = reading(path, folders_of(repository, [path]))
    return {"repository": repository.name, "program": "", "outcome": "", "files": files}


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown: a row for each repository, then each program, then refusals by construct."""
    out = ["| repository | .cu files read whole | all kernels | kernels compiled | programs | " + " | ".join(OUTCOMES)
           + " |", "| --- " * (len(OUTCOMES) + 5) + "|"]  # fmt: skip
    for name in dict.fromkeys(row["repository"] for row in rows):
        here = [row for row in rows if row["repository"] == name]
        files = [each for row in here for each in row["files"].values()]
        counts = Counter(row["outcome"] for row in here if row["program"])
        whole = [count for why, count, _ in files if not why]
        alone = sum(not of_kernels for *_, of_kernels in files)
        out.append(f"| {name} | {len(whole)} of {len(files)} | {alone} | {sum(whole)} of "
                   f"{sum(count for _, count, _ in files)} | {counts.total()} | " + " | ".join(str(counts[kind]) for kind in OUTCOMES) + " |")  # fmt: skip
    out += ["", "| program | read | outcome | its own verdict | first refusal |", "| --- " * 5 + "|"]
    for row in rows:
        if row["program"]:
            count = f"{sum(not why for why, *_ in row['files'].values())}/{len(row['files'])}"
            cells = [row["program"], count, row["outcome"], row["verdict"], row["reason"][:160]]
            out.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    for title, kinds in (("Programs", ("refused",)), ("Files", ())):
        reasons = (
            Counter(construct(row["reason"]) for row in rows if row["outcome"] in kinds) if kinds
            else Counter(construct(why) for row in rows for why, *_ in row["files"].values() if why)
        )  # fmt: skip
        out += ["", f"{title} refused:", *(f"{number:4} {reason}" for reason, number in reasons.most_common())]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="*", type=Path)
    parser.add_argument("--seconds", type=int, default=120, help="processor time that a program may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="regular expression that a program's path has to match")
    parser.add_argument("--again", default="^$", help="regular expression: outcomes or programs to make again")
    parser.add_argument("--options", default="", help="further options of `warpladder run`, as --check")
    parser.add_argument("--json", type=Path, required=True, help="file of all rows")
    parser.add_argument("--table", type=Path, help="file for the tables; printed otherwise")
    given = parser.parse_args()
    rows = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else []
    lock = Lock()

    def done(row: dict[str, Any]) -> None:
        with lock:
            rows[:] = [each for each in rows if (each["repository"], each["program"]) != (row["repository"],
                       row["program"])] + [row]  # fmt: skip
            rows.sort(key=lambda each: (each["repository"], each["program"]))
            given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            print(f"{row['outcome'] or 'files':8} {row['program']} {row.get('verdict') or row.get('reason', '')}"[:200])

    for repository in (path.resolve() for path in given.repositories):
        there = {row["program"]: row for row in rows if row["repository"] == repository.name}
        words = arguments_of(repository)
        cases = []
        for files in programs(repository):
            name = str(files[0].relative_to(repository))
            row = there.get(name)
            is_old = row and not re.search(given.again, f"{row['outcome']} {name}")
            if re.search(given.only, name) and not is_old:
                folder = files[0].parent.parent if files[0].parent.name == "src" else files[0].parent
                more = words.get(folder.name) or SMALLER.get(folder.name, "").split()
                cases.append((repository, files, given, more))
        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(lambda case: done(outcome(*case)), cases))
        if not given.options and not given.only:
            done(alone(repository, rows))
    text = tables(rows)
    given.table.write_text(text, encoding="utf-8") if given.table else print(text)


if __name__ == "__main__":
    main()
