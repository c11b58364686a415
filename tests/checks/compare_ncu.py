"""Counts of thirty kernels on the emulator next to Nsight Compute's on a GPU.

    python tests/checks/compare_ncu.py counts FILE.json    counts of the emulator; needs g++
    ncu ... python tests/checks/compare_ncu.py launch      launches the kernels on the GPU, each once
    python tests/checks/compare_ncu.py compare FILE.json NCU.csv

NCU.csv is what `ncu --csv --metrics NAMES` prints, with the names that `compare_ncu.py names` prints.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np

from warpladder.checker.description import Content, Description, LaunchRequest
from warpladder.checker.metrics.measure import measure
from warpladder.checker.metrics.names import of_kernel
from warpladder.device.source import read

KERNELS = Path(__file__).with_name("counted_kernels.cu")
N, THREADS = 16384, 256
PLAIN = ("wide", "pairs", "one", "gathered", "stencil", "reduced", "bins")
#: Names that are compared.
NAMES = tuple(
    f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum" for what in ("requests", "sectors") for op in ("ld", "st")
) + tuple(f"l1tex__data_{what}_pipe_lsu_mem_shared_op_{op}.sum" for what in ("pipe_lsu_wavefronts", "bank_conflicts")
          for op in ("ld", "st"))  # fmt: skip
NAMES = tuple(name.replace("wavefronts_pipe_lsu_mem", "wavefronts_mem") for name in NAMES)


def kernels() -> list[str]:
    return [*read(KERNELS).instances, *PLAIN]


def counts() -> dict[str, dict[str, float]]:
    arrays = {"x": Content((N,)), "y": Content((N,), "zeros")}
    found = {}
    for name in kernels():
        launch = LaunchRequest(name, (N // THREADS,), (THREADS,))
        kernel = measure(Description(KERNELS, (launch,), {"n": N}, arrays), 60, sys.exit)[0]
        found[name] = of_kernel(kernel)
    return found


def launch() -> None:
    from warpladder.device.gpu import GpuDevice

    device = GpuDevice()
    x = device.array(np.random.default_rng([0, 0]).standard_normal(N).astype(np.float32))
    y = device.array(np.zeros(N, np.float32))
    for name in kernels():
        device.kernel(KERNELS, name).bind(N // THREADS, THREADS, x, y, N).send()
    device.synchronize()


def compare(ours: dict[str, dict[str, float]], table: Path) -> int:
    """Print each pair of counts that differ; the number of them."""
    text = table.read_text().splitlines()
    start = next(i for i, line in enumerate(text) if line.startswith('"ID"'))
    theirs: dict[int, dict[str, float]] = {}
    for row in csv.DictReader(text[start:]):
        if row["ID"].isdigit():
            theirs.setdefault(int(row["ID"]), {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    differing = 0
    for name, measured in zip(ours, (theirs[number] for number in sorted(theirs)), strict=True):
        for metric in NAMES:
            mine, other = ours[name].get(metric, 0), measured.get(metric, float("nan"))
            if mine != other:
                differing += 1
                short = re.sub(r"l1tex__(?:t|data)_|pipe_lsu_|_mem|\.sum", "", metric)
                print(f"{name:<14} {short:<28} emulator {mine:>10,.0f}  ncu {other:>10,.0f}")
    print(f"{len(ours)} kernels, {len(ours) * len(NAMES)} counts, {differing} differ")
    return differing


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["names"]:
            print(",".join(NAMES))
        case ["counts", file]:
            Path(file).write_text(json.dumps(counts()))
        case ["launch"]:
            launch()
        case ["compare", file, table]:
            compare(json.loads(Path(file).read_text()), Path(table))
        case _:
            sys.exit(__doc__)
