"""Counts of thirty kernels on the emulator next to Nsight Compute's on a GPU.

    python tests/checks/compare_ncu.py names [AVAILABLE]   metrics for ncu; AVAILABLE: file with ncu --query-metrics
    python tests/checks/compare_ncu.py counts FILE.json    counts of the emulator; needs g++
    ncu ... python tests/checks/compare_ncu.py launch      launches the kernels on the GPU, each once
    python tests/checks/compare_ncu.py compare FILE.json NCU.csv RESULT.json    prints and stores the table

NCU.csv is what `ncu --csv --metrics NAMES` prints, or the page "raw" of its report.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from warpladder.checker.description import Content, Description, LaunchRequest
from warpladder.checker.metrics.measure import measure
from warpladder.checker.metrics.names import of_kernel
from warpladder.device.limits import Limits, Resources
from warpladder.device.occupancy import occupancy
from warpladder.device.source import read

KERNELS = Path(__file__).with_name("counted_kernels.cu")
N, THREADS = 16384, 256
PLAIN = ("wide", "pairs", "one", "gathered", "stencil", "reduced", "bins")
OCCUPANCY, REGISTERS = "sm__maximum_warps_per_active_cycle_pct", "launch__registers_per_thread"
#: Metrics that are compared, by the emulator's name; ncu's differ where it counts in two classes.
METRICS = {
    **{
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum": (f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum",)
        for what in ("requests", "sectors")
        for op in ("ld", "st")
    },
    **{
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_atom.sum": (
            f"l1tex__t_{what}_pipe_lsu_mem_global_op_atom.sum",
            f"l1tex__t_{what}_pipe_lsu_mem_global_op_red.sum",
        )
        for what in ("requests", "sectors")
    },
    **{
        name: (name,)
        for op in ("ld", "st", "atom")
        for name in (
            f"smsp__inst_executed_op_shared_{op}.sum",
            f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum",
            f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum",
        )
    },
    **{
        name: (name,)
        for op in ("fadd", "fmul", "ffma")
        for name in (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum",)
    },
    "smsp__thread_inst_executed_per_inst_executed.ratio": ("smsp__thread_inst_executed_per_inst_executed.ratio",),
    OCCUPANCY: (OCCUPANCY,),
}
#: Reasons of known differences: pattern of the kernel, pattern of the metric, the reason.
REASONS = (
    ("turned.*|reduced|bins", "inst_executed_op_shared",
     "ncu counts instructions that a predicate has switched off for all lanes"),
    ("shifted.*|reduced", "thread_inst_executed_per_inst",
     "nvcc selects by predicates where g++ branches; ncu counts instructions, the emulator basic blocks"),
    ("diverging.*", "thread_inst_executed_per_inst", "ncu counts instructions, the emulator basic blocks"),
    ("added.*|bins", "op_fadd", "an atomic addition is FADD here, and RED on the GPU"),
    ("bins", "shared_op_atom", "nvcc adds a constant by ATOMS.POPC.INC, all lanes of an element in one pass"),
)  # fmt: skip


def names(available: str = "") -> list[str]:
    """Names for `ncu --metrics`; without those that ncu does not list, if its list is given."""
    wanted = [name for each in METRICS.values() for name in each]
    known = [name for name in wanted if not available or name.split(".")[0] in available or name == OCCUPANCY]
    return [*known, REGISTERS]


def kernels() -> list[str]:
    return [*read(KERNELS).instances, *PLAIN]


def counts() -> dict[str, dict[str, Any]]:
    arrays = {"x": Content((N,)), "y": Content((N,), "zeros")}
    found = {}
    for name in kernels():
        launch = LaunchRequest(name, (N // THREADS,), (THREADS,))
        kernel = measure(Description(KERNELS, (launch,), {"n": N}, arrays), 60, sys.exit)[0]
        found[name] = {"static_shared": kernel.static_shared, **of_kernel(kernel)}
    return found


def launch() -> None:
    from warpladder.device.gpu import GpuDevice

    device = GpuDevice()
    x = device.array(np.random.default_rng([0, 0]).standard_normal(N).astype(np.float32))
    y = device.array(np.zeros(N, np.float32))
    for name in kernels():
        device.kernel(KERNELS, name).bind(N // THREADS, THREADS, x, y, N).send()
    device.synchronize()


def read_table(table: Path) -> list[tuple[str, dict[str, float]]]:
    """Name and metrics of each launch of these kernels, from either form of ncu's CSV."""
    text = table.read_text().splitlines()
    rows = list(csv.DictReader(text[next(i for i, line in enumerate(text) if line.startswith('"ID"')) :]))
    found: dict[int, tuple[str, dict[str, float]]] = {}
    ours, counted = {re.split(r"\W", name)[0] for name in kernels()}, set(names())
    for row in rows:
        base = re.sub(r"^(void )?([\w:]*::)?", "", row["Kernel Name"])
        base = re.split(r"\W", base)[0]
        if row["ID"].isdigit() and base in ours:
            pairs = [(row["Metric Name"], row["Metric Value"])] if "Metric Name" in row else list(row.items())
            values = found.setdefault(int(row["ID"]), (base, {}))[1]
            for name, value in pairs:
                if name in counted:
                    values[name] = float(value.replace(",", ""))
    return [found[number] for number in sorted(found)]


