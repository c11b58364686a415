"""Losses in whole steps: every rung against the reference, proofs, and liars about losses that the proof must catch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from compared_steps import check_updates
from losses import LOSSES, NEW, WEIGHT, data_for, net_of, torch_loss

from warpladder.config import TrainConfig
from warpladder.data import Dataset
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.ladder import find
from warpladder.nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss, Net
from warpladder.nets.params import initial, views
from warpladder.ops.loss.array import ArrayElementLoss, ArrayLabelLoss
from warpladder.ops.tables.array import TABLE
from warpladder.proof import verify
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer

CONFIG = TrainConfig(batch_size=6, learning_rate=0.5, epochs=1)
CPU = ("loops", "numpy", "native", "torch", "torch:loader=yes")
EMULATED = ("naive", "streamed", "resident", "tiled", "gemm", "graph", "tensor")


def check_rung(name: str, net: Net, config: TrainConfig, weighted: bool) -> None:
    """Each step of an epoch, the partial one too, with losses and without."""
    check_updates(find(name).build, net, config, data_for(net, weighted=weighted))


def slow(*arguments: Any, is_slow: bool) -> Any:
    """Arguments of a test that `scripts/test` leaves out if another shows as much."""
    return pytest.param(*arguments, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        slow(name, weighted, is_slow=name not in ("numpy", "native") or not weighted)
        for name in CPU
        for weighted in (0, 1)
    ],
)
def test_steps_on_the_cpu(name: str, weighted: int, loss: Loss) -> None:
    if name.startswith("torch"):
        pytest.importorskip("torch")
    check_rung(name, net_of(loss, "smooth"), CONFIG, bool(weighted))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    ("name", "weighted"),
    [slow(name, weighted, is_slow=name != "naive" or not weighted) for name in EMULATED for weighted in (0, 1)],
)
def test_steps_on_the_emulator(name: str, weighted: int, loss: Loss) -> None:
    check_rung(f"{name}:device=emulated", net_of(loss, "smooth"), CONFIG, bool(weighted))


@pytest.mark.parametrize("name", ["numpy", "native", "graph:device=emulated", "torch"])
def test_full_batches_with_weights(name: str) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    for loss in (CrossEntropyLoss(weight=WEIGHT), HuberLoss()):
        check_rung(name, net_of(loss, "smooth"), CONFIG.but(batch_size=None), weighted=True)


@pytest.mark.parametrize("loss", NEW, ids=str)
def test_an_epoch_of_pytorchs(loss: Loss) -> None:
    """Whole float64 steps by `torch.optim.SGD` on the mean weighted by samples, within 1e-12."""
    torch = pytest.importorskip("torch")
    for weighted in (False, True):
        net = net_of(loss, "smooth")
        data, order, start = (
            data_for(net, weighted=weighted),
            Order(5, 0, 23),
            State(initial(net, 2).astype(np.float64)),
        )
        reference = ReferenceTrainer(net, CONFIG, start)
        reference.load(data)
        wanted = reference.run(order, 0, 4).loss
        module = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).double()
        module.load_state_dict({name: torch.tensor(value) for name, value in views(net, start.params).items()})
        optimizer, single, mean = torch.optim.SGD(module.parameters(), 0.5), torch_loss(loss, "none"), torch_loss(loss)
        x, y = torch.tensor(data.train_x.astype(np.float64)), torch.tensor(data.train_y)
        y = y.long() if y.ndim == 1 else y.double()
        for step, at in enumerate(np.split(order.indices(0, 23), [6, 12, 18])):
            optimizer.zero_grad()
            out = module(x[at])
            found = mean(out, y[at])
            if data.train_weight is not None:
                weight = torch.tensor(data.train_weight[at].astype(np.float64))
                factors = torch.tensor(WEIGHT)[y[at]] if getattr(loss, "weight", None) else 1.0
                found = (weight * single(out, y[at]).reshape(len(at), -1).mean(1)).sum() / (weight * factors).sum()
            found.backward()
            optimizer.step()
            assert wanted[step] == pytest.approx(found.item(), rel=1e-12)
        for name, value in views(net, reference.state().params).items():
            assert np.abs(module.state_dict()[name].numpy() - value).max() <= 1e-12 * np.abs(value).max()


def prove(name: str, net: Net, weighted: bool = False) -> None:
    rung, data = find(name), data_for(net, weighted=True) if weighted else None
    verdict = verify(rung.build, net, CONFIG, seed=7, precision=rung.precision, sums=rung.sums, dataset=data)
    assert verdict.passed and verdict.judged, verdict.reason


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weighted"])
@pytest.mark.parametrize("loss", [slow(loss, is_slow=number not in (2, 3)) for number, loss in enumerate(NEW)], ids=str)
def test_proofs_of_array_code(loss: Loss, weighted: bool) -> None:
    prove("numpy", net_of(loss), weighted)


@pytest.mark.pairs
@pytest.mark.parametrize(("kind", "weighted"), [("chain", True), ("convolved", False)])
@pytest.mark.parametrize("loss", NEW, ids=str)
@pytest.mark.parametrize("name", ["loops", "native", *(f"{name}:device=emulated" for name in EMULATED)])
def test_proofs_of_each_rung(name: str, loss: Loss, kind: str, weighted: bool) -> None:
    prove(name, net_of(loss, kind), weighted)


class SmoothsTheNext(ArrayLabelLoss):
    """Spreads the smoothing over all classes but the last."""

    def __init__(self, x: Any, target: Any, dx: Any, loss: Loss, shares: Any = None) -> None:
        super().__init__(x, target, dx, loss, shares)
        self.spread[-1] = 0


class SmoothsNoLabel(ArrayLabelLoss):
    """Takes the smoothing from the label's probability twice."""

    def __init__(self, x: Any, target: Any, dx: Any, loss: Loss, shares: Any = None) -> None:
        super().__init__(x, target, dx, loss, shares)
        self.weight -= self.spread


