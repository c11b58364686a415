"""The GPU rungs beside each other on the five nets: what each feed should give, and what it gives. One run, one GPU.

    # DIR has mnist/ and cifar10/; about four minutes
    python benchmarks/h200/rungs.py --data-dir DIR --out DIR
    # one net
    python benchmarks/h200/rungs.py --case mlp

The prediction is made before the feeds are timed, from what their parts take alone:

- collect: rows of a batch gathered on the host;
- copy: its bytes and labels sent to the GPU, waited for;
- kernels: the step's kernels, many times over without anything else between them (the GPU's time);
- launch: the same, without waiting for the GPU (the host's time);
- read: the loss copied back, waited for;
- queue: what the host takes to collect a batch and to queue its copies and their events, without any kernel.

naive = collect + copy + kernels (waited for) + read; streamed = the longest of queue + launch (the host), copy, and
kernels; resident = the longer of launch and kernels.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device import gpu
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.nets import Net, params
from warpladder.ops.engine.chain import Slice
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.kernelwise.feeds import StreamedFeed, SyncFeed
from warpladder.trainers.kernelwise.timeline import Timeline, overlap
from warpladder.trainers.kernelwise.trainer import KernelTrainer

ROUNDS = 5
EPOCHS = 10  # that are timed at once where each is one step
QUEUE = 500  # launches that a stream holds without making the host wait
RUNGS = ("naive", "streamed", "resident", "cupy", "tiled", "gemm", "library", "graph")


@dataclass(frozen=True)
class Case:
    """A net as its report trains it; steps is how many are timed at once, of one epoch."""

    name: str
    net: Net
    data: str
    batch: int | None
    steps: int


CASES = (
    Case("softmax", nets.softmax(), "mnist", 128, 469),
    Case("mlp", nets.mlp(), "mnist", 64, 938),
    Case("mlp10", nets.mlp10(), "mnist", None, 1),
    Case("cnn", nets.cnn(), "mnist", 64, 200),
    Case("autoencoder, batch 1", nets.autoencoder(), "cifar10", 1, 500),
    Case("autoencoder, batch 64", nets.autoencoder(), "cifar10", 64, 10),
    Case("autoencoder, batch 256", nets.autoencoder(), "cifar10", 256, 4),
)


def start(net: Net) -> State:
    return State(params.initial(net, 0))


def config(case: Case) -> TrainConfig:
    return TrainConfig(batch_size=case.batch, learning_rate=1e-3)


def clocked(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    work()
    return statistics.median(clocked(work) for _ in range(rounds))


def parts(case: Case, images: Dataset) -> dict[str, float]:
    """Seconds a step that the parts of a naive step take alone."""
    with find("naive").build(case.net, config(case), start(case.net)) as trainer:
        assert isinstance(trainer, KernelTrainer)
        trainer.load(images)
        feed, device = trainer.feed, trainer.device
        assert isinstance(feed, SyncFeed)
        order, batch = Order(0, 0, len(images.train_x)), trainer.batch
        feed.begin(order, 0, min(case.steps, 50))
        n = min(len(feed.x), batch)
        part = Slice(n, batch)
        trainer.run(order, 0, 1)
        work = trainer.program(part)
        slices = -(-batch // n)
        repeats = max(1, min(200, int(0.2 / max(1e-4, median(lambda: trainer.run(order, 0, 1), 3)))))
        rows = feed.indices[:n]

        def collect() -> None:
            np.take(feed.images, rows, axis=0, out=feed.host[:n], mode="clip")

        def copy() -> None:
            feed.raw[:n].upload(feed.host[:n])
            if feed.raw_labels is not None:
                feed.raw_labels[:n].upload(feed.host_labels[:n])

        def send(times: int) -> None:
            for _ in range(times):
                for launch in work:
                    launch.send()

        few = max(1, min(repeats, QUEUE // len(work)))  # so many that the GPU's queue takes them all at once
        host, device_time = [], []
        for _ in range(ROUNDS + 1):
            trainer.rewind()
            device.synchronize()
            host.append(clocked(lambda: send(few)) / few)
            device.synchronize()
            trainer.rewind()
            device_time.append(clocked(lambda: (send(repeats), device.synchronize())) / repeats)
        found = {
            "collect": slices * median(collect),
            "copy": slices * median(copy),
            "kernels": slices * statistics.median(device_time[1:]),
            "launch": slices * statistics.median(host[1:]),
            "launches": slices * len(work),
            "read": median(lambda: feed.after(0)),
        }
    with find("streamed").build(case.net, config(case), start(case.net)) as trainer:
        assert isinstance(trainer, KernelTrainer)
        trainer.load(images)
        streamed = trainer.feed
        assert streamed is not None
        steps = max(1, min(case.steps, 50))
        streamed.begin(order, 0, steps)

        def queue() -> None:
            for step in range(steps):
                streamed.send(step, part, [])

        found["queue"] = slices * median(queue) / steps
        device.synchronize()
    return found


def predict(found: dict[str, float]) -> dict[str, float]:
    """Seconds a step of each feed, from its parts."""
    return {
        "naive": found["collect"] + found["copy"] + max(found["kernels"], found["launch"]) + found["read"],
        "streamed": max(found["queue"] + found["launch"], found["copy"], found["kernels"]),
        "resident": max(found["launch"], found["kernels"]),
    }


def measure(case: Case, images: Dataset, names: tuple[str, ...]) -> dict[str, Any]:
    """Seconds a step of each rung, in turns."""
    order = Order(0, 0, len(images.train_x))
    trainers: dict[str, Trainer] = {}
    out: dict[str, Any] = {}
    for name in names:
        if reason := find(name).unsupported(case.net, config(case)):
            out[name] = {"reason": reason}
            continue
        try:
            trainers[name] = find(name).build(case.net, config(case), start(case.net))
            trainers[name].load(images)
            trainers[name].run(order, 0, min(3, case.steps))
            trainers[name].set_state(start(case.net))
        except WarpladderError as error:
            out[name] = {"reason": str(error)}
            trainers.pop(name, None)
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    timed = case.steps if case.steps > 1 else EPOCHS
    for round in range(ROUNDS + (case.steps == 1)):
        for name, trainer in trainers.items():
            logs: list[StepLog] = []
            spent = clocked(lambda t=trainer, logs=logs: logs.extend(some_steps(t, case, order)))
            assert all(np.isfinite(log.loss).all() for log in logs), f"{name}: the loss is not finite"
            if case.steps > 1 or round:  # the first epochs in a row are captured
                seconds[name].append(spent)
    for name, trainer in trainers.items():
        steps = [value / timed for value in seconds[name]]
        out[name] = {
            "step_seconds": statistics.median(steps),
            "all": steps,
            "spans": trainer.spans(),
            "held": trainer.memory(),
        }
        if name == "streamed" and isinstance(trainer, KernelTrainer):
            out["timeline"] = timeline(trainer, order)
        trainer.close()
    return out


def some_steps(trainer: Trainer, case: Case, order: Order) -> list[StepLog]:
    """The steps that are timed at once."""
    return [trainer.run(order, 0, case.steps)] if case.steps > 1 else trainer.run_epochs([order] * EPOCHS)


def timeline(trainer: KernelTrainer, order: Order) -> dict[str, Any]:
    """Events around the copies and computations of some steps of the streamed feed."""
    assert isinstance(trainer.feed, StreamedFeed)
    watch = Timeline(trainer.feed)
    trainer.run(order, 0, min(24, trainer.config.steps(order.n)))
    spans = watch.spans()
    watch.close()
    return {"overlap": overlap(spans), "spans": [(span.step, span.what, span.begin, span.end) for span in spans]}


def s1(images: Dataset, name: str) -> dict[str, Any]:
    """S1's program on a rung: the CNN, five epochs, all of every batch; test accuracy in the end."""
    from warpladder.train import score

    net = nets.cnn()
    with find(name).build(net, TrainConfig(batch_size=64, learning_rate=0.01), start(net)) as trainer:
        trainer.load(images)
        trainer.run(Order(0, 0, len(images.train_x)), 0, 938)
        trainer.set_state(start(net))
        epochs = [clocked(lambda e=epoch: trainer.run(Order(0, e, len(images.train_x)), 0, 938)) for epoch in range(5)]
        found = score(trainer, images.test_x, images.test_y, images.scale)
    return {"seconds": sum(epochs), "epochs": epochs, "test_accuracy": found.accuracy, "authors_seconds": 24.0}


