"""The peers beside stand-alone programs that do the same work, in turns, on one GPU: no baseline here may be easy to
beat.

    # beside yardsticks.py; about three minutes on an H200
    python benchmarks/h200/peers.py --data-dir DIR
    # and beside the programs of a folder: p_jax.py, p_torch.py, common.py
    python benchmarks/h200/peers.py --data-dir DIR --scripts DIR2
    # and JAX's yardstick in every style, to see what each difference costs
    python benchmarks/h200/peers.py --data-dir DIR --why

Each peer has a process of its own with what it is held against; in it everyone trains the same images in batches of
the same size, without a partial one. A time is that of an epoch, for mlp10, whose epoch is one step, of 500, from the
call to the losses on the host. A peer that takes more than MARGIN times as long as its yardstick fails, and the
command returns 1. The programs of a folder count no right samples and leave their losses on the device: their ratio is
printed, and held to the same margin.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from yardsticks import Style, Task, jax_program, torch_program

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import Net, params
from warpladder.trainers.base import State

MARGIN = 1.05
ROUNDS = 7
TOGETHER = 500  # epochs in a row of the net whose epoch is one step
LEAST = 0.05  # seconds in a repetition


@dataclass(frozen=True)
class Case:
    """A net at a batch size, and what a folder of scripts calls it; `units` of its layers where it is a perceptron."""

    net: Net
    script: str
    samples: int
    batch: int
    rate: float
    units: tuple[int, ...]
    unroll: dict[str, int]
    variants: dict[str, dict[str, dict[str, Any]]]  # of PyTorch, by peer and precision

    @property
    def steps(self) -> int:
        return self.samples // self.batch if self.batch < self.samples else TOGETHER


ALL = 10**9  # steps in a script's graph: the whole epoch
GRAPH = {"torch:device=cuda:mode=graph": {"fp32": {"k": ALL}, "bf16": {"k": ALL}}}
COMPILED = {
    "torch:device=cuda:mode=compile": {
        "fp32": {"k": ALL, "compile": "default"},
        "bf16": {"k": ALL, "compile": "default"},
    }
}
CASES = (
    Case(nets.softmax(), "W1", 59_904, 128, 0.1, (784, 10), {"fp32": 16, "bf16": 16}, GRAPH | COMPILED),
    Case(nets.mlp(), "W2", 59_968, 64, 0.01, (784, 256, 10), {"fp32": 16, "bf16": 16}, GRAPH | COMPILED),
    Case(
        nets.mlp10(), "W3", 59_000, 59_000, 0.1, (784, 10, 10), {"fp32": 10, "bf16": 10},
        {peer: {precision: options | {"k": 50} for precision, options in found.items()} for peer, found in (GRAPH | COMPILED).items()},
    ),
    Case(
        nets.cnn(), "W4", 59_968, 64, 0.01, (), {"fp32": 1, "bf16": 4},
        {
            "torch:device=cuda:mode=graph": {"fp32": {"k": 16}, "bf16": {"k": 16, "nhwc": True}},
            "torch:device=cuda:mode=compile": {"fp32": {"k": 16, "nhwc": True, "compile": "default"}, "bf16": {"k": 16, "nhwc": True, "compile": "default"}},
        },
    ),
)  # fmt: skip
PEERS = ("jax:device=cuda", "torch:device=cuda:mode=graph", "torch:device=cuda:mode=compile")
SUFFIX = {"fp32": "", "bf16": "-bf16"}


@dataclass
class Runner:
    """Something that trains an epoch, and what it was seen to take, in us a step.

    against : the peer whose yardstick this is; its own name for a peer.
    """

    name: str
    against: str
    run: Callable[[], object]
    steps: int
    setup: float
    epochs: int = 1
    times: list[float] = field(default_factory=list)

    def turn(self) -> None:
        begin = time.perf_counter()
        for _ in range(self.epochs):
            self.run()
        self.times.append((time.perf_counter() - begin) / self.epochs / self.steps * 1e6)


def images(data_dir: str | None, case: Case) -> Dataset:
    """MNIST, or noise in its shape where there are no files."""
    try:
        found = data.load("mnist", data_dir=data_dir) if data_dir else None
    except DataError as error:
        print(f"random images instead of MNIST: {error}", file=sys.stderr)
        found = None
    if found is None:
        random = np.random.default_rng(0)
        x, y = random.integers(0, 256, (60_000, 1, 28, 28), np.uint8), random.integers(0, 10, 60_000).astype(np.int32)
        found = Dataset("noise like MNIST", x, y, x[:1], y[:1], 1 / 255)
    assert found.train_y is not None
    return found.but(train_x=found.train_x[: case.samples], train_y=found.train_y[: case.samples])


def peer(name: str, case: Case, train: Dataset) -> Callable[[], object]:
    """The product's peer: `run` of an epoch after the other, or `run_epochs` of many."""
    config = TrainConfig(batch_size=None if case.batch == case.samples else case.batch, learning_rate=case.rate)
    if reason := find(name).unsupported(case.net, config):
        raise DataError(reason)
    trainer = find(name).build(case.net, config, State(params.initial(case.net, 0)))
    trainer.load(train)
    epoch = 0

    def run() -> object:
        nonlocal epoch
        if case.batch == case.samples:
            return trainer.run_epochs([Order(0, number, case.samples) for number in range(TOGETHER)])
        epoch += 1
        return trainer.run(Order(0, epoch, case.samples), 0, case.steps)

    return run