class WeighsThePredicted(ArrayLabelLoss):
    """Takes the weight of the largest logit's class."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        kept = self.weight.copy()
        self.weight[...] = 1
        super().forward(n, has_loss)
        self.dx[:n] *= kept[self.x[:n].argmax(axis=1)][:, None]
        self.weight[...] = kept


class DividesByTheCount(ArrayLabelLoss):
    """Divides by the batch's size in place of the sum of the weights."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        assert self.shares is not None
        self.shares[:n] = 1 / n
        super().forward(n, has_loss)


class BoundsNothing(ArrayElementLoss):
    """Follows the square beyond delta."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)
        self.dx[:n] = self.x[:n] - self.target[:n]


class ForgetsDelta(ArrayElementLoss):
    """Has slope 1, not delta, in the linear part."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)
        d = self.x[:n] - self.target[:n]
        self.dx[:n] = np.where(np.abs(d) <= self.setting, d, np.sign(d))


class RisesAtZero(ArrayElementLoss):
    """Has slope 1 where the output is the target."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)
        self.dx[:n] = np.where(self.x[:n] - self.target[:n] >= 0, 1, -1)


class WeighsTheNegative(ArrayElementLoss):
    """Applies pos_weight to targets of 0."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)
        x, t = self.x[:n], self.target[:n]
        self.dx[:n] = self.setting * (1 - t) * self.special.expit(x) - t * self.special.expit(-x)


class TakesTheSumOfOutputs(ArrayElementLoss):
    """Adds outputs up in place of their mean."""

    def backward(self, n: int) -> None:
        super().backward(n)
        self.dx[:n] *= self.size


SMOOTHED, WEIGHTED = CrossEntropyLoss(label_smoothing=0.2), CrossEntropyLoss(weight=WEIGHT)
LIARS: list[tuple[type, Loss]] = [
    (SmoothsTheNext, SMOOTHED),
    (SmoothsNoLabel, SMOOTHED),
    (WeighsThePredicted, WEIGHTED),
    (DividesByTheCount, WEIGHTED),
    (BoundsNothing, HuberLoss(delta=0.4)),
    (ForgetsDelta, HuberLoss(delta=0.4)),
    (RisesAtZero, L1Loss()),
    (WeighsTheNegative, BCEWithLogitsLoss(pos_weight=(3.0,))),
    (TakesTheSumOfOutputs, BCEWithLogitsLoss()),
]


def lying(kind: type, net: Net, config: TrainConfig, state: State) -> Trainer:
    """A trainer of array code with another loss."""
    return LayerwiseTrainer(net, config, state, replace(TABLE, labelled=kind, elements=kind))


BY_DAY = (WeighsThePredicted, DividesByTheCount, ForgetsDelta, RisesAtZero)


@pytest.mark.parametrize(
    ("kind", "loss"), [slow(*liar, is_slow=liar[0] not in BY_DAY) for liar in LIARS],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_liars_are_caught(kind: type, loss: Loss) -> None:
    verdict = verify(partial(lying, kind), net_of(loss), CONFIG, seed=7)
    assert verdict.judged and not verdict.passed
    assert any(word in verdict.reason for word in ("loss", "update", "gradient", "slots")), verdict.reason


class ForgetsTheWeights(LayerwiseTrainer):
    """Takes every sample for as heavy as the others."""

    def load(self, dataset: Dataset) -> None:
        super().load(dataset.but(train_weight=None))


class WeighsByTheSet(LayerwiseTrainer):
    """Divides by the mean weight of the data set in place of the batch's."""

    def load(self, dataset: Dataset) -> None:
        super().load(dataset)
        if self.shares is not None:
            self.shares.factors = np.full(len(self.shares.own), self.shares.own.mean())


@pytest.mark.parametrize("kind", [ForgetsTheWeights, slow(WeighsByTheSet, is_slow=True)])
def test_liars_about_weights_of_samples_are_caught(kind: Any) -> None:
    net = net_of(HuberLoss())
    verdict = verify(
        lambda net, config, state: kind(net, config, state, TABLE),
        net,
        CONFIG,
        seed=7,
        dataset=data_for(net, weighted=True),
    )
    assert verdict.judged and not verdict.passed


@pytest.mark.slow
def test_plain_forms_pass() -> None:
    for kind, loss in ((ArrayLabelLoss, WEIGHTED), (ArrayElementLoss, L1Loss())):
        assert verify(partial(lying, kind), net_of(loss), CONFIG, seed=7).passed


def test_targets_of_binary_cross_entropy_are_from_zero_to_one() -> None:
    data = data_for(net_of(L1Loss()))
    with pytest.raises(DataError, match="BCEWithLogitsLoss wants targets from 0 to 1, and drawn has -0"):
        find("numpy").build(net_of(BCEWithLogitsLoss()), CONFIG, State(initial(net_of(L1Loss()), 0))).load(data)
