"""The fastest rungs and every peer on the training workloads, in one run on one GPU.

    # DIR has mnist/ and cifar10/; about seven minutes on an H200
    python benchmarks/h200/speed.py --data-dir DIR --out DIR
    # some of it, with longer repetitions
    python benchmarks/h200/speed.py --workloads W1,W4 --seconds 0.5
    # a few steps of each, to see that it works
    python benchmarks/h200/speed.py --smoke

A time is that of `run`: the order of the samples, their gathering, the training and the log on the host. Loading,
compilation and capture are outside it. All take turns, round by round. Where an epoch takes longer than --seconds its
first steps are timed. Where it is one step, W3, a time is that of `run_epochs` of fifty, which waits once where the
rung or peer can; "alone" beside it is that of `run` of each. The units are us a step (W1, W2, W4), us an iteration
(W3) and ms an epoch of 50,000 images (W5), scaled from a step. The data are cut so that an epoch is whole blocks of
steps and no partial batch, which saves every peer half of its compilations. Everyone's mean loss over the first timed
steps stands beside the first one's: equal work has equal losses.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import Net, params
from warpladder.trainers.base import State, Trainer

ROUNDS = 7
EPOCHS = 50  # that are trained in a row where each is one step
BLOCK = 64  # steps that graphs and compiled programs take at once, at most: what is timed is a multiple

RUNGS = ("gemm", "graph")
GRAPH = (
    "torch:device=cuda:mode=graph",
    "torch:device=cuda:mode=graph:precision=tf32",
    "torch:device=cuda:mode=graph:precision=bf16",
)
COMPILED = tuple(name.replace("graph", "compile") for name in GRAPH)
JAX = ("jax:device=cuda", "jax:device=cuda:precision=tf32", "jax:device=cuda:precision=bf16")
EAGER = ("torch:device=cuda", "torch:device=cuda:precision=fp16")
COARSE = {
    "tf32": 2e-2,
    "bf16": 5e-2,
    "fp16": 2e-2,
    "amp": 2e-2,
}  # how far a mean loss may be from float32's, by the end of a peer's name
FINE = 2e-3  # the same for float32: orders of summation alone
CUT = 57_344  # MNIST's images that are used: 7 blocks of batches of 128, 14 of 64


@dataclass(frozen=True)
class Workload:
    """A row of the table.

    samples : of the data set, at most; None for all.
    epoch : samples that an epoch's time is stated for, or None where the unit is a step.
    names : rungs and peers; the first is what the losses of all others are held against. Those that start processes
    come first: JAX's threads are
        not there yet.
    """

    name: str
    net: Net
    data: str
    config: TrainConfig
    names: tuple[str, ...]
    samples: int | None = None
    epoch: int | None = None


def settings(batch: int | None, rate: float) -> TrainConfig:
    return TrainConfig(batch_size=batch, learning_rate=rate, drop_last=True)


def autoencoder(batch: int, *jax: str) -> Workload:
    net = nets.autoencoder()
    samples = min(max(BLOCK * batch, 1024), 16384)
    return Workload(
        f"W5-{batch}",
        net,
        "cifar10",
        settings(batch, 1e-3),
        (*RUNGS, "torch:device=cuda", *GRAPH, *jax),
        samples,
        50_000,
    )


WORKLOADS = (
    Workload("W2", nets.mlp(), "mnist", settings(64, 0.01), ("torch:device=cuda:loader=yes", *RUNGS, *EAGER, *GRAPH, "torch:device=cuda:mode=compile", *JAX), CUT),
    Workload(
        "W4", nets.cnn(), "mnist", settings(64, 0.01),
        ("torch:device=cuda:loader=yes", *RUNGS, *EAGER, *GRAPH, *COMPILED, *JAX), CUT,
    ),
    Workload("W1", nets.softmax(), "mnist", settings(128, 0.1), (*RUNGS, *EAGER, *GRAPH, "torch:device=cuda:mode=compile", *JAX), CUT),
    Workload("W3", nets.mlp10(), "mnist", settings(None, 0.1), (*RUNGS, *EAGER, *GRAPH, "torch:device=cuda:mode=compile", *JAX), 59_000),
    autoencoder(1, "jax:device=cuda"),
    autoencoder(256, *JAX),
    autoencoder(64, *JAX[1:]),
    autoencoder(1024, *JAX[1:]),
)  # fmt: skip


def dataset(workload: Workload, data_dir: str | None, smoke: bool) -> tuple[Dataset, bool]:
    """The workload's training set, and whether it is real; without the files, noise in its shape."""
    try:
        whole = data.load(workload.data, data_dir=data_dir) if data_dir else None
    except DataError as error:
        print(f"{workload.name}: random images instead of {workload.data}: {error}", file=sys.stderr)
        whole = None
    real = whole is not None
    if whole is None:
        random = np.random.default_rng(0)
        count = 60_000 if workload.data == "mnist" else 50_000
        x = random.integers(0, 256, (count, *workload.net.in_shape), np.uint8)
        y = random.integers(0, 10, count).astype(np.int32)
        whole = Dataset(f"noise like {workload.data}", x, y, x[:1], y[:1], 1 / 255)
    n = min(len(whole.train_x), workload.samples or len(whole.train_x))
    if smoke:
        n = min(n, 3 * (workload.config.batch_size or 100) + 1)
    assert whole.train_y is not None
    return whole.but(train_x=whole.train_x[:n], train_y=whole.train_y[:n]), real