class Scripts:
    """The programs of a folder, each taken apart to the function that runs an epoch and the one that waits for it."""

    def __init__(self, folder: Path, data_dir: str | None) -> None:
        sys.path.insert(0, str(folder))
        import common

        self.common = common
        self.held: list[Any] = []
        mnist = Path(data_dir or "/nonexistent")
        common.prepare("mnist", 0, str(mnist / "mnist" if (mnist / "mnist").is_dir() else mnist), False)

    def work(self, case: Case) -> Any:
        return self.common.make_work(case.script)

    def program(self, name: str, precision: str, case: Case, **more: Any) -> Callable[[], object]:
        job = {"id": name, "work": case.script, "prec": precision, "peer": "torch-graph", "variant": ""} | more
        found: list[tuple[Callable[[], object], Callable[[], object]]] = []
        if name == "jax:device=cuda":
            import p_jax as module

            def measure(run: Callable[[], object], sync: Callable[[], object], *_: Any, **__: Any) -> list[float]:
                found.append((run, sync))
                return [1.0]

            kept = module.measure, module.precision_errors
            module.measure, module.precision_errors = measure, lambda precision: {}
            try:
                module.run(job | {"unroll": case.unroll[precision]}, self.work(case), 0)
            finally:
                module.measure, module.precision_errors = kept
        else:
            import p_torch as module

            def finish(setup: Any, run: Callable[[], object], *_: Any, **__: Any) -> dict[str, Any]:
                self.held.append(
                    (setup, dict(sys._getframe(1).f_locals))
                )  # a graph reads tensors that its program lets go of at its end
                found.append((run, module.sync))
                return {}

            kept_finish = module.Setup.finish
            module.Setup.finish = finish
            try:
                module.run_graphs(job, self.work(case), 0)
            finally:
                module.Setup.finish = kept_finish
        run, sync = found[0]

        def both() -> None:
            run()
            sync()

        return both


