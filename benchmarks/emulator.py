"""An epoch on 1,000 images on the emulator: S2's perceptron and S1's convolutional network, on the naive rung's
kernels.

python benchmarks/emulator.py             # half a minute; compiling is told apart
python benchmarks/emulator.py --check     # the same with the checker, on fewer images
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import click
import numpy as np

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device.emulator import EmulatedDevice
from warpladder.files.atomic import write_atomically
from warpladder.machine import facts as machine
from warpladder.nets import Net, params
from warpladder.ops.tables.naive import TABLE
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise.trainer import KernelTrainer

IMAGES, ROUNDS = 1000, 5
TARGETS = {"mlp": 0.7, "cnn": 2.2}  # seconds, on two cores


def epoch(net: Net, device: EmulatedDevice, images: int, rounds: int) -> tuple[float, list[float]]:
    """Seconds to build, load and take a first step, and of each of several epochs."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (images, *net.in_shape), np.uint8)
    labels = random.integers(0, 10, images)
    data = Dataset("random", pixels, labels, pixels[:1], labels[:1], 1 / 255)
    start = State(params.initial(net, 0))
    config = TrainConfig(batch_size=64, learning_rate=0.01)
    begin = time.perf_counter()
    with KernelTrainer(net, config, start, device, TABLE, "sync") as trainer:
        trainer.load(data)
        trainer.run(Order(0, 0, images), 0, 1)
        first = time.perf_counter() - begin
        seconds = []
        for number in range(rounds):
            begin = time.perf_counter()
            log = trainer.run(Order(0, number, images), 0, config.steps(images))
            seconds.append(time.perf_counter() - begin)
            assert np.isfinite(log.loss).all()
    return first, seconds


@click.command()
@click.option("--check", is_flag=True, help="With the checker, 64 images.")
def main(check: bool) -> None:
    """Time the emulator, and store what was found."""
    device = EmulatedDevice(mode="check") if check else EmulatedDevice()
    found = {}
    for net in (nets.mlp(), nets.cnn()):
        first, seconds = epoch(net, device, 64 if check else IMAGES, 1 if check else ROUNDS)
        best = statistics.median(seconds)
        found[net.name] = {
            "images": 64 if check else IMAGES,
            "first_seconds": first,
            "epoch_seconds": best,
            "all": seconds,
        }
        target = "" if check else f" (target {TARGETS[net.name]} s)"
        click.echo(
            f"{net.name}: {best:.2f} s an epoch of {found[net.name]['images']} images{target}; {first:.2f} s until the first step was taken"
        )
    if not check:
        facts = {
            name: value
            for name, value in machine.facts().items()
            if name in ("cpu", "cores", "system", "fma_peak", "commit")
        }
        write_atomically(
            Path(__file__).parent / "results" / "emulator.json",
            json.dumps({"machine": facts, "epochs": found}, indent=1),
        )


if __name__ == "__main__":
    main()