def clocked(trainer: Trainer, epoch: int, steps: int, samples: int) -> tuple[float, np.ndarray]:
    """Seconds of the first steps of an epoch, and their losses."""
    order = Order(0, epoch, samples)
    start = time.perf_counter()
    log = trainer.run(order, 0, steps)
    return time.perf_counter() - start, log.loss


def clocked_epochs(trainer: Trainer, first: int, samples: int) -> tuple[float, np.ndarray]:
    """Seconds of EPOCHS whole epochs, and their losses."""
    orders = [Order(0, epoch, samples) for epoch in range(first, first + EPOCHS)]
    start = time.perf_counter()
    logs = trainer.run_epochs(orders)
    return time.perf_counter() - start, np.concatenate([log.loss for log in logs])


class Runner:
    """A rung or a peer at its workload."""

    def __init__(self, name: str, workload: Workload, train: Dataset) -> None:
        self.name, self.samples = name, len(train.train_x)
        self.start = State(params.initial(workload.net, 0))
        self.whole = workload.config.steps(self.samples)
        began = time.perf_counter()
        self.trainer = find(name).build(workload.net, workload.config, self.start)
        self.trainer.load(train)
        self.setup = time.perf_counter() - began
        self.seconds: list[float] = []
        self.alone: list[float] = []
        self.loss = float("nan")
        self.steps = self.whole

    def warm(self, most: float) -> None:
        """Run what will be timed, choose how much that is, note the loss of the first steps, and stand at the start
        again.
        """
        few = min(self.whole, BLOCK)
        clocked(self.trainer, 0, few, self.samples)
        seconds, _ = clocked(self.trainer, 0, few, self.samples)
        if seconds / few * self.whole > most:
            self.steps = max(few, int(most / (seconds / few)) // BLOCK * BLOCK)
        clocked(self.trainer, 0, self.steps, self.samples)
        self.trainer.set_state(self.start)
        losses = (
            clocked(self.trainer, 0, few, self.samples)[1]
            if self.whole > 1
            else clocked_epochs(self.trainer, 0, self.samples)[1]
        )
        self.loss = float(np.mean(losses))
        self.trainer.set_state(self.start)

    def turn(self, epoch: int) -> None:
        """One timed repetition."""
        if self.whole > 1:
            seconds, losses = clocked(self.trainer, epoch, self.steps, self.samples)
            self.seconds.append(seconds / self.steps)
        else:
            seconds, losses = clocked_epochs(self.trainer, epoch * EPOCHS, self.samples)
            self.seconds.append(seconds / EPOCHS)
            self.alone.append(
                statistics.median(clocked(self.trainer, epoch, 1, self.samples)[0] for _ in range(EPOCHS))
            )
        if not np.isfinite(losses).all():
            raise ArithmeticError("the loss is not finite, so its time means nothing")


def measure(workload: Workload, train: Dataset, seconds: float, rounds: int, until: float) -> dict[str, Any]:
    """Everyone's seconds a step, in turns."""
    out: dict[str, Any] = {}
    runners: list[Runner] = []

    def fell(name: str, error: Exception) -> None:
        out[name] = {"reason": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}
        print(f"  {name}: {out[name]['reason']}", file=sys.stderr, flush=True)

    for name in workload.names:
        if reason := find(name).unsupported(workload.net, workload.config):
            out[name] = {"reason": reason}
        elif time.monotonic() > until:
            out[name] = {"reason": "left out: no time"}
        else:
            try:
                runner = Runner(name, workload, train)
                runner.warm(seconds)
                runners.append(runner)
                print(f"  {name}: ready after {runner.setup:.1f} s", file=sys.stderr, flush=True)
            except Exception as error:
                fell(name, error)
    for number in range(rounds):
        for runner in list(runners):
            try:
                runner.turn(number + 1)
            except Exception as error:
                fell(runner.name, error)
                runners.remove(runner)
    first = next((runner.loss for runner in runners), float("nan"))
    for runner in runners:
        times = runner.seconds
        scale = 1e6 if workload.epoch is None else 1e3 * (workload.epoch // (workload.config.batch_size or 1))
        limit = next((limit for end, limit in COARSE.items() if runner.name.endswith(end)), FINE)
        out[runner.name] = {
            "median": statistics.median(times) * scale, "least": min(times) * scale, "most": max(times) * scale,
            "samples": [value * scale for value in times], "alone": [value * scale for value in runner.alone], "steps": runner.steps, "setup_seconds": runner.setup,
            "spans": runner.trainer.spans(), "held": runner.trainer.memory(),
            "first_loss": runner.loss, "equal_work": bool(abs(runner.loss / first - 1) <= limit),
        }  # fmt: skip
        runner.trainer.close()
    return out


def facts() -> dict[str, Any]:
    """The machine, and the libraries' versions."""
    out: dict[str, Any] = {"host": machine.facts()}
    query = "name,driver_version,clocks.max.sm,clocks.sm,power.limit,memory.total"
    try:
        told = subprocess.run(
            ("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"), capture_output=True, text=True, timeout=30
        )
        out["gpu"] = told.stdout.strip().splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        out["gpu"] = f"nvidia-smi: {error}"
    try:
        import torch

        out |= {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    except ImportError:
        out["torch"] = None
    return out


def show(workload: Workload, found: dict[str, Any]) -> None:
    unit = "us/step" if workload.epoch is None else "ms/epoch"
    print(f"{workload.name} {workload.net.name}, batch {workload.config.batch_size or 'full'}, {unit}")
    for name, got in sorted(found.items(), key=lambda item: item[1].get("median", np.inf)):
        if "reason" in got:
            print(f"  {name:24} {got['reason'][:110]}")
        else:
            other = "" if got["equal_work"] else f"   OTHER WORK: loss {got['first_loss']:.4f}"
            spread = f"{got['least']:10.2f} to {got['most']:.2f}"
            alone = f", alone {statistics.median(got['alone']):.1f}" if got["alone"] else ""
            print(
                f"  {name:24} {got['median']:10.2f}   ({spread}{alone}; {got['steps']} steps, {got['setup_seconds']:.1f} s to set up){other}"
            )
    sys.stdout.flush()


def kept(path: Path) -> dict[str, Any]:
    """The workloads that a file holds from earlier runs, each with its commit and its date; one that is measured again
    takes the place of its own.
    """
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text())
        return {
            name: {"commit": stored["commit"], "date": stored["date"], **found}
            for name, found in stored["workloads"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SystemExit(
            f"{path} holds no times of workloads: move it away, or name another folder with --out"
        ) from None


def main(workloads: Sequence[Workload] = WORKLOADS, about: str | None = __doc__, file: str = "speed.json") -> None:
    """Measure workloads and store what was found in a file of this name."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with mnist/ and cifar10/; without it, noise of their shapes")
    parser.add_argument(
        "--workloads", default=",".join(w.name for w in workloads), help="names, with commas between them"
    )
    parser.add_argument("--names", help="only these rungs and peers, with commas between them")
    parser.add_argument("--seconds", type=float, default=0.15, help="that one repetition takes, about")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--budget", type=float, default=420, help="seconds after which nobody else is set up")
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or Path(__file__).parent), help=f"where {file} goes"
    )
    parser.add_argument("--smoke", action="store_true", help="few samples")
    args = parser.parse_args()
    wanted = args.workloads.split(",")
    if unknown := set(wanted) - {w.name for w in workloads}:
        parser.error(f"there is no workload {', '.join(sorted(unknown))}")
    until = time.monotonic() + args.budget
    commit = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False
    ).stdout.strip()
    when = {"commit": commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    report: dict[str, Any] = {"machine": facts(), **when, "workloads": kept(args.out / file)}
    args.out.mkdir(parents=True, exist_ok=True)
    for workload in workloads:
        if workload.name not in wanted:
            continue
        began = time.monotonic()
        train, real = dataset(workload, args.data_dir, args.smoke)
        if args.names:
            workload = replace(workload, names=tuple(name for name in workload.names if name in args.names.split(",")))
        found = measure(workload, train, args.seconds, args.rounds, until)
        report["workloads"][workload.name] = {
            **when, "net": workload.net.name, "batch": workload.config.batch_size, "samples": len(train.train_x), "data": train.name, "real_data": real,
            "unit": "us/step" if workload.epoch is None else "ms/epoch", "seconds": time.monotonic() - began, "measured": found,
        }  # fmt: skip
        show(workload, found)
        (args.out / file).write_text(json.dumps(report, indent=1) + "\n")
    print(f"stored {args.out / file}")


if __name__ == "__main__":
    main()
