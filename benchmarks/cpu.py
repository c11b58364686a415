"""Training speed on the CPU next to PyTorch and scikit-learn, all in one run.

    # everything, some ten minutes; DIR has mnist/ and cifar10/
    python benchmarks/cpu.py --data-dir DIR
    # some of it
    python benchmarks/cpu.py --case mlp --case cnn
    # on a machine with more, whose host has other guests: each case on the two that multiply fastest
    python benchmarks/cpu.py --processors 2
    # two rounds, to see that it works: nothing is stored
    python benchmarks/cpu.py --quick

Every trainer trains the same steps of the same data from the same weights, in a row, after some that are not timed; of
full batches, where an epoch is a step, as many epochs. Shuffling, gathering and conversion are part of the time;
loading and compiling are not. Trainers take turns, round by round, so that a disturbance of the machine disturbs all of
them, and a speed-up is the median of the rounds' ratios. A result during which other programs used more than a
twentieth of the cores' time is stored only with --out. The number of cores that the threads have is measured before and
after each time, since a hypervisor may put two processors of a guest on one core: a speed-up is also given for the
rounds in which both trainers had cores of their own. If cores have two threads each, native and PyTorch are timed with
a thread for each core as well. Without the data set at hand the images are random bytes, and the result states it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from cores import busy_now, busy_others, pinned_to, processor, quiet
from cpu_cases import CASES, Case, run_case
from crowd import PROCESSES, crowd
from rich.console import Console
from rich.table import Table
from starts import RSS_LIMIT_MB, WARM_LIMIT, native_after_numpy, peak_rss, start_up

from warpladder.files.atomic import write_atomically
from warpladder.machine import facts as machine

RESULTS = Path(__file__).parent / "results"
DISTURBED = 0.05  # share of the cores' time that other programs may take


def run_quiet(case: Case, options: list[str], count: int, everywhere: set[int]) -> dict[str, Any]:
    """Time one case in a process of its own, on the `count` of the processors `everywhere` that multiply fastest at
    this moment.
    """
    with pinned_to(everywhere):
        chosen, alone = quiet(count)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "case.json"
        with pinned_to(chosen):
            subprocess.run(
                [sys.executable, __file__, "--case", case.name, *options, "--out", str(out)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        [found] = json.loads(out.read_text())["cases"]
    return {**found, "processors": sorted(chosen), "flops_alone": alone}


def show(report: dict[str, Any]) -> None:
    """Print the tables of a report."""
    console = Console()
    for each in report["cases"]:
        show_case(console, each)
    show_starts(console, report)


def show_case(console: Console, each: dict[str, Any]) -> None:
    """Print the table of a case."""
    floor = each["floor_seconds"] * 1e6
    title = f"{each['case']}, batch {each['batch']:,}, {each['data']}: floor {floor:,.0f} us a step"
    table = Table(title=title, title_justify="left")
    for column in ("trainer", "median us", "least", "most", "share of the FMA peak", "native is faster", "target"):
        table.add_column(column, justify="left" if column == "trainer" else "right")
    native = each["seconds_per_step"]["native"]
    judged = {verdict["against"]: verdict for verdict in each["speedups"].values()}
    for name, seconds in each["seconds_per_step"].items():
        middle = statistics.median(seconds)
        ratio = statistics.median([theirs / ours for theirs, ours in zip(seconds, native, strict=True)])
        verdict = judged.get(name)
        table.add_row(
            name, f"{middle * 1e6:,.0f}", f"{min(seconds) * 1e6:,.0f}", f"{max(seconds) * 1e6:,.0f}",
            f"{each['floor_seconds'] / middle:.0%}", f"{ratio:.2f}x" if name != "native" else "",
            f"{verdict['target']}x {'met' if verdict['met'] else 'MISSED'}" if verdict else "",
        )  # fmt: skip
    console.print(table)
    if "processors" in each:
        fastest = ", ".join(f"{number} ({each['flops_alone'][number] / 1e9:.0f})" for number in each["processors"])
        console.print(f"on processors that multiplied fastest, GFLOP/s of each alone: {fastest}")
    console.print("cores that the threads had before and after each round, the lesser:")
    for name, counts in each["cores"].items():
        console.print(f"  {name}: {', '.join(f'{count:.2f}' for count in counts)}")
    for verdict in each["speedups"].values():
        if verdict["ratio_on_own_cores"] is not None:
            which = f"{verdict['rounds_on_own_cores']} rounds on cores of their own"
            console.print(f"over {verdict['against']} in the {which}: {verdict['ratio_on_own_cores']:.2f}x")


def show_starts(console: Console, report: dict[str, Any]) -> None:
    """Print the times of the crowd, of starts, and the peaks of memory."""
    if threads := report.get("crowd"):
        for what, seconds in threads["seconds"].items():
            console.print(f"{what}: {statistics.median(seconds):.2f} s")
        verdict = "met" if threads["met"] else "MISSED"
        ratio = f"{threads['ratio']:.2f}, limit {threads['limit']} {verdict}"
        console.print(f"{PROCESSES} processes, all threads over one thread each: {ratio}")
    for what, found in report.get("start_up", {}).items():
        limit = f", limit {found['limit']} s" if found["limit"] else ""
        console.print(f"{what}: {statistics.median(found['seconds']):.3f} s{limit}")
    if warm := report.get("start_up"):
        console.print(
            f"a second start of native takes {native_after_numpy(warm):.2f} s more than NumPy's, limit {WARM_LIMIT} s"
        )
    for name, megabytes in report.get("peak_rss_mb", {}).items():
        console.print(f"peak memory, mlp on mnist, {name}: {megabytes:.0f} MB, limit {RSS_LIMIT_MB} MB")


@click.command(help=__doc__.split("\n")[0])
@click.option(
    "--case", "names", multiple=True, type=click.Choice([case.name for case in CASES]), help="Only these cases."
)
@click.option("--data-dir", help="Folder with the data sets' files: DIR/mnist, DIR/cifar10.")
@click.option(
    "--random",
    "made_up",
    is_flag=True,
    help="Random images in place of the data sets, and nothing is downloaded; the peak of memory is left out.",
)
@click.option("--rounds", default=15, show_default=True, help="Timed rounds.")
@click.option(
    "--processors",
    "count",
    type=click.IntRange(1),
    help="Train each case on so many, those that multiply fastest just before; Linux only.",
)
@click.option("--quick", is_flag=True, help="Two rounds, and nothing is stored.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    help="Where the result goes; benchmarks/results/cpu-KIND.json, a file for each kind of processor, if not given.",
)
def main(
    names: tuple[str, ...],
    data_dir: str | None,
    made_up: bool,
    rounds: int,
    count: int | None,
    quick: bool,
    out: str | None,
) -> None:
    if count:
        everywhere = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        if count > len(everywhere):
            raise click.UsageError(f"--processors {count}: this process can choose among {len(everywhere)}")
        os.sched_setaffinity(0, quiet(count)[0])
    rounds = 2 if quick else rounds
    facts = machine.facts()
    kind = processor(facts)
    vectors = f"{facts['target']} with {kind['vectors']}, {kind['lanes']} floats a vector"
    print(f"{facts['cpu']}, {kind['cores'] or '?'} cores, {facts['threads']} threads: {vectors}")
    cases = []
    peak = facts["fma_peak"]
    started, (busy, own) = time.perf_counter(), busy_now()
    for case in CASES:
        if not names or case.name in names:
            if count:
                options = [
                    "--rounds",
                    str(rounds),
                    *(["--data-dir", data_dir] if data_dir else []),
                    *(["--random"] if made_up else []),
                ]
                cases.append(run_quiet(case, options, count, everywhere))
            else:
                peak = max(peak, machine.fma_peak())
                cases.append(run_case(case, data_dir, made_up, rounds, peak))
    report = {
        "machine": {**facts, "fma_peak": peak},
        "processor": kind,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cases": cases,
    }
    if not names:
        report |= {"crowd": crowd(1 if quick else 3), "start_up": start_up(3 if quick else 8)}
        report |= {} if made_up else {"peak_rss_mb": peak_rss(data_dir)}
    others = report["busy_beside"] = busy_others(busy, own, time.perf_counter() - started)
    show(report)
    if others is not None:
        print(f"other programs used {others:.0%} of the processors' time")
    if quick:
        return
    if names and not out:
        print("not stored: the whole run's file stays; --out FILE stores these cases")
    elif others is not None and others > DISTURBED and not out:
        print("not stored: the times are those of a machine that others used; --out FILE stores them all the same")
    else:
        path = Path(out) if out else RESULTS / f"cpu-{kind['kind']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(report, indent=1) + "\n")
        print(f"stored {path}")


if __name__ == "__main__":
    main()