def reason(kernel: str, metric: str) -> str:
    """Reason of a known difference; "" if there is none."""
    return next((why for k, m, why in REASONS if re.fullmatch(k, kernel) and re.search(m, metric)), "")


def compare(ours: dict[str, dict[str, Any]], table: Path, result: Path) -> int:
    """Print and store each pair of counts; the number of differences without a reason."""
    rows: list[dict[str, Any]] = []
    for (name, mine), (base, theirs) in zip(ours.items(), read_table(table), strict=True):
        assert re.split(r"\W", name)[0] == base, (name, base)
        resources = Resources(registers=int(theirs[REGISTERS]), static_shared=mine["static_shared"])
        mine[OCCUPANCY] = 100 * occupancy((THREADS, 1, 1), 0, resources, Limits("H100"))
        for metric, parts in METRICS.items():
            known = [theirs[part] for part in parts if part in theirs]
            other = sum(known) if known else None
            if mine.get(metric, 0) or other:
                equal = other is not None and abs(mine.get(metric, 0) - other) < 5e-5 * max(1, other)
                why = "equal" if equal else "ncu has no such metric" if other is None else reason(name, metric)
                rows.append({"kernel": name, "metric": metric, "ours": mine.get(metric, 0), "ncu": other, "is": why})
    print("| kernel | metric | ours | ncu | |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        theirs_shown = "-" if row["ncu"] is None else f"{row['ncu']:,.6g}" if row["ncu"] % 1 else f"{row['ncu']:,.0f}"
        ours_shown = f"{row['ours']:,.6g}" if row["ours"] % 1 else f"{row['ours']:,.0f}"
        print(f"| {row['kernel']} | {row['metric']} | {ours_shown} | {theirs_shown} | {row['is'] or 'DIFFERENT'} |")
    open_ones = sum(not row["is"] for row in rows)
    equals = sum(row["is"] == "equal" for row in rows)
    print(
        f"\n{len(ours)} kernels, {len(rows)} counts: {equals} equal, {len(rows) - equals - open_ones} explained, ",
        end="",
    )
    print(f"{open_ones} different without a reason")
    result.write_text(json.dumps({"machine": machine(table), "counts": rows}, indent=1) + "\n")
    return open_ones


def machine(table: Path) -> dict[str, str]:
    """GPU of ncu's table, and this machine's g++."""
    text = table.read_text().splitlines()
    start = next(i for i, line in enumerate(text) if line.startswith('"ID"'))
    row = next(row for row in csv.DictReader(text[start:]) if row["ID"].isdigit())
    found = {"gpu": row.get("device__attribute_display_name", ""), "compute capability": row["CC"]}
    found["g++"] = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["names", *available]:
            print(",".join(names("".join(Path(file).read_text() for file in available))))
        case ["counts", file]:
            Path(file).write_text(json.dumps(counts()))
        case ["launch"]:
            launch()
        case ["compare", file, table, result]:
            sys.exit(compare(json.loads(Path(file).read_text()), Path(table), Path(result)) > 0)
        case _:
            sys.exit(__doc__)