def s4(images: Dataset, name: str, authors: float) -> dict[str, Any]:
    """S4's program on a rung: the autoencoder, one image at a time, over 2,000 images. authors: seconds that theirs
    takes for one.
    """
    net = nets.autoencoder()
    with find(name).build(net, TrainConfig(batch_size=1, learning_rate=0.001, clip_value=5.0), start(net)) as trainer:
        trainer.load(images)
        order = Order(0, 0, len(images.train_x))
        trainer.run(order, 0, 2000)
        trainer.set_state(start(net))
        seconds = clocked(lambda: trainer.run(order, 0, 2000))
    return {"image_seconds": seconds / 2000, "authors_image_seconds": authors}


def block_1024(images: Dataset) -> dict[str, Any]:
    """S1's block size of 1024, at which its program never left a loss of 2.303."""
    net = nets.cnn()
    with find("naive", block_size=1024).build(
        net, TrainConfig(batch_size=64, learning_rate=0.01), start(net)
    ) as trainer:
        trainer.load(images)
        log = trainer.run(Order(0, 0, len(images.train_x)), 0, 938)
    return {
        "first_loss": float(log.loss[0]),
        "last_losses": float(log.loss[-50:].mean()),
        "accuracy": float(log.correct.sum() / log.size.sum()),
    }


