"""Judge the CUDA kernels of the Indigo suite, as the artifact of HiRace (SC24) has them, by the checker.

    git clone https://github.com/JohnJacobsonIII/HiRace-Artifact-SC24
    python tests/checks/judge_indigo.py HiRace-Artifact-SC24/indigo
    python tests/checks/judge_indigo.py HiRace-Artifact-SC24/indigo --graph power_law_200n_1000e --grid 1024

A kernel is racy if its file's name has a bug other than boundsBug, which reads past an array. The table has, for each
pattern, the racy kernels in which a race was found, and the others in which one was reported; it exits with 1 if a
kernel is judged wrongly. Nothing of the suite is in this repository.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from warpladder.checker.check import check
from warpladder.checker.description import Content, Description, LaunchRequest
from warpladder.checker.faults import Problem

TOGETHER = 32  # kernels in one source, which is compiled at once


def graph(path: Path) -> dict[str, np.ndarray]:
    """Arguments of every kernel for a graph's file: where neighbours begin, the neighbours, and two arrays of data."""
    numbers = np.fromfile(path, np.int32)
    nodes, edges = numbers[:2].tolist()
    size, libc = max(nodes, edges, 1), ctypes.CDLL(None)
    libc.srand(1)  # the numbers of the suite's own main function, where a program has called no srand
    data1, data2 = ([0] + [libc.rand() % most for _ in range(size - 1)] for most in (nodes, max(1, edges)))
    nindex, nlist = np.split(numbers[2:], [nodes + 1])
    return {"nindex": nindex, "nlist": nlist, "data1": np.array(data1, np.int32), "data2": np.array(data2, np.int32)}


def is_racy(name: str) -> bool:
    return "Bug" in name.replace("boundsBug", "")


def kernel_text(path: Path, name: str) -> str:
    """The kernel of a file and its device functions, under another name."""
    text = path.read_text(encoding="utf-8")
    text = text[text.index("typedef int data_t") :]
    text = text[: text.index("void serial_code")].replace("typedef int data_t;", "")
    text = text.replace('#include "indigo_cuda.h"', "").replace("test_kernel", name)
    for function in ("atomicRead", "atomicWrite"):
        text = re.sub(rf"\b{function}\b", f"{name}_{function}", text)
    return text


def problems(files: list[Path], data: dict[str, np.ndarray], grid: int, block: int) -> dict[Path, list[Problem]]:
    """Faults of each of these files' kernels, each on arrays of its own."""
    with TemporaryDirectory() as name:
        folder, arrays, launches, texts = Path(name), {}, [], ["typedef int data_t;\n"]
        for array, numbers in data.items():
            np.save(folder / f"{array}.npy", numbers)
        for array in ("nindex", "nlist"):
            arrays[array] = Content((), str(folder / f"{array}.npy"))
        for number, path in enumerate(files):
            texts.append(kernel_text(path, f"kernel{number}"))
            own = {array: f"{array}_{number}" for array in ("data1", "data2")}
            arrays |= {own[array]: Content((), str(folder / f"{array}.npy")) for array in own}
            launches.append(LaunchRequest(f"kernel{number}", (grid,), (block,), 0, own))
        source = folder / "indigo.cu"
        source.write_text("".join(texts), encoding="utf-8")
        values = {"numv": len(data["nindex"]) - 1}
        outcome = check(Description(source, tuple(launches), values, arrays), ("check",))
    found: dict[Path, list[Problem]] = {path: [] for path in files}
    for problem in outcome.problems:
        found[files[int(problem.kernel.removeprefix("kernel"))]].append(problem)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path, help="folder with indigo_sources and input")
    parser.add_argument("--graph", default="DAG_100n_200e", help="file in input, without .egr")
    parser.add_argument("--grid", type=int, default=256, help="blocks, at least as many as nodes and edges")
    parser.add_argument("--block", type=int, default=64, help="threads in a block")
    parser.add_argument("--only", default="", help="part of the names of the files to judge")
    given = parser.parse_args()
    data = graph(given.suite / "input" / f"{given.graph}.egr")
    files = [path for path in sorted((given.suite / "indigo_sources").rglob("*.cu")) if given.only in path.name]
    judged = []
    for first in range(0, len(files), TOGETHER):
        some = files[first : first + TOGETHER]
        for path, faults in problems(some, data, given.grid, given.block).items():
            racy, found = is_racy(path.name), any(fault.kind == "race" for fault in faults)
            judged.append((path.parent.name, racy, found))
            kinds = sorted({fault.kind for fault in faults})
            if racy != found:
                print(f"{'MISSED' if racy else 'FALSE ALARM'} {path.name}: {', '.join(kinds) or 'nothing'}", flush=True)
                for fault in faults if found else ():
                    print(f"    {fault.message}", flush=True)
    table: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
    for pattern, racy, found in judged:
        for name in (pattern, "all"):
            table[name][0 if racy else 2] += 1
            table[name][1 if racy else 3] += found
    print(f"{'pattern':36}{'racy':>6}{'found':>7}{'others':>8}{'alarms':>8}")
    for pattern, row in table.items():
        print(f"{pattern:36}{row[0]:6}{row[1]:7}{row[2]:8}{row[3]:8}")
    return 0 if judged and all(racy == found for _, racy, found in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
