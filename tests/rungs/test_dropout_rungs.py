"""Dropout on every rung: the reference's steps, a run that goes on in the same bits, and clear refusals."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Dropout, Flatten, Linear, MaxPool2d, Net, ReLU
from warpladder.nets.params import initial
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State, Trainer

MLP = Net(
    "dropped", (6,),
    (Dropout(0.2), Linear(out_features=9), ReLU(), Dropout(0.5), Linear(out_features=3)),
    CrossEntropyLoss(),
)  # fmt: skip
CNN = Net(
    "dropped", (2, 6, 6),
    (
        Conv2d(out_channels=3, kernel_size=3), ReLU(), MaxPool2d(2), Dropout(0.25), Conv2d(out_channels=4, kernel_size=2), ReLU(), Dropout(0.3), Flatten(),
        Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
N, SEED = 23, 5


@cache
def data(net: Net) -> Dataset:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(N, *net.in_shape)).astype(np.float32), rng.integers(0, 3, N, np.int32)
    return Dataset("drawn", x, y, x[:2], y[:2])


def trained(trainer: Trainer, net: Net, ranges: list[tuple[int, int, int]]) -> State:
    """State after ranges of steps (epoch, first, last), between which the trainer predicts."""
    trainer.load(data(net))
    for epoch, first, last in ranges:
        trainer.run(Order(SEED, epoch, N), first, last)
        trainer.predict(data(net).train_x[:3], 1.0)
    return trainer.state()


RUNGS = (
    "loops",
    "numpy",
    "native",
    "native:threads=2",
    "naive:device=emulated",
    "streamed:device=emulated",
    "graph:device=emulated",
    "tensor:device=emulated",
    "torch",
    "jax",
)


@pytest.mark.parametrize(
    ("net", "batch"),
    [
        pytest.param(MLP, 4, id="mlp"), pytest.param(MLP, None, id="mlp-full", marks=pytest.mark.slow),
        pytest.param(CNN, 4, id="cnn", marks=pytest.mark.slow), pytest.param(CNN, None, id="cnn-full", marks=pytest.mark.slow),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rung", RUNGS)
def test_steps_are_the_references_and_go_on_in_the_same_bits(rung: str, batch: int | None, net: Net) -> None:
    config, start = TrainConfig(batch_size=batch, learning_rate=0.05, epochs=2), State(initial(net, 3))
    steps = config.steps(N)
    whole = [(epoch, 0, steps) for epoch in (3, 4)]
    parts = [(3, 0, steps // 2), (3, steps // 2, steps), (4, 0, steps)]
    truth = trained(ReferenceTrainer(net, config, start), net, whole).params
    if reason := find(rung).unsupported(net, config):
        pytest.skip(reason)
    with find(rung).build(net, config, start) as one, find(rung).build(net, config, start) as two:
        end = trained(one, net, whole)
        assert np.linalg.norm(end.params - truth) <= 1e-5 * np.linalg.norm(truth - start.params)
        half = trained(two, net, parts[:1])
        with find(rung).build(net, config, half) as three:
            assert np.array_equal(trained(three, net, parts[1:]).params, end.params)


def test_rungs_that_cannot_say_so_in_one_line() -> None:
    config = TrainConfig(batch_size=4)
    assert "Dropout" in str(find("persistent:device=emulated").unsupported(MLP, config))
    assert "MLPClassifier cannot express net 'dropped'" in str(find("sklearn").unsupported(MLP, config))
