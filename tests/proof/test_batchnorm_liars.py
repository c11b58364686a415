"""Trainers with a wrong batch normalisation: each mistake is caught by the proof."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.nets import (
    NORMALISATIONS,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Upsample2d,
)
from warpladder.ops.batchnorm.array import ArrayBatchNorm
from warpladder.ops.engine.base import Buffers
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.proof.verdict import Ledger, Refuted, conclude
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


class Changed(ArrayBatchNorm):
    """Moves the running statistics by `held`, its own rule."""

    def held(self, name: str, old: np.ndarray, of_batch: np.ndarray, count: int) -> np.ndarray:
        raise NotImplementedError

    def forward(self, n: int) -> None:
        t = self.buffers
        before = {"mean": t.mean.astype(np.float64), "var": t.var.astype(np.float64)}
        super().forward(n)
        x = t.x[:n].astype(np.float64)
        found = {"mean": x.mean(self.axes), "var": x.var(self.axes)}
        for name, old in before.items():
            getattr(t, name)[...] = self.held(name, old, found[name], x.size // x.shape[1])


class BiasedVariance(Changed):
    """Stores the biased variance."""

    def held(self, name: str, old: np.ndarray, of_batch: np.ndarray, count: int) -> np.ndarray:
        return (1 - self.layer.momentum) * old + self.layer.momentum * of_batch


class Complement(Changed):
    """Takes momentum for the share of the old statistics."""

    def held(self, name: str, old: np.ndarray, of_batch: np.ndarray, count: int) -> np.ndarray:
        of_batch = of_batch * count / (count - 1) if name == "var" else of_batch
        return self.layer.momentum * old + (1 - self.layer.momentum) * of_batch


class BatchBefore(Changed):
    """Moves the running statistics by those of the batch before."""

    last: dict[str, np.ndarray] | None = None

    def held(self, name: str, old: np.ndarray, of_batch: np.ndarray, count: int) -> np.ndarray:
        of_batch = of_batch * count / (count - 1) if name == "var" else of_batch
        self.last = self.last or {}
        before, self.last[name] = self.last.get(name, of_batch), of_batch
        return (1 - self.layer.momentum) * old + self.layer.momentum * before


class NeverMoves(Changed):
    """Leaves the running statistics as they are."""

    def held(self, name: str, old: np.ndarray, of_batch: np.ndarray, count: int) -> np.ndarray:
        return old


class UnbiasedForward(ArrayBatchNorm):
    """Normalises by the unbiased variance."""

    def forward(self, n: int) -> None:
        super().forward(n)
        t = self.buffers
        count = t.x[:n].size // t.x.shape[1]
        self.z[:n] *= np.float32(np.sqrt((count - 1) / count))
        self._map(self.z[:n], t.y[:n])


class EpsOutsideTheRoot(ArrayBatchNorm):
    """Divides by sqrt(var) + eps."""

    def forward(self, n: int) -> None:
        super().forward(n)
        t = self.buffers
        deviation = np.sqrt(t.x[:n].astype(np.float64).var(self.axes))
        self.z[:n] *= self._wide(1 / (self.factor * (deviation + self.layer.eps)))
        self._map(self.z[:n], t.y[:n])


class WithRows(ArrayBatchNorm):
    """Computes the input's gradient with some of its terms."""

    mean_term, product_term = True, True

    def backward(self, n: int) -> None:
        super().backward(n)
        t = self.buffers
        dy, z = t.dy[:n].astype(np.float64), self.z[:n].astype(np.float64)
        db, dw = (each.mean(self.axes).reshape(self.shape) for each in (dy, dy * z))
        factor = self.factor if t.w is None else self.factor * t.w
        if t.dx is not None:
            t.dx[:n] = factor.reshape(self.shape) * (dy - self.mean_term * db - self.product_term * z * dw)


class ForgetsTheMean(WithRows):
    mean_term = False


class ForgetsTheVariance(WithRows):
    product_term = False


class TakesTheBatchInPredictions(ArrayBatchNorm):
    def predict(self, n: int) -> None:
        t = self.buffers
        held = t.mean.copy(), t.var.copy()
        if t.x[:n].size > t.x.shape[1]:
            self.forward(n)
            t.mean[...], t.var[...] = held
        else:
            super().predict(n)


class MovesInPredictions(ArrayBatchNorm):
    def predict(self, n: int) -> None:
        super().predict(n)
        self.buffers.mean[...] *= np.float32(1.001)


class TrainsOnRunningStatistics(ArrayBatchNorm):
    def forward(self, n: int) -> None:
        before = self.buffers.mean.copy(), self.buffers.var.copy()
        super().forward(n)
        after = self.buffers.mean.copy(), self.buffers.var.copy()
        self.buffers.mean[...], self.buffers.var[...] = before
        self.predict(n)
        self.buffers.mean[...], self.buffers.var[...] = after


class FullRows(ArrayBatchNorm):
    """Takes the statistics of all rows of its buffers, those of another batch among them."""

    def forward(self, n: int) -> None:
        super().forward(len(self.buffers.x))


