"""Training speed on the CPU beside PyTorch and scikit-learn, all in one run.

    # everything, some ten minutes; DIR has mnist/ and cifar10/
    python benchmarks/cpu.py --data-dir DIR
    # some of it
    python benchmarks/cpu.py --case mlp --case cnn
    # on a machine with more, whose host has other guests: each case on the two that multiply fastest
    python benchmarks/cpu.py --processors 2
    # two rounds, to see that it works: nothing is stored
    python benchmarks/cpu.py --quick

Every trainer trains the same steps of the same data from the same weights, in a row, behind some that are not timed;
of full batches, where an epoch is a step, as many epochs. Shuffling, gathering and conversion are part of the time;
loading and compiling are not. Trainers take turns, round by round, so that what disturbs the machine disturbs all of
them, and a speed-up is the median of the rounds' ratios. A result during which other programs kept more than a
twentieth of the cores busy is stored only where --out says so. How many cores the threads have is measured before and
behind whatever is timed, since a hypervisor may put two processors of a guest on one core: a speed-up is also given
for the rounds in which both trainers had cores of their own. Where cores have two threads each, native and PyTorch are
timed with a thread for each core as well. Without the data set at hand the images are random bytes, and the result
says so.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from cores import busy_beside, busy_now, cores_now, kept_to, physical_cores, processor, quiet
from crowd import PROCESSES, crowd
from rich.console import Console
from rich.table import Table
from starts import RSS_LIMIT_MB, WARM_LIMIT, native_after_numpy, peak_rss, start_up

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.files.atomic import write_atomically
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import Net, params
from warpladder.optimizers import Adam
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.native.compiler.vectors import LANES

RESULTS = Path(__file__).parent / "results"
DISTURBED = 0.05  # share of the cores' time that other programs may take
# of a core for each thread, at least, where threads count as on cores of their own: those of one core have half each
OWN = 0.8
#: seconds that a trainer trains before its cores are counted: the last one's idle threads spin for a while, and would
#: take its own
SETTLE = 0.2
# seconds that it trains before the clock starts: behind a pause threads sleep and clocks rest, which a training meets
# once
WARM = 0.2


@dataclass(frozen=True)
class Case:
    """A row of the table: `steps` are timed at once; `targets` are speed-ups of native over the best of each family of
    peers, without AVX-512 and with it.
    """

    name: str
    net: Net
    config: TrainConfig
    data: str
    validation: int
    steps: int
    trainers: tuple[str, ...]
    targets: dict[str, tuple[float, float]]


def one(batch: int | None) -> TrainConfig:
    return TrainConfig(batch_size=batch, learning_rate=1e-3)


CASES = (
    Case(
        "mlp",
        nets.mlp(),
        one(64),
        "mnist",
        0,
        938,
        ("native", "numpy", "torch", "sklearn"),
        {"torch": (2, 3.5), "sklearn": (5, 5)},
    ),
    Case(
        "mlp-adam",
        nets.mlp(),
        TrainConfig(batch_size=64, optimizer=Adam(1e-4)),
        "mnist",
        0,
        938,
        ("native", "torch"),
        {"torch": (2, 2)},
    ),
    Case("softmax", nets.softmax(), one(128), "mnist", 0, 469, ("native", "numpy", "torch"), {"torch": (4, 9)}),
    Case("mlp10", nets.mlp10(), one(None), "mnist", 1000, 20, ("native", "numpy", "torch"), {"torch": (4, 4)}),
    Case("cnn", nets.cnn(), one(64), "mnist", 0, 30, ("native", "torch", "torch:images=last"), {"torch": (1.3, 2)}),
    Case(
        "autoencoder",
        nets.autoencoder(),
        one(32),
        "cifar10",
        0,
        2,
        ("native", "torch", "torch:images=last"),
        {"torch": (1.2, 1.8)},
    ),
)


def dataset(case: Case, data_dir: str | None, made_up: bool) -> tuple[Dataset, bool]:
    """The case's data, and whether it is real."""
    if not made_up:
        try:
            return data.load(case.data, data_dir=data_dir, validation=case.validation, progress=False), True
        except DataError as error:
            print(f"{case.name}: random images instead of {case.data} ({error})", file=sys.stderr)
    random = np.random.default_rng(0)
    count = 60000 - case.validation if case.data == "mnist" else 10000
    x = random.integers(0, 256, (count, *case.net.in_shape), dtype=np.uint8)
    y = random.integers(0, 10, count).astype(np.int32)
    return Dataset(f"random {case.data}", x, y, x[:100], y[:100], scale=1 / 255), False


def contenders(case: Case) -> list[str]:
    """The case's trainers; where cores run two threads each, native and PyTorch also with as many threads as there are
    cores.
    """
    cores = physical_cores() or machine.cores()
    fewer = [f"{name}:threads={cores}" for name in case.trainers if name.split(":")[0] in ("native", "torch")]
    return [*case.trainers, *(fewer if cores < machine.cores() else [])]


def family(name: str) -> str:
    """What a trainer's name begins with: native, torch."""
    return name.split(":")[0]


