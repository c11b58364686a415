"""Table of the CUDA programs in folders of other repositories: read, compiled, run to the end, and what was refused.

    PYTHONPATH=src python tests/support/count_programs.py ~/cuda-samples ~/course --timeout 40 --json out.json

A folder's sources with one main() are one program; otherwise each file with a main() is one. A folder `Common` of the
repository is passed as -I. Ran : exit code 0 without a fault; what a program prints is not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MAIN = re.compile(r"^[ \t]*(?:int|void|auto)?\s*\bmain\s*\([^;{]*\)\s*\{", re.MULTILINE)
SOURCES = (".cu", ".cpp", ".cc", ".c")
OUTCOMES = ("ran", "code", "faults", "late", "refused", "crashed")


def programs(repository: Path) -> list[list[Path]]:
    """Files of each program: those of a folder with one main(), or each file with a main() by itself."""
    found = []
    for folder in sorted({path.parent for path in repository.rglob("*.cu")}):
        files = sorted(path for path in folder.iterdir() if path.suffix in SOURCES)
        mains = [path for path in files if MAIN.search(path.read_text(encoding="utf-8", errors="replace"))]
        if len(mains) == 1:
            found.append([*mains, *(path for path in files if path not in mains)])
        else:
            found += [[path] for path in mains if path.suffix == ".cu"]
    return found


def outcome(files: list[Path], folders: list[Path], limit: float, more: list[str]) -> dict[str, object]:
    """Row of a program: outcome, seconds, exit code, and the first line on stderr that explains it."""
    near = [folder for folder in (files[0].parent.parent / "inc", files[0].parent / "inc") if folder.is_dir()]
    options = [word for folder in (*folders, *near) for word in ("-I", str(folder))]
    command = [sys.executable, "-m", "warpladder", "run", *map(str, files), *options, "--timeout", f"{limit:g}", *more]
    start = time.monotonic()
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as printed:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, cwd=files[0].parent,
                timeout=limit + 240,
            )  # fmt: skip
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = 124
        errors.seek(0)
        text = errors.read()[-20000:].decode(errors="replace")
    refused = re.findall(r"^(?:warpladder|Error): (.*)$", text, re.MULTILINE)
    kind = {0: "ran", 99: "faults", 124: "late"}.get(code, "crashed" if code > 128 else "code")
    if code == 2 and refused:
        kind = "refused"
    faults = re.findall(r"^\d+\. .*(?:\n   .*)*", text, re.MULTILINE)
    reason = " ".join((refused[-1] if kind in ("refused", "late") and refused else "; ".join(faults)).split())
    return {
        "files": [str(path) for path in files], "outcome": kind, "code": code, "reason": reason,
        "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip


def construct(reason: str) -> str:
    """Refusal without its place, so that like ones are counted together."""
    return re.sub(r"^\S+?:\d+: ", "", reason)[:110]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--timeout", type=float, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="regular expression that a program's path has to match")
    parser.add_argument("--options", default="", help="further options of `warpladder run`, as --check")
    parser.add_argument("--json", type=Path, help="file for all rows")
    given = parser.parse_args()
    rows = []
    print("| repository | programs | " + " | ".join(OUTCOMES) + " |")
    print("| --- " * (len(OUTCOMES) + 2) + "|")
    refusals: Counter[str] = Counter()
    for repository in (path.resolve() for path in given.repositories):
        cases = [files for files in programs(repository) if re.search(given.only, str(files[0]))]
        folders = [folder for folder in (repository / "Common", repository / "include") if folder.is_dir()]
        with ThreadPoolExecutor(given.jobs) as pool:
            here = list(pool.map(
                lambda files, folders=folders: outcome(files, folders, given.timeout, shlex.split(given.options)), cases
            ))  # fmt: skip
        counts = Counter(str(row["outcome"]) for row in here)
        print(f"| {repository.name} | {len(here)} | " + " | ".join(str(counts[kind]) for kind in OUTCOMES) + " |")
        refusals.update(construct(str(row["reason"])) for row in here if row["outcome"] == "refused")
        rows += here
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\nRefused:")
    for reason, number in refusals.most_common():
        print(f"{number:4} {reason}")


if __name__ == "__main__":
    main()
