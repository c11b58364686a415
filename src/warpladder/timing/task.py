"""`ClimbTask`: the training that every rung of a climb does; `TimingPlan`: the part of it that one repetition times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..files.python import OURS
from ..nets import Net
from ..proof import Shared
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer

LEAST_PROVEN = 8  # fewest samples of a batch that a proof reduces
PROBE = 0.2  # seconds for which steps are probed and short epochs repeated
ROUND = 20  # largest `loss_every` whose epochs a repetition always includes, with at least one step of each
TRAINING = 10  # limit of training for the test accuracy, in budgets of one repetition


def kinds(net: Net, config: TrainConfig) -> list[type]:
    """Classes of a net's layers, of the optimizer and of the schedule."""
    return [type(thing) for thing in (*net.layers, config.optimizer, config.schedule)]


def outsiders(net: Net, config: TrainConfig) -> list[type]:
    """Classes of a net's layers, optimizer and schedule from user files: their proofs are not cached, and no command
    names them.
    """
    return [kind for kind in kinds(net, config) if not kind.__module__.startswith(OURS)]


@dataclass(frozen=True)
class ClimbTask:
    """Training that every rung of a climb does: net, data, settings and limits.

    budget : most seconds of one timed repetition of one rung.
    is_scored : True if rungs train on for their test accuracy.
    cases : inputs and references of proofs, shared by rungs with the same proof.
    """

    net: Net
    data: Dataset
    config: TrainConfig
    epochs: int
    repeats: int
    budget: float
    is_scored: bool = True
    cases: Shared = field(default_factory=dict, compare=False, repr=False)

    @property
    def n(self) -> int:
        """Number of training samples."""
        return len(self.data.train_x)

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""
        return self.config.steps(self.n)

    def samples(self, steps: int) -> int:
        """Number of samples in the first `steps` steps of an epoch."""
        return min(steps * self.config.batch(self.n), self.n)

    def order(self, epoch: int) -> Order:
        """Order of the samples in an epoch."""
        return Order(self.config.seed, epoch, self.n, self.config.shuffle)

    def start(self) -> State:
        """Initial state of training, a new copy."""
        return State.drawn(self.net, self.config)


def proven_with(rung: Rung, task: ClimbTask) -> tuple[TrainConfig, str]:
    """Settings of a rung's proof, and a clause on how they differ from the timed settings."""
    config = task.config
    most = max(LEAST_PROVEN, int(min(rung.proof_flops / task.net.train_flops, config.batch(task.n))))
    if config.batch_size is None or config.batch_size <= most:
        return config, ""
    return config.but(
        batch_size=most
    ), f"; proven on batches of {most} samples in place of {config.batch_size}, which would take long"


@dataclass(frozen=True)
class TimingPlan:
    """Work of one timed repetition: the first `steps` steps of each of `epochs` epochs."""

    epochs: int
    steps: int


def plan(task: ClimbTask, per_step: float) -> TimingPlan:
    """Plan of a repetition: as many whole epochs as a clock needs; if they take too long, the first steps of each that
    fit the budget.

    One of `loss_every` epochs has losses, and a repetition has the same share of them. If `loss_every` is larger than
    ROUND and its epochs do not fit the budget, a repetition may have no epoch with losses.
    per_step : estimated seconds of a step.
    """
    together, epoch = task.config.loss_every, per_step * task.steps
    if epoch * together > task.budget and together > ROUND:
        together = min(together, max(1, int(task.budget / epoch)))
    seconds = epoch * together
    if seconds <= task.budget:
        return TimingPlan(together * max(1, math.ceil(PROBE / seconds)), task.steps)
    return TimingPlan(together, min(task.steps, max(1, int(task.budget / (per_step * together)))))


def train_in_calls(trainer: Trainer, config: TrainConfig, orders: Sequence[Order], steps: int) -> list[StepLog]:
    """Train the first `steps` steps of each epoch, in calls that end where `log_every` lets the host read losses.

    Returns a log for each epoch.
    """
    every, whole = config.log_every, bool(orders) and steps == config.steps(orders[0].n)
    if whole and (every is None or every >= 2 * steps):
        together = len(orders) if every is None else every // steps
        return [log for at in range(0, len(orders), together) for log in trainer.run_epochs(orders[at : at + together])]
    stops = [*range(0, steps, every or steps), steps]
    return [StepLog.joined([trainer.run(order, *part) for part in pairwise(stops)]) for order in orders]
