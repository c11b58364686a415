"""Losses of timed runs next to those of array code: where a loss is close to zero, only rounding that explains it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpladder as wl
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.nets.params import initial
from warpladder.timing.task import ClimbTask
from warpladder.timing.turn import Refused, Turn
from warpladder.timing.witness_losses import check_losses
from warpladder.trainers.base import State, StepLog

LAYERS = Flatten(), Linear(out_features=24), ReLU(), Linear(out_features=10)
CLASSES = Net("classes", (1, 8, 8), LAYERS, CrossEntropyLoss())
STEPS = 4


def _turn(epochs: int) -> tuple[ClimbTask, Turn]:
    """Turn that begins after epochs of training, on 96 digits."""
    digits = wl.data.load("digits")
    assert digits.train_y is not None
    some = replace(digits, train_x=digits.train_x[:96], train_y=digits.train_y[:96])
    task = ClimbTask(CLASSES, some, wl.TrainConfig(batch_size=24, learning_rate=0.5, epochs=2000), 1, 1, 1.0)
    with find("numpy").build(CLASSES, task.config, State(initial(CLASSES, 0))) as trainer:
        trainer.load(some)
        trainer.run_epochs([task.order(epoch) for epoch in range(epochs)])
        return task, Turn(trainer.state(), [task.order(epochs)])


def _losses(task: ClimbTask, turn: Turn) -> np.ndarray:
    """Losses (STEPS,) of the turn as float32 code gives them that takes the logarithm of a sum of exponentials."""
    losses = []
    assert turn.start is not None and task.data.train_y is not None
    with find("numpy").build(task.net, task.config, turn.start.copied()) as trainer:
        trainer.load(task.data)
        order = turn.orders[0]
        indices = order.indices(0, order.n)
        for step in range(STEPS):
            some = indices[step * 24 : (step + 1) * 24]
            out = trainer.predict(task.data.train_x[some], task.data.scale).astype(np.float32)
            out -= out.max(axis=1, keepdims=True)
            each = np.log(np.exp(out).sum(axis=1)) - out[np.arange(24), task.data.train_y[some]]
            losses.append(each.mean(dtype=np.float32))
            trainer.run(order, step, step + 1)
    return np.array(losses, np.float64)


def _log(losses: np.ndarray) -> StepLog:
    return StepLog(losses, np.zeros(len(losses), np.int64), np.full(len(losses), 24, np.int64))


@pytest.mark.parametrize("epochs", [0, 300, 1500])
def test_a_small_loss_may_be_off_by_the_rounding_of_its_logarithm(epochs):
    task, turn = _turn(epochs)
    losses = _losses(task, turn)
    assert check_losses(find("numpy"), task, turn, [_log(losses)], STEPS) == STEPS
    for share in (0.9, 1.1, np.nan):
        with pytest.raises(Refused, match="does not train the required steps: step 2 of repetition 1"):
            wrong = losses * np.array([1, 1, share, 1])
            check_losses(find("numpy"), task, turn, [_log(wrong)], STEPS)
