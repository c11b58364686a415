"""The tensor rung next to graph, in turns, and the layers that it computes with graph's kernels.

    python benchmarks/h200/divisions.py        # a minute, on a GPU

Nets of the ladder, and nets for which no kernel was made. Samples are noise: a step's time does not depend on them.
Microseconds of a step, the medians of seven epochs; one epoch runs before them.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, params
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise.where import open_device

TURNS = 7
R, P, F = ReLU(), MaxPool2d(2), Flatten()
MNIST, CIFAR = (1, 28, 28), (3, 32, 32)


def conv(outputs: int, k: int = 3, padding: int = 1, stride: int = 1) -> Conv2d:
    return Conv2d(out_channels=outputs, kernel_size=k, padding=padding, stride=stride)


def linear(*widths: int) -> tuple[Layer, ...]:
    return tuple(layer for width in widths for layer in (Linear(out_features=width), R))[:-1]


def net(name: str, shape: tuple[int, ...], *layers: Layer) -> Net:
    return Net(name, shape, layers, CrossEntropyLoss())


#: Net and batch; None for all samples.
CASES = (
    (nets.softmax(), 128), (nets.mlp(), 64), (nets.mlp10(), None), (nets.cnn(), 64),
    (net("lenet5", MNIST, conv(6, 5, 2), R, P, conv(16, 5, 0), R, P, F, *linear(120, 84, 10)), 128),
    (net("two convolutions", MNIST, conv(24, 5, 0), R, P, conv(32, 3, 0), R, P, F, *linear(256, 10)), 256),
    (net("vgg", CIFAR, conv(32), R, conv(32), R, P, conv(64), R, conv(64), R, P, F, *linear(512, 10)), 128),
    (net("stride 2", CIFAR, conv(32, stride=2), R, conv(64, stride=2), R, conv(128, stride=2), R, F, *linear(10)), 128),
    (net("784-512-512-512-10", (784,), *linear(512, 512, 512, 10)), 256),
    (net("eight of 128", (784,), *linear(*[128] * 8, 10)), 128),
    (net("54-128-64-7", (54,), *linear(128, 64, 7)), 256),
)  # fmt: skip
RUNGS = ("graph", "tensor", "tensor:precision=bf16")


def made_up(net: Net) -> Dataset:
    """Noise in the net's shape, as bytes for images."""
    random, count = np.random.default_rng(0), 32_768
    x = random.integers(0, 256, (count, *net.in_shape), np.uint8)
    return Dataset("noise", x, random.integers(0, net.out_shape[0], count).astype(np.int32), x[:1], None, 1 / 255)


def microseconds(trainer: Trainer, epoch: int, samples: int, steps: int) -> float:
    """Time of a step in an epoch, or in twenty epochs of one step."""
    began = time.perf_counter()
    if steps > 1:
        trainer.run(Order(0, epoch, samples), 0, steps)
    else:
        steps = 20
        trainer.run_epochs([Order(0, epoch * steps + number, samples) for number in range(steps)])
    return 1e6 * (time.perf_counter() - began) / steps


def main() -> None:
    """Print a table."""
    facts = machine.facts()
    print(f"{open_device(None).name}, {facts['cpu']}, cuda-bindings {facts['packages'].get('cuda-bindings')}\n")
    print(f"| net, batch | {' | '.join(RUNGS)} | layers by graph's kernels |")
    print("| --- " * (len(RUNGS) + 2) + "|")
    for net, batch in CASES:
        data, config = made_up(net), TrainConfig(batch_size=batch, learning_rate=0.01, drop_last=True)
        samples, start = len(data.train_x), State(params.initial(net, 0))
        trainers = [find(rung).build(net, config, start) for rung in RUNGS]
        for trainer in trainers:
            trainer.load(data)
        steps = config.steps(samples)
        turns = [[microseconds(each, turn, samples, steps) for each in trainers] for turn in range(1 + TURNS)]
        times = [f"{statistics.median(each):.1f}" for each in zip(*turns[1:], strict=True)]
        below = [
            f"{len(each.below & each.computing)} of {len(each.computing)}"
            for each in trainers[1:]
            if isinstance(each, GraphedTrainer)
        ]
        print(f"| {net.name}, {batch or 'full'} | {' | '.join(times)} | {'; '.join(below)} |", flush=True)
        for trainer in trainers:
            trainer.close()


if __name__ == "__main__":
    main()