def runners(
    case: Case, precision: str, args: argparse.Namespace, train: Dataset, scripts: Scripts | None, until: float, failures: list[str]
) -> list[Runner]:  # fmt: skip
    """Everyone who takes part in a case, built, compiled and warm; who cannot is a failure, since nothing is compared
    with them.
    """
    out: list[Runner] = []
    assert train.train_y is not None
    flat = np.ascontiguousarray(train.train_x.reshape(case.samples, -1))
    task = Task(case.units, flat, train.train_y, case.batch, case.steps, case.rate, precision == "bf16")

    def add(name: str, against: str, build: Callable[[], Callable[[], object]]) -> None:
        if time.monotonic() > until:
            failures.append(f"{case.net.name} {precision}: no time was left for {name}")
            return
        try:
            begin = time.perf_counter()
            run = build()
            run()
            setup = time.perf_counter() - begin
            begin = time.perf_counter()
            run()
            once = time.perf_counter() - begin
        except Exception as error:
            failures.append(
                f"{case.net.name} {precision}: {name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            )
            return
        # a script's keys last for 64 epochs
        out.append(Runner(name, against, run, case.steps, setup, max(1, min(5, round(LEAST / once)))))
        print(f"  {name}: ready after {setup:.1f} s", file=sys.stderr, flush=True)

    for each in args.peers.split(","):
        full = each + SUFFIX[precision]
        add(full, full, lambda full=full: peer(full, case, train))  # type: ignore[misc]
        if each == "jax:device=cuda":
            add("yardstick: JAX", full, lambda: jax_program(task, Style()))
        elif each == "torch:device=cuda:mode=graph":
            add("yardstick: PyTorch, graph", full, lambda: torch_program(task))
        if scripts is not None:
            more = {} if each == "jax:device=cuda" else case.variants[each][precision]
            add(f"script of {each}", full, lambda each=each, more=more: scripts.program(each, precision, case, **more))  # type: ignore[misc]
            if each == "torch:device=cuda:mode=graph" and precision == "fp32" and case.units:
                for manual in (True,) if case.batch < case.samples else ("split",):
                    add(
                        f"script of {each}, gradients by hand", "",
                        lambda more=more, manual=manual: scripts.program("torch", precision, case, **more, manual=manual),  # type: ignore[misc]
                    )  # fmt: skip
    if args.why and case.script in ("W1", "W2"):
        for count, update, bias in product(
            ("none", "argmax", "mask"), ("constant", "sum", "argument"), ("factors", "float32")
        ):
            few = (count != "argmax") + (update != "constant") + (bias != "factors")
            if few == 1 and (bias == "factors" or precision == "bf16"):
                style = Style(count, update, bias)
                add(f"JAX, {count}, {update}, {bias}", "", lambda style=style: jax_program(task, style))  # type: ignore[misc]
    return out


def show(case: Case, precision: str, found: list[Runner]) -> list[str]:
    """Print a case's table; what fails in it."""
    print(f"{case.script} {case.net.name}, batch {case.batch}, {precision}, us a step")
    medians = {runner.name: statistics.median(runner.times) for runner in found}
    failures = []
    for runner in sorted(found, key=lambda runner: medians[runner.name]):
        ratio, word = "", ""
        if runner.against and runner.against != runner.name and runner.against in medians:
            times = medians[runner.against] / medians[runner.name]
            ratio = f"   {runner.against} takes {times:.3f} times this"
            if not times <= MARGIN:
                word = "   TOO MUCH"
                failures.append(
                    f"{case.net.name} {precision}: {runner.against} takes {times:.2f} times what {runner.name!r} does"
                )
        spread = f"{min(runner.times):.2f} to {max(runner.times):.2f}"
        print(
            f"  {runner.name:45} {medians[runner.name]:9.2f}   ({spread}; {runner.setup:.1f} s to set up){ratio}{word}"
        )
    sys.stdout.flush()
    return failures


def facts() -> dict[str, Any]:
    """The machine, and the libraries' versions."""
    out: dict[str, Any] = {"host": machine.facts()}
    try:
        told = subprocess.run(
            ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"), capture_output=True, text=True
        )
        out["gpu"] = told.stdout.strip()
    except OSError as error:
        out["gpu"] = f"nvidia-smi: {error}"
    for name in ("torch", "jax"):
        try:
            out[name] = __import__(name).__version__
        except ImportError:
            out[name] = None
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="folder with mnist/; without it, noise of its shape")
    parser.add_argument("--scripts", type=Path, help="folder with p_jax.py, p_torch.py and common.py")
    parser.add_argument("--cases", default=",".join(case.script for case in CASES), help="W1,W2,W3,W4 or some of them")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--why", action="store_true", help="also JAX's yardstick in every style")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=float, default=240, help="seconds after which nobody else is set up")
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or Path(__file__).parent), help="where peers.json goes"
    )
    args = parser.parse_args()
    if args.child is None:
        return parent(args)
    begin = time.monotonic()
    scripts = Scripts(args.scripts, args.data_dir) if args.scripts else None
    report: dict[str, Any] = {"cases": [], "failures": []}
    failures: list[str] = report["failures"]
    for precision, case in product(args.precisions.split(","), CASES):
        if case.script not in args.cases.split(","):
            continue
        train = images(args.data_dir, case)
        found = runners(case, precision, args, train, scripts, begin + args.budget, failures)
        for _ in range(ROUNDS):
            for runner in found:
                runner.turn()
        failures += show(case, precision, found)
        report["cases"].append(
            {
                "net": case.net.name, "batch": case.batch, "precision": precision, "data": train.name, "unit": "us/step",
                "measured": {r.name: {"against": r.against, "times": r.times, "setup_seconds": r.setup} for r in found},
            }
        )  # fmt: skip
        args.child.write_text(json.dumps(report))
    return 0


def parent(args: argparse.Namespace) -> int:
    """Each peer and its yardsticks in a process of their own, so that none disturbs another; and what they found in one
    file.
    """
    begin = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    report: dict[str, Any] = {"machine": facts(), "date": date, "cases": [], "failures": []}
    chosen = args.peers.split(",")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            told = Path(folder) / f"{name}.json"
            budget = str(args.budget / len(chosen))
            command = [
                sys.executable,
                __file__,
                *sys.argv[1:],
                "--child",
                str(told),
                "--peers",
                name,
                "--budget",
                budget,
            ]
            done = subprocess.run(command)
            found = json.loads(told.read_text()) if told.exists() else {"cases": [], "failures": []}
            report["cases"] += found["cases"]
            report["failures"] += found["failures"]
            if done.returncode:
                report["failures"].append(f"{name}: the process ended with {done.returncode}")
    (args.out / "peers.json").write_text(json.dumps(report, indent=1) + "\n")
    compared = sum(
        told["against"] not in ("", name) for case in report["cases"] for name, told in case["measured"].items()
    )
    print(f"stored {args.out / 'peers.json'}; {time.monotonic() - begin:.0f} s in all")
    for line in report["failures"]:
        print(f"failed: {line}")
    if not compared:
        print("failed: nothing was compared")
    return 1 if report["failures"] or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
