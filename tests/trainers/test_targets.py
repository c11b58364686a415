"""Targets of a data set: every rung's step against the reference, the proof's liars, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.data import Dataset, arrays
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Linear, MaxPool2d, MSELoss, Net, ReLU
from warpladder.nets.params import initial, views
from warpladder.ops.mse.array import ArrayMSE
from warpladder.ops.tables.array import TABLE
from warpladder.proof import verify
from warpladder.proof.bounds import loss_bound, update_bounds
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.verdict import distance
from warpladder.trainers.base import State
from warpladder.trainers.layerwise import LayerwiseTrainer

FLAT = Net("flat", (20,), (Linear(out_features=16), ReLU(), Linear(out_features=3)), MSELoss())
IMAGES = Net(
    "images",
    (1, 6, 6),
    (Conv2d(out_channels=4, kernel_size=3), ReLU(), MaxPool2d(2), Conv2d(out_channels=2, kernel_size=1)),
    MSELoss(),
)
#: an output as large as the input, which is not the target
EQUAL = Net("equal", (5,), (Linear(out_features=4), ReLU(), Linear(out_features=5)), MSELoss())
CONFIG = TrainConfig(epochs=2, batch_size=8, learning_rate=64.0)
CPU = ("loops", "numpy", "native", "torch")
EMULATED = ("naive", "streamed", "tiled", "graph", "persistent", "resident", "gemm", "tensor")


def data_for(net: Net, samples: int = 21) -> Dataset:
    rng = np.random.default_rng(3)
    flat = len(net.in_shape) == 1
    x = rng.normal(size=(samples, *net.in_shape)).astype(np.float32) if flat else None
    pixels = rng.integers(0, 256, (samples, *net.in_shape), np.uint8) if x is None else x
    y = rng.normal(size=(samples, int(np.prod(net.out_shape)))).astype(np.float32)
    return Dataset("targets", pixels, y, pixels[:2], y[:2], 1.0 if flat else 1 / 255)


def check_rung(name: str, net: Net) -> None:
    """The whole batch and the partial one, each from the same weights, within the proof's bounds."""
    data, order, start = data_for(net), Order(5, 1, 21), State(initial(net, 2))
    with find(name).build(net, CONFIG, start) as trainer:
        trainer.load(data)
        for step, size in ((0, 8), (2, 5)):
            reference = ReferenceTrainer(net, CONFIG, start)
            reference.load(data)
            wanted = reference.run(order, step, step + 1)
            trainer.set_state(start)
            log = trainer.run(order, step, step + 1)
            assert abs(log.loss[0] - wanted.loss[0]) <= loss_bound(net, size) * wanted.loss[0]
            found, truth = (
                views(net, each.state().params.astype(np.float64) - start.params) for each in (trainer, reference)
            )
            for tensor, limit in update_bounds(net, size).items():
                assert distance(found[tensor], truth[tensor]) <= limit, f"{tensor} in step {step}"


@pytest.mark.parametrize("net", [FLAT, EQUAL, pytest.param(IMAGES, marks=pytest.mark.slow)], ids=lambda net: net.name)
@pytest.mark.parametrize("rung", CPU)
def test_a_rung_on_a_cpu_learns_targets(rung: str, net: Net) -> None:
    check_rung(rung, net)


@pytest.mark.parametrize(
    "rung", [*EMULATED[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in EMULATED[2:])]
)
def test_a_rung_of_kernels_learns_targets(rung: str) -> None:
    check_rung(f"{rung}:device=emulated", EQUAL)


@pytest.mark.pairs
@pytest.mark.parametrize("rung", ["naive", "streamed", "tiled", "graph", "tensor"])
def test_kernels_learn_targets_of_images(rung: str) -> None:
    check_rung(f"{rung}:device=emulated", IMAGES)


