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
from warpladder.timing.witness_losses import ROUNDING, check_losses, moved
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


def test_a_unit_that_rounding_moves_across_the_kink_of_its_relu_may_diverge():
    """A unit is 0 for all samples. The change of the weights by which all runs are judged does not lift it, a rung's
    rounding does, and so does one of the larger changes before a refusal.
    """
    wide, ones = 16, np.ones((24, 2), np.float32)
    net = Net("kink", (2,), (Linear(out_features=wide), ReLU(), Linear(out_features=2)), CrossEntropyLoss())
    labels, settings = np.zeros(24, np.int32), wl.TrainConfig(batch_size=6, learning_rate=0.0003)
    task = ClimbTask(net, wl.Dataset("ones", ones, labels, ones, labels), settings, 1, 1, 1.0)
    turn = Turn(State(initial(net, 0)), [task.order(0)])
    assert turn.start is not None
    params = turn.start.params
    first, second = (
        np.abs(moved(turn.start, 0.5, np.random.default_rng(seed)).params) > np.abs(params) for seed in (0, 1)
    )
    units = [unit for unit in range(wide) if not first[2 * unit] and second[2 * unit] != second[2 * unit + 1]]
    unit = units[0]  # its weights become 1 and -1
    params[2 * unit : 2 * unit + 2] = 1, -1
    params[3 * wide + unit], params[4 * wide + unit] = 1, -1  # what the unit gives raises the right output
    losses = []
    for change in (0, ROUNDING["fp32"]):
        params = turn.start.params.copy()
        params[2 * unit : 2 * unit + 2] += change
        with find("numpy").build(net, task.config, State(params)) as trainer:
            trainer.load(task.data)
            losses.append(trainer.run(task.order(0), 0, STEPS).loss)
    assert check_losses(find("numpy"), task, turn, [_log(losses[1])], STEPS) == STEPS
    for share in (0.9, 1.1, np.nan):
        with pytest.raises(Refused, match="does not train the required steps: step 2 of repetition 1"):
            check_losses(find("numpy"), task, turn, [_log(losses[1] * np.array([1, 1, share, 1]))], STEPS)