def run_case(case: Case, data_dir: str | None, made_up: bool, rounds: int, peak: float) -> dict[str, Any]:
    """Time one case; seconds are of one step."""
    train, real = dataset(case, data_dir, made_up)
    start = params.initial(case.net, 0)
    state = State(start)
    trainers = {}
    for name in contenders(case):
        rung = find(name)
        reason = rung.unsupported(case.net, case.config)
        if reason:
            print(f"{case.name}: without {name}: {reason}", file=sys.stderr)
            continue
        trainers[name] = rung.build(case.net, case.config, state)
        trainers[name].load(train)
    order = Order(0, 0, len(train.train_x))
    full = case.config.steps(order.n) == 1
    steps = case.steps if full else min(case.steps, case.config.steps(order.n))
    samples: dict[str, list[float]] = {name: [] for name in trainers}
    cores: dict[str, list[float]] = {name: [] for name in trainers}
    threads = machine.cores()

    def trained(trainer: Trainer, count: int) -> list[StepLog]:
        return (
            trainer.run_epochs([Order(0, epoch, order.n) for epoch in range(count)])
            if full
            else [trainer.run(order, 0, count)]
        )

    def train_for(trainer: Trainer, seconds: float) -> None:
        before = time.perf_counter()
        while time.perf_counter() - before < seconds:
            trained(trainer, max(1, steps // 10))

    for number in range(-1, rounds):  # the first round warms up
        for name, trainer in trainers.items():
            train_for(trainer, SETTLE)
            had = cores_now(threads)
            train_for(trainer, WARM)
            trainer.set_state(state)
            before = time.perf_counter()
            logs = trained(trainer, steps)
            seconds = (time.perf_counter() - before) / steps
            if not all(np.isfinite(log.loss).all() for log in logs):
                raise ArithmeticError(f"{case.name} on {name}: the loss is not finite, so its time means nothing")
            if number >= 0:
                samples[name].append(seconds)
                cores[name].append(min(had, cores_now(threads)))
    for trainer in trainers.values():
        trainer.close()
    batch = case.config.batch(order.n)
    floor = case.net.train_flops * batch / peak
    verdicts = {}
    for kind, (narrow, wide) in case.targets.items():
        target = wide if LANES == 16 else narrow
        members = [name for name in trainers if family(name) == kind]
        if members:
            best = min(members, key=lambda name: statistics.median(samples[name]))
            ratios = [theirs / ours for theirs, ours in zip(samples[best], samples["native"], strict=True)]
            found = statistics.median(ratios)
            verdicts[kind] = {
                "against": best,
                "target": target,
                "ratio": found,
                "ratios": ratios,
                "met": bool(found >= target),
            }
            least = [min(pair) for pair in zip(cores[best], cores["native"], strict=True)]
            whole = [ratio for ratio, count in zip(ratios, least, strict=True) if count >= OWN * threads]
            verdicts[kind] |= {
                "rounds_on_own_cores": len(whole),
                "ratio_on_own_cores": statistics.median(whole) if whole else None,
            }
    return {
        "case": case.name, "data": train.name, "real_data": real, "samples": order.n, "batch": batch, "steps": steps,
        "flops_per_step": case.net.train_flops * batch, "floor_seconds": floor, "seconds_per_step": samples, "cores": cores, "speedups": verdicts,
    }  # fmt: skip


def run_quiet(case: Case, options: list[str], count: int, everywhere: set[int]) -> dict[str, Any]:
    """Time one case in a process of its own, on the `count` of the processors `everywhere` that multiply fastest at
    this moment.
    """
    with kept_to(everywhere):
        chosen, alone = quiet(count)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "case.json"
        with kept_to(chosen):
            subprocess.run(
                [sys.executable, __file__, "--case", case.name, *options, "--out", str(out)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        [found] = json.loads(out.read_text())["cases"]
    return {**found, "processors": sorted(chosen), "flops_alone": alone}


def show(report: dict[str, Any]) -> None:
    """The tables that a person reads."""
    console = Console()
    for each in report["cases"]:
        title = f"{each['case']}, batch {each['batch']:,}, {each['data']}: floor {each['floor_seconds'] * 1e6:,.0f} us a step"
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
        console.print("cores that the threads had before and behind each round, the lesser:")
        for name, counts in each["cores"].items():
            console.print(f"  {name}: {', '.join(f'{count:.2f}' for count in counts)}")
        for verdict in each["speedups"].values():
            if verdict["ratio_on_own_cores"] is not None:
                console.print(
                    f"over {verdict['against']} in the {verdict['rounds_on_own_cores']} rounds on cores of their own: {verdict['ratio_on_own_cores']:.2f}x"
                )
    if threads := report.get("crowd"):
        for what, seconds in threads["seconds"].items():
            console.print(f"{what}: {statistics.median(seconds):.2f} s")
        verdict = "met" if threads["met"] else "MISSED"
        console.print(
            f"{PROCESSES} processes, all threads over one thread each: {threads['ratio']:.2f}, limit {threads['limit']} {verdict}"
        )
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
    print(
        f"{facts['cpu']}, {kind['cores'] or '?'} cores, {facts['threads']} threads: {facts['target']} with {kind['vectors']}, {kind['lanes']} floats a vector"
    )
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
    others = report["busy_beside"] = busy_beside(busy, own, time.perf_counter() - started)
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