def test_the_reference_follows_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    data, net = data_for(FLAT), FLAT
    reference = ReferenceTrainer(net, CONFIG, State(initial(net, 2)))
    x, y = data.train_x.astype(np.float64), data.train_y
    assert y is not None
    loss, _, gradient = reference.gradients(x, y)
    module = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).double()
    module.load_state_dict({name: torch.tensor(w) for name, w in views(net, reference.params).items()})
    wanted = torch.nn.MSELoss()(module(torch.tensor(x)), torch.tensor(y, dtype=torch.float64))
    wanted.backward()
    assert loss == pytest.approx(wanted.item(), rel=1e-12)
    flat = np.concatenate([p.grad.numpy().ravel() for p in module.parameters() if p.grad is not None])
    np.testing.assert_allclose(gradient, flat, rtol=1e-10, atol=1e-12)


class LearnsItsInput(LayerwiseTrainer):
    """A trainer that takes the input for the target."""

    def load(self, dataset: Dataset) -> None:
        super().load(dataset.but(train_y=None, test_y=None))


class LearnsStoredOrder(LayerwiseTrainer):
    """A trainer whose targets stay in the stored order while samples are shuffled."""

    def run(self, order, first, last):
        assert self.feed is not None and self.feed.goals is not None
        self.feed.goals = self.feed.goals[np.argsort(order.indices(0, order.n))]
        return super().run(order, first, last)


class MeanOverSamples(ArrayMSE):
    """A loss divided by the samples of a batch, not by all its elements."""

    def backward(self, n: int) -> None:
        self.dx[:n] *= self.dx.dtype.type(2 / n)


class OneColumn(ArrayMSE):
    """A loss that compares every output with the first target."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        self.target[:n] = self.target[:n, :1]
        super().forward(n, has_loss)


def liar(kind: type[LayerwiseTrainer], loss: type[ArrayMSE] = ArrayMSE):
    table = type(TABLE)(TABLE.layers, {**TABLE.losses, MSELoss: loss}, TABLE.update, TABLE.gather, TABLE.file)
    return lambda net, config, state: kind(net, config, state, table)


LIARS = {
    "the input": (liar(LearnsItsInput), EQUAL),
    "the stored order": (liar(LearnsStoredOrder), FLAT),
    "a mean over samples": (liar(LayerwiseTrainer, MeanOverSamples), FLAT),
    "one column": (liar(LayerwiseTrainer, OneColumn), FLAT),
}


@pytest.mark.parametrize("name", LIARS)
def test_a_liar_about_targets_is_caught(name: str) -> None:
    build, net = LIARS[name]
    verdict = verify(build, net, CONFIG.but(learning_rate=0.1), dataset=data_for(net), seed=1)
    assert verdict.judged and not verdict.passed, verdict.reason


def test_an_honest_trainer_on_targets_is_proven() -> None:
    verdict = verify(liar(LayerwiseTrainer), EQUAL, CONFIG.but(learning_rate=0.1), dataset=data_for(EQUAL), seed=1)
    assert verdict.passed, verdict.reason


def test_data_that_do_not_fit_a_net() -> None:
    data = data_for(FLAT)
    with pytest.raises(DataError, match="has 5 outputs, but targets has 3 targets"):
        find("numpy").build(
            net := Net("n", (20,), (Linear(out_features=5),), MSELoss()), CONFIG, State(initial(net, 0))
        ).load(data)
    with pytest.raises(DataError, match="targets has none"):
        find("numpy").build(FLAT, CONFIG, State(initial(FLAT, 0))).load(data.but(train_y=None, test_y=None))
    with pytest.raises(DataError, match="needs labels and targets has targets"):
        net = Net("c", (20,), (Linear(out_features=3),), CrossEntropyLoss())
        find("numpy").build(net, CONFIG, State(initial(net, 0))).load(data)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, np.nan, 2.0], "target of sample 1 is not finite"),
        ([1.0, 2.0], "3 train samples but 2 targets"),
        (np.zeros((3, 0)), "at least one"),
        (["a", "b", "c"], "must be numbers"),
    ],
)
def test_targets_that_are_none(y: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        arrays(np.zeros((3, 2)), y, np.zeros((1, 2)), None, targets=True)


def test_whole_numbers_may_be_targets() -> None:
    data = arrays(np.zeros((3, 2)), [1, 2, 3], np.zeros((1, 2)), [4], targets=True)
    assert data.has_targets and data.outputs == 1 and data.classes == 0
    assert data.test_y is not None and data.test_y.tolist() == [[4.0]]
