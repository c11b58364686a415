"""What each library is worth by itself: the library rung's steps with none, one and all of its operations given to
cuBLASLt and cuDNN.

    # DIR has mnist/ and cifar10/; two minutes
    python benchmarks/h200/operations.py --data-dir DIR --out DIR

The rows of softmax are S5's: its own kernels, the products by cuBLAS, the loss by cuDNN too; then the graph that S5
came to in the end. All take turns. Times are us a step, the log read back included, beside what resident and graph
take; an epoch's time is a step's times its steps.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import click
import numpy as np

from rungs import CASES, Case, clocked, config, load, start
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device import gpu
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Linear
from warpladder.trainers.base import Trainer

ROUNDS = 7
NETS = ("softmax", "mlp", "cnn", "autoencoder, batch 1")

#: A rung, and the operations that are the library's.
ROWS: tuple[tuple[str, str | None], ...] = (
    ("resident", None),
    ("library", "linear"),
    ("library", "conv2d"),
    ("library", "cross_entropy"),
    ("library", "linear,cross_entropy"),
    ("library", None),
    ("graph", None),
)


def label(rung: str, operations: str | None) -> str:
    return rung if operations is None else f"{rung} {operations}"


def measure(case: Case, images: Dataset) -> dict[str, Any]:
    """Seconds a step of every row that makes sense for this net, in turns."""
    order = Order(0, 0, len(images.train_x))
    layers = {type(layer) for layer in case.net.layers}
    present = {
        "linear": Linear in layers,
        "conv2d": Conv2d in layers,
        "cross_entropy": isinstance(case.net.loss, CrossEntropyLoss),
    }
    trainers: dict[str, Trainer] = {}
    for rung, operations in ROWS:
        if operations is not None and not all(present[name] for name in operations.split(",")):
            continue
        settings = config(case)
        chosen = find(rung) if operations is None else find(rung, operations=tuple(operations.split(",")))
        if chosen.unsupported(case.net, settings) is None:
            trainer = trainers[label(rung, operations)] = chosen.build(case.net, settings, start(case.net))
            trainer.load(images)
            trainer.run(order, 0, case.steps)
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(ROUNDS):
        for name, trainer in trainers.items():
            logs: list[Any] = []
            seconds[name].append(
                clocked(lambda t=trainer, logs=logs: logs.append(t.run(order, 0, case.steps))) / case.steps
            )
            assert np.isfinite(logs[0].loss).all(), f"{name}: the loss is not finite"
    for trainer in trainers.values():
        trainer.close()
    return {name: {"step_seconds": statistics.median(some), "all": some} for name, some in seconds.items()}


@click.command()
@click.option("--data-dir", metavar="DIR", help="Folder with mnist/ and cifar10/.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(__file__).parent, help="Where operations.json goes."
)
def main(data_dir: str | None, out: Path) -> None:
    """Time the library rung's operations one at a time and write operations.json."""
    commit = subprocess.run(("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True).stdout.strip()
    found: dict[str, Any] = {"machine": gpu.facts(), "commit": commit, "cases": {}}
    out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if case.name not in NETS:
            continue
        got = measure(case, load(case.data, data_dir))
        found["cases"][case.name] = {"batch": case.batch, "steps": case.steps, "measured": got}
        (out / "operations.json").write_text(json.dumps(found, indent=1) + "\n")
        click.echo(f"{case.name}, us a step")
        for name, row in got.items():
            click.echo(
                f"  {name:30} {row['step_seconds'] * 1e6:10.1f}  ({min(row['all']) * 1e6:.1f} to {max(row['all']) * 1e6:.1f})"
            )


if __name__ == "__main__":
    main()
