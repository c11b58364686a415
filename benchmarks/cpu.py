"""Training speed on the CPU beside PyTorch and scikit-learn, all in one run.

    python benchmarks/cpu.py --data-dir DIR            # everything, about five minutes; DIR has mnist/ and cifar10/
    python benchmarks/cpu.py --case mlp --case cnn     # some of it
    python benchmarks/cpu.py --quick                   # two rounds, to see that it works

Every trainer trains the same steps of the same data from the same weights. Shuffling, gathering and
conversion are part of the time; loading and compiling are not. Trainers take turns, round by round, so that
what disturbs the machine disturbs all of them, and a speed-up is the median of the rounds' ratios.
Without the data set at hand the images are random bytes, and the result says so.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from warpladder import data, machine, nets, params
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.errors import DataError
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.order import Order
from warpladder.results.files import write_whole
from warpladder.trainers.base import State
from warpladder.trainers.native.emit import LANES

RESULTS = Path(__file__).parent / "results"
SETTLE = 0.2  # seconds between two trainers: a library's idle threads spin for a while, and would take the next one's cores


#: lscpu's lines that say what a time was measured on.
LSCPU = ("Architecture", "Vendor ID", "Model name", "CPU family", "Model", "Stepping", "CPU(s)", "Thread(s) per core", "Core(s) per socket",
         "Socket(s)", "NUMA node(s)", "Hypervisor vendor", "CPU max MHz", "L1d cache", "L2 cache", "L3 cache")  # fmt: skip


def processor(facts: dict[str, Any]) -> dict[str, Any]:
    """What kind of processor this is: a name for files, its widest vectors, and lscpu's main lines where there is one."""
    bits, vectors = next(
        (
            found
            for feature, *found in ((("avx512f"), 512, "AVX-512"), ("avx2", 256, "AVX2"), ("neon", 128, "NEON"))
            if feature in facts["features"]
        ),
        (128, "128 bits"),
    )
    try:
        said = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
    except (OSError, subprocess.SubprocessError):  # other systems
        said = ""
    lines = dict(line.strip().split(":", 1) for line in said.splitlines() if ":" in line)
    known = {name: lines[name].strip() for name in LSCPU if name in lines}
    kind = re.sub(r"[^a-z0-9]+", "-", f"{facts['target']} {vectors} {facts['threads']} threads".lower()).strip("-")
    return {"kind": kind, "vectors": vectors, "vector_bits": bits, "lanes": LANES, "lscpu": known}


@dataclass(frozen=True)
class Case:
    """A row of the table: steps is how many are timed at once; targets are speed-ups of native over the best of each family of peers."""

    name: str
    net: Net
    config: TrainConfig
    data: str
    validation: int
    steps: int
    trainers: tuple[str, ...]
    targets: dict[str, float]


def one(batch: int | None) -> TrainConfig:
    return TrainConfig(batch_size=batch, learning_rate=1e-3)


CASES = (
    Case("mlp", nets.mlp(), one(64), "mnist", 0, 300, ("native", "numpy", "torch", "sklearn"), {"torch": 2, "sklearn": 5}),
    Case("softmax", nets.softmax(), one(128), "mnist", 0, 469, ("native", "numpy", "torch"), {"torch": 4}),
    Case("mlp10", nets.mlp10(), one(None), "mnist", 1000, 1, ("native", "numpy", "torch"), {"torch": 4}),
    Case("cnn", nets.cnn(), one(64), "mnist", 0, 30, ("native", "numpy", "torch", "torch-channels-last"), {"torch": 1.3}),
    Case("autoencoder", nets.autoencoder(), one(32), "cifar10", 0, 2, ("native", "torch", "torch-channels-last"), {"torch": 1.2}),
)

#: Processes that must be quick or small: what is measured, its limit.
START_UP = {
    "import warpladder": (("-c", "import warpladder"), 0.25),
    "warpladder --help": (("-c", "from warpladder.cli import main; main()", "--help"), 0.4),
}
RSS_LIMIT_MB = 400


def dataset(case: Case, data_dir: str | None) -> tuple[Dataset, bool]:
    """The case's data, and whether it is real."""
    try:
        return data.load(case.data, data_dir=data_dir, validation=case.validation, progress=False), True
    except DataError as error:
        print(f"{case.name}: random images instead of {case.data} ({error})", file=sys.stderr)
    random = np.random.default_rng(0)
    count = 60000 - case.validation if case.data == "mnist" else 10000
    x = random.integers(0, 256, (count, *case.net.in_shape), dtype=np.uint8)
    y = random.integers(0, 10, count).astype(np.int32)
    return Dataset(f"random {case.data}", x, y, x[:100], y[:100], scale=1 / 255), False