TABLE_NET = Net(
    "normal", (6,),
    (
        Linear(out_features=8, bias=False), BatchNorm1d(eps=1e-3), ReLU(), Linear(out_features=5), BatchNorm1d(momentum=0.3),
        Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
IMAGE_NET = Net(
    "normal", (2, 6, 6),
    (
        Conv2d(out_channels=4, kernel_size=3), BatchNorm2d(), ReLU(), Conv2d(out_channels=3, kernel_size=3, bias=False),
        BatchNorm2d(affine=False), Flatten(), Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
DECODER = Net(
    "decoder", (2, 8, 8),
    (
        Conv2d(out_channels=4, kernel_size=3, padding=1), BatchNorm2d(), ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2),
        Conv2d(out_channels=2, kernel_size=3, padding=1), BatchNorm2d(),
    ),
    MSELoss(),
)  # fmt: skip
LIARS: tuple[tuple[type[ArrayBatchNorm], tuple[str, ...]], ...] = (
    (BiasedVariance, ("buffers",)), (Complement, ("buffers",)), (BatchBefore, ("buffers", "round trip", "repeat")),
    (NeverMoves, ("buffers",)), (UnbiasedForward, ("loss", "update")), (EpsOutsideTheRoot, ("loss", "update")),
    (ForgetsTheMean, ("update",)), (ForgetsTheVariance, ("update",)), (TakesTheBatchInPredictions, ("predict",)),
    (MovesInPredictions, ("predict", "disturbance", "buffers")), (TrainsOnRunningStatistics, ("loss", "update", "correct")),
    (FullRows, ("loss", "update", "buffers", "correct")),
)  # fmt: skip


def with_op(op: Any, net: Net, config: TrainConfig, state: State) -> Trainer:
    layers = {**TABLE.layers, **dict.fromkeys(NORMALISATIONS, op)}
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers=layers))


@pytest.mark.parametrize(("op", "caught_by"), LIARS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("net", [TABLE_NET, pytest.param(IMAGE_NET, marks=pytest.mark.slow)], ids=["table", "image"])
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_normalisation_is_caught(op: type[ArrayBatchNorm], caught_by: tuple[str, ...], net: Net) -> None:
    verdict = verify(partial(with_op, op), net, TrainConfig(batch_size=6))
    assert not verdict.passed and verdict.judged
    assert verdict.reason.startswith(caught_by), verdict.reason


@pytest.mark.parametrize("batch", [16, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("cases_once")
def test_two_normalisations_are_judged_on_batches_of_many_pixels(batch: int | None) -> None:
    """The errors of adding a channel's pixels one by one exceed the bounds there."""
    config = TrainConfig(batch_size=batch, momentum=0.9, clip_norm=0.5)
    honest = verify(partial(with_op, ArrayBatchNorm), DECODER, config, reach=8)
    assert honest.passed, honest.reason
    for op, _ in LIARS if batch is None else ((UnbiasedForward, ()), (ForgetsTheVariance, ())):
        if op is not FullRows:  # in a full batch these are all rows
            verdict = verify(partial(with_op, op), DECODER, config, reach=8)
            assert not verdict.passed and verdict.judged, op.__name__


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(batch_size=6), TrainConfig(batch_size=8, optimizer=Adam(0.01), loss_every=2),
        pytest.param(TrainConfig(batch_size=None), marks=pytest.mark.slow),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("net", [TABLE_NET, pytest.param(IMAGE_NET, marks=pytest.mark.slow)], ids=["table", "image"])
@pytest.mark.usefixtures("cases_once")
def test_the_honest_normalisation_passes(net: Net, config: TrainConfig) -> None:
    verdict = verify(partial(with_op, ArrayBatchNorm), net, config)
    assert verdict.passed, verdict.reason
    assert verdict.checks["buffers"] > 0


@pytest.mark.parametrize(
    "op", [op if op is UnbiasedForward else pytest.param(op, marks=pytest.mark.pairs) for op, _ in LIARS]
)
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_normalisation_of_long_sums_never_passes(op: type[ArrayBatchNorm], monkeypatch: Any) -> None:
    monkeypatch.setattr("warpladder.proof.normalised.allowance.ENDLESS", 1)
    monkeypatch.setattr("warpladder.proof.normalised.format_errors.LONG", 1)
    config = TrainConfig(batch_size=6, learning_rate=0.02)
    verdict = verify(partial(with_op, op), IMAGE_NET, config)
    assert not verdict.passed
    assert verdict.judged or op in (UnbiasedForward, EpsOutsideTheRoot), "one accumulator does not explain it"


def test_what_long_sums_explain_is_neither_proven_nor_refuted() -> None:
    ledger = Ledger()
    ledger.within("loss", "the batch", "here", 1e-7, 1e-6)
    with pytest.raises(Refuted) as caught:
        ledger.within("update", "0.weight", "here", 1e-3, 1e-6)
    ledger.leave(caught.value, "long sums")
    verdict = conclude(ledger, ("loss", "update"), None, 1.0)
    assert not verdict.passed and not verdict.judged
    assert verdict.reason.startswith("cannot judge: update of 0.weight is off by 1.0e-03")
    with pytest.raises(Refuted) as caught:
        ledger.within("predict", "the output", "there", 1e-3, 1e-6)
    verdict = conclude(ledger, ("loss", "update"), caught.value, 1.0)
    assert verdict.judged and verdict.reason.startswith("predict")


def test_buffers_of_an_op_are_views_of_the_state() -> None:
    """What a batch moves is in the next state, and a state that is set is what predictions take."""
    net, config = TABLE_NET, TrainConfig(batch_size=6)
    rng = np.random.default_rng(2)
    start = State(rng.normal(0, 0.3, net.param_count).astype(np.float32))
    with with_op(ArrayBatchNorm, net, config, start) as trainer:
        x = rng.normal(size=(5, 6)).astype(np.float32)
        first = trainer.predict(x, 1.0)
        trainer.set_state(start.but(buffers=np.full(net.buffer_count, 2.0, np.float32)))
        assert not np.allclose(trainer.predict(x, 1.0), first)
        held = trainer.state().buffers
        assert held is not None and np.all(held == 2)
    assert Buffers(x, x).mean is None