def load(name: str, data_dir: str | None) -> Dataset:
    return data.load(name, data_dir=data_dir) if data_dir else data.load(name)


@click.command()
@click.option("--data-dir", metavar="DIR", help="Folder with mnist/ and cifar10/.")
@click.option("--case", "wanted", multiple=True, help="Only these.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent, help="Where rungs.json goes.")
def main(data_dir: str | None, wanted: tuple[str, ...], out: Path) -> None:
    """Time the GPU rungs and write rungs.json."""
    sets = {name: load(name, data_dir) for name in {case.data for case in CASES}}
    commit = subprocess.run(("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True).stdout.strip()
    found: dict[str, Any] = {"machine": gpu.facts(), "commit": commit, "cases": {}}

    def keep() -> None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "rungs.json").write_text(json.dumps(found, indent=1))

    for case in CASES:
        if wanted and case.name not in wanted:
            continue
        alone = parts(case, sets[case.data])
        wished = predict(alone)
        got = measure(case, sets[case.data], RUNGS)
        found["cases"][case.name] = {
            "batch": case.batch,
            "steps": case.steps,
            "parts": alone,
            "predicted": wished,
            "measured": got,
        }
        keep()
        click.echo(f"{case.name}: us a step, measured (predicted)")
        for name in RUNGS:
            step = got[name].get("step_seconds")
            told = got[name]["reason"] if step is None else f"{step * 1e6:10.1f}"
            click.echo(f"  {name:18} {told}" + (f" ({wished[name] * 1e6:.1f})" if name in wished else ""))
        told = ", ".join(
            f"{key} {value * 1e6:.1f}" if key != "launches" else f"{value} launches" for key, value in alone.items()
        )
        click.echo(
            f"  a naive step: {told}; streamed: {got.get('timeline', {}).get('overlap', 0):.0%} of copying hidden"
        )
    if not wanted:
        for name, work in (
            ("s1 naive", lambda: s1(sets["mnist"], "naive")),
            ("s1 graph", lambda: s1(sets["mnist"], "graph")),
            ("s4 naive", lambda: s4(sets["cifar10"], "naive", 4.36e-3)),
            ("s4 tiled", lambda: s4(sets["cifar10"], "tiled", 2.35e-3)),
            ("s4 gemm", lambda: s4(sets["cifar10"], "gemm", 0.91e-3)),
            ("s4 graph", lambda: s4(sets["cifar10"], "graph", 0.91e-3)),
            ("block_1024", lambda: block_1024(sets["mnist"])),
        ):
            found[name] = work()
            keep()
            click.echo(f"{name}: {found[name]}")


if __name__ == "__main__":
    main()
