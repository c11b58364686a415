"""Residual connections: gradients of a whole net by finite differences, and each op against the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.nets import BatchNorm1d, Branch, CrossEntropyLoss, Linear, MSELoss, Net, Residual, Shortcut, Sum, Tanh
from warpladder.nets.params import initial
from warpladder.ops.engine.base import Buffers, Op
from warpladder.ops.residual import reference
from warpladder.ops.residual.array import ArrayResidual
from warpladder.ops.residual.loops import LoopsResidual
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State

#: One inside of another, one with a projection, one at the beginning, with nothing trained before it.
CHAINS = {
    "nested": (
        Linear(out_features=4), Residual(Tanh(), Residual(Linear(out_features=4), Tanh()), Linear(out_features=4, bias=False)),
        Linear(out_features=3),
    ),
    "projected": (Linear(out_features=4), Residual(Tanh(), Linear(out_features=5), projection=True), Linear(out_features=3)),
    "first": (Residual(Linear(out_features=6), Tanh(), projection=[Tanh(), Linear(out_features=6)]), Linear(out_features=3)),
    "normalised": (Linear(out_features=4), Residual(BatchNorm1d(), Tanh()), BatchNorm1d(), Linear(out_features=3)),
}  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("loss", [CrossEntropyLoss(), MSELoss()], ids=str)
def test_gradients_are_finite_differences(chain: str, loss: Any) -> None:
    net, rng = Net("net", (6,), CHAINS[chain], loss), np.random.default_rng(0)
    x = rng.normal(size=(5, 6))
    y: Any = rng.integers(0, 3, 5) if isinstance(loss, CrossEntropyLoss) else rng.normal(size=(5, 3)).astype(np.float32)
    params = initial(net, 1) + rng.normal(0, 0.2, net.param_count)
    trainer = ReferenceTrainer(net, TrainConfig(), State(params))
    gradient = trainer.gradients(x, y)[2]
    for i in range(net.param_count):
        found = []
        for step in (1e-6, -1e-6):
            trainer.params = params + step * (np.arange(net.param_count) == i)
            found.append(trainer.gradients(x, y)[0])
        assert abs((found[0] - found[1]) / 2e-6 - gradient[i]) <= 1e-8, i


@pytest.mark.parametrize("op", [ArrayResidual, LoopsResidual])
@pytest.mark.parametrize(
    "layer", [Branch(), Shortcut(channels=2, height=3, width=5), Sum()], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("needs", [True, False])
def test_an_op_copies_and_adds(op: type[Op], layer: Any, needs: bool) -> None:
    rng, n = np.random.default_rng(3), 3
    entering = (4, 2, 3) if isinstance(layer, Shortcut) else (2, 3, 5)
    x, dskip, dx = (rng.normal(size=(n + 1, *entering)).astype(np.float32) for _ in range(3))
    y, skip, dy = (rng.normal(size=(n + 1, 2, 3, 5)).astype(np.float32) for _ in range(3))
    before = dx.copy(), y.copy()
    second = None if isinstance(layer, Sum) else dskip
    stored = None if isinstance(layer, Branch) else skip
    bound = op(layer, Buffers(x, y, dx if needs else None, dy, skip=stored, dskip=second))
    bound.forward(n)
    assert np.array_equal(y[:n], reference.forward(layer, x, stored)[:n])
    bound.backward(n)
    want = reference.backward(layer, dy, second)[:n] if needs else before[0][:n]
    assert np.array_equal(dx[:n], want)
    assert np.array_equal(dx[n:], before[0][n:]) and np.array_equal(y[n:], before[1][n:])


def test_a_branch_of_a_net_that_is_cut_passes_its_gradient_on() -> None:
    dy = np.ones((2, 3), np.float32)
    dx = np.zeros_like(dy)
    ArrayResidual(Branch(), Buffers(dy, dy, dx, dy)).backward(2)
    assert np.array_equal(dx, dy)