def run_case(case: Case, data_dir: str | None, rounds: int, peak: float) -> dict[str, Any]:
    """Time one case; seconds are of one step."""
    train, real = dataset(case, data_dir)
    start = params.initial(case.net, 0)
    state = State(start)
    trainers = {}
    for name in case.trainers:
        rung = find(name)
        reason = rung.unsupported(case.net, case.config)
        if reason:
            print(f"{case.name}: without {name}: {reason}", file=sys.stderr)
            continue
        trainers[name] = rung.build(case.net, case.config, state)
        trainers[name].load(train)
    order = Order(0, 0, len(train.train_x))
    steps = min(case.steps, case.config.steps(order.n))
    samples: dict[str, list[float]] = {name: [] for name in trainers}
    for number in range(-1, rounds):  # the first round warms up
        for name, trainer in trainers.items():
            trainer.set_state(state)
            time.sleep(SETTLE)
            before = time.perf_counter()
            log = trainer.run(order, 0, steps)
            seconds = (time.perf_counter() - before) / steps
            if not np.isfinite(log.loss).all():
                raise ArithmeticError(f"{case.name} on {name}: the loss is not finite, so its time means nothing")
            if number >= 0:
                samples[name].append(seconds)
    for trainer in trainers.values():
        trainer.close()
    batch = case.config.batch(order.n)
    floor = case.net.train_flops * batch / peak
    verdicts = {}
    for family, target in case.targets.items():
        members = [name for name in trainers if name.split("-")[0] == family]
        if members:
            best = min(members, key=lambda name: statistics.median(samples[name]))
            ratios = [theirs / ours for theirs, ours in zip(samples[best], samples["native"], strict=True)]
            found = statistics.median(ratios)
            verdicts[family] = {"against": best, "target": target, "ratio": found, "ratios": ratios, "met": bool(found >= target)}
    return {
        "case": case.name, "data": train.name, "real_data": real, "samples": order.n, "batch": batch, "steps": steps,
        "flops_per_step": case.net.train_flops * batch, "floor_seconds": floor, "seconds_per_step": samples, "speedups": verdicts,
    }  # fmt: skip


def start_up(rounds: int) -> dict[str, Any]:
    """Seconds of fresh processes, less those of an empty one for an import."""
    out = {}
    for what, (command, limit) in {"python": (("-c", "pass"), math.inf), **START_UP}.items():
        times = []
        for _ in range(rounds):
            before = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - before)
        out[what] = {"seconds": times, "limit": limit if math.isfinite(limit) else None}
    return out


PEAK_RSS = """
import sys
from warpladder import data, nets, train, TrainConfig
mnist = data.load("mnist", data_dir=sys.argv[2] or None, progress=False)
train(nets.mlp(), mnist, TrainConfig(epochs=1), rung=sys.argv[1])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_rss(data_dir: str | None) -> dict[str, float]:
    """Peak MB of a fresh process that trains mlp on mnist for an epoch and tests it, by rung.

    From /proc, so on Linux only: getrusage would count what this process held when it made the other one.
    """
    out = {}
    for name in ("numpy", "native"):
        found = subprocess.run([sys.executable, "-c", PEAK_RSS, name, data_dir or ""], capture_output=True, text=True)
        if found.returncode:
            print(f"peak memory of {name} is not known: {found.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        else:
            out[name] = int(found.stdout.split()[1]) / 1024
    return out


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
    for what, found in report.get("start_up", {}).items():
        limit = f", limit {found['limit']} s" if found["limit"] else ""
        console.print(f"{what}: {statistics.median(found['seconds']):.3f} s{limit}")
    for name, megabytes in report.get("peak_rss_mb", {}).items():
        console.print(f"peak memory, mlp on mnist, {name}: {megabytes:.0f} MB, limit {RSS_LIMIT_MB} MB")


@click.command(help=__doc__.split("\n")[0])
@click.option("--case", "names", multiple=True, type=click.Choice([case.name for case in CASES]), help="Only these cases.")
@click.option("--data-dir", help="Folder with the data sets' files: DIR/mnist, DIR/cifar10.")
@click.option("--rounds", default=9, show_default=True, help="Timed rounds.")
@click.option("--quick", is_flag=True, help="Two rounds, and nothing is stored.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    help="Where the result goes; benchmarks/results/cpu-KIND.json, a file for each kind of processor, if not given.",
)
def main(names: tuple[str, ...], data_dir: str | None, rounds: int, quick: bool, out: str | None) -> None:
    facts = machine.facts()
    kind = processor(facts)
    print(f"{facts['cpu']}, {facts['threads']} threads: {facts['target']} with {kind['vectors']}, {kind['lanes']} floats a vector")
    cases = []
    peak = facts["fma_peak"]
    for case in CASES:
        if not names or case.name in names:
            peak = max(peak, machine.fma_peak())
            cases.append(run_case(case, data_dir, 2 if quick else rounds, peak))
    report = {
        "machine": {**facts, "fma_peak": peak},
        "processor": kind,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cases": cases,
    }
    if not names:
        report |= {"start_up": start_up(3 if quick else 10), "peak_rss_mb": peak_rss(data_dir)}
    show(report)
    if not quick:
        path = Path(out) if out else RESULTS / f"cpu-{kind['kind']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(report, indent=1) + "\n")
        print(f"stored {path}")


if __name__ == "__main__":
    main()
