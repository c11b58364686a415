"""Trainers with a wrong residual connection: each mistake is caught by the proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.machine.precision import named
from warpladder.nets import (
    RESIDUAL_PARTS,
    BatchNorm2d,
    Branch,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    Net,
    ReLU,
    Residual,
    Shortcut,
    Sum,
)
from warpladder.ops.residual.array import ArrayResidual
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.proof.calls import check_history
from warpladder.proof.case_maker import CaseMaker
from warpladder.proof.context import ProofContext
from warpladder.proof.history import make_history
from warpladder.proof.samples import Noise
from warpladder.proof.verdict import Ledger
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


class ForgetsTheSkip(ArrayResidual):
    """Gives f(x) alone, and the right gradients of the sum."""

    def forward(self, n: int) -> None:
        super().forward(n)
        if isinstance(self.layer, Sum):
            self.buffers.y[:n] = self.buffers.x[:n]


class ForgetsItsGradient(ArrayResidual):
    """Passes the gradient of f's input on alone."""

    def backward(self, n: int) -> None:
        super().backward(n)
        if isinstance(self.layer, Branch) and self.buffers.dx is not None:
            self.buffers.dx[:n] = self.buffers.dy[:n]


class CountsItsGradientTwice(ArrayResidual):
    def backward(self, n: int) -> None:
        super().backward(n)
        if isinstance(self.layer, Branch) and self.buffers.dx is not None:
            self.buffers.dx[:n] += self.buffers.dskip[:n]


class RectifiesBeforeTheSum(ArrayResidual):
    """y = x + max(0, f(x)), with f's gradient masked as that needs."""

    def forward(self, n: int) -> None:
        super().forward(n)
        t = self.buffers
        if isinstance(self.layer, Sum):
            t.y[:n] = np.maximum(t.x[:n], 0) + t.skip[:n]

    def backward(self, n: int) -> None:
        super().backward(n)
        t = self.buffers
        if isinstance(self.layer, Sum):
            t.dx[:n] *= t.x[:n] > 0


class TakesTheLastSumsInput(ArrayResidual):
    """Adds the rows of the next sample."""

    def forward(self, n: int) -> None:
        super().forward(n)
        t = self.buffers
        if isinstance(self.layer, Sum):
            t.y[:n] = t.x[:n] + np.roll(t.skip[:n], 1, axis=0)


class ForgetsTheSkipInPredictions(ArrayResidual):
    def predict(self, n: int) -> None:
        self.forward(n)
        if isinstance(self.layer, Sum):
            self.buffers.y[:n] = self.buffers.x[:n]


class GivesTheShortcutsGradientToF(ArrayResidual):
    """Passes the projection's gradient to f in place of that of the sum."""

    def backward(self, n: int) -> None:
        super().backward(n)
        t = self.buffers
        if isinstance(self.layer, Shortcut) and t.dx is not None and t.dx.shape == t.dy.shape:
            t.dx[:n] = t.dy[:n]


def _conv(channels: int, kernel: int = 3) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=kernel, padding=kernel // 2)


PLAIN = Net(
    "plain", (2, 5, 5),
    (
        _conv(3), Residual(_conv(3), ReLU(), _conv(3)), ReLU(), Residual(_conv(3), ReLU(), projection=_conv(3, 1)),
        Flatten(), Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
NORMAL = Net(
    "normal", (2, 6, 6),
    (
        _conv(3), BatchNorm2d(), ReLU(), Residual(_conv(3), BatchNorm2d(), ReLU(), _conv(3), BatchNorm2d()), ReLU(),
        Residual(_conv(3), BatchNorm2d(), projection=[_conv(3, 1), BatchNorm2d()]), ReLU(), Flatten(), Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
LIARS: tuple[tuple[type[ArrayResidual], tuple[str, ...]], ...] = (
    (ForgetsTheSkip, ("loss", "update", "correct")), (ForgetsItsGradient, ("update",)), (CountsItsGradientTwice, ("update",)),
    (RectifiesBeforeTheSum, ("loss", "update", "correct")), (TakesTheLastSumsInput, ("loss", "update", "correct")),
    (ForgetsTheSkipInPredictions, ("predict",)), (GivesTheShortcutsGradientToF, ("update",)),
)  # fmt: skip
NETS = pytest.mark.parametrize("net", [PLAIN, pytest.param(NORMAL, marks=pytest.mark.slow)], ids=lambda net: net.name)


def with_op(op: Any, net: Net, config: TrainConfig, state: State) -> Trainer:
    layers = {**TABLE.layers, **dict.fromkeys(RESIDUAL_PARTS, op)}
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers=layers))


class WithoutProjectionsBias(LayerwiseTrainer):
    """Leaves the bias of the last projection out of the forward pass."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state, TABLE)

    def _parameters(self, named: dict[str, Any], name: str) -> tuple[Any, Any]:
        weight, bias = super()._parameters(named, name)
        is_left_out = ".projection.0" in name and bias is not None and np.shares_memory(bias, self.params)
        return weight, np.zeros_like(bias) if is_left_out else bias


@pytest.mark.parametrize(("op", "caught_by"), LIARS, ids=lambda value: getattr(value, "__name__", ""))
@NETS
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_residual_is_caught(op: type[ArrayResidual], caught_by: tuple[str, ...], net: Net) -> None:
    _is_caught(partial(with_op, op), net, caught_by)


@pytest.mark.usefixtures("cases_once")
def test_a_projection_without_its_bias_is_caught() -> None:
    _is_caught(WithoutProjectionsBias, PLAIN, ("loss", "update", "correct"))


def _is_caught(build: Callable[..., Trainer], net: Net, caught_by: tuple[str, ...]) -> None:
    verdict = verify(build, net, TrainConfig(batch_size=6))
    assert not verdict.passed and verdict.judged
    assert verdict.reason.startswith(caught_by), verdict.reason


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(batch_size=6),
        pytest.param(TrainConfig(batch_size=8, optimizer=Adam(0.01), loss_every=2), marks=pytest.mark.slow),
        pytest.param(TrainConfig(batch_size=None), marks=pytest.mark.slow),
    ],
    ids=str,
)
@NETS
@pytest.mark.usefixtures("cases_once")
def test_the_honest_residual_passes(net: Net, config: TrainConfig) -> None:
    data = Noise(net, np.uint8)(np.random.default_rng(1), 97)
    few = Dataset("noise", *data, data[0][:1], data[1][:1], 1 / 255) if config.batch_size is None else None
    verdict = verify(partial(with_op, ArrayResidual), net, config, dataset=few)
    assert verdict.passed, verdict.reason


def test_a_number_that_passes_a_kink_in_a_history_is_no_fault() -> None:
    """In step 94 of this history an input of a ReLU is 3.5e-8 in float64."""
    config = TrainConfig(batch_size=None)
    history = make_history(CaseMaker(PLAIN, config, np.random.default_rng(0)), Noise(PLAIN, np.uint8))
    cases: Any = SimpleNamespace(precision=named("fp32"), name="kinks")
    build = partial(with_op, ArrayResidual)
    check_history(ProofContext(build, PLAIN, config, cases, np.random.default_rng(0), True, Ledger()), history)
    assert history.sharpness > 1
