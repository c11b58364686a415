"""What every rung of a climb is asked to do, and how much of it a slow rung is timed on."""

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
from ..nets.params import initial
from ..proof import Shared
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer

LEAST_PROVEN = 8  # samples in a batch that a proof cuts, at least
PROBE = 0.2  # seconds: steps are probed, and short epochs repeated, until they take this long
ROUND = 20  # epochs of which one has losses and which a repetition takes in any case, were it one step of each
TRAINING = 10  # training for the test accuracy may take this many times the budget of one repetition


def kinds(net: Net, config: TrainConfig) -> list[type]:
    """The classes of a net's layers, of the optimizer and of the schedule: any of them may come from outside of
    warpladder.
    """
    return [type(thing) for thing in (*net.layers, config.optimizer, config.schedule)]


def outsiders(net: Net, config: TrainConfig) -> list[type]:
    """The classes of layers, optimizer and schedule from outside of warpladder: no proof of them is kept from earlier
    runs, and no command names them.
    """
    return [kind for kind in kinds(net, config) if not kind.__module__.startswith(OURS)]


@dataclass(frozen=True)
class Task:
    """What every rung of a climb is asked to do.

    budget : seconds that one timed repetition of one rung may take.
    scored : whether rungs train on for their test accuracy.
    cases : what proofs are made with: rungs that are proven alike share it.
    """

    net: Net
    data: Dataset
    config: TrainConfig
    epochs: int
    repeats: int
    budget: float
    scored: bool = True
    cases: Shared = field(default_factory=dict, compare=False, repr=False)

    @property
    def n(self) -> int:
        """Training samples."""
        return len(self.data.train_x)

    @property
    def steps(self) -> int:
        """Steps in an epoch."""
        return self.config.steps(self.n)

    def samples(self, steps: int) -> int:
        """Samples in the first so many steps of an epoch."""
        return min(steps * self.config.batch(self.n), self.n)

    def order(self, epoch: int) -> Order:
        return Order(self.config.seed, epoch, self.n, self.config.shuffle)

    def start(self) -> State:
        """The initial state, a new copy."""
        return State(initial(self.net, self.config.seed))


def proven_with(rung: Rung, task: Task) -> tuple[TrainConfig, str]:
    """The settings that a rung's proof is made with, and how they differ from those that are timed, in words."""
    config = task.config
    most = max(LEAST_PROVEN, int(min(rung.proof_flops / task.net.train_flops, config.batch(task.n))))
    if config.batch_size is None or config.batch_size <= most:
        return config, ""
    return config.but(
        batch_size=most
    ), f"; proven on batches of {most} samples in place of {config.batch_size}, which would take long"


@dataclass(frozen=True)
class Plan:
    """What one timed repetition takes: so many steps from the start of each of so many epochs."""

    epochs: int
    steps: int


def plan(task: Task, per_step: float) -> Plan:
    """As many whole epochs as a clock needs, or where these take too long, as many steps of each as the budget allows,
    at least one.

    Of every `loss_every` epochs one has losses, and a repetition has as large a share of them as training has. Where
    these are many and do not fit into the budget, it may have none: less than one epoch in ROUND would.
    """
    together, epoch = task.config.loss_every, per_step * task.steps
    if epoch * together > task.budget and together > ROUND:
        together = min(together, max(1, int(task.budget / epoch)))
    seconds = epoch * together
    if seconds <= task.budget:
        return Plan(together * max(1, math.ceil(PROBE / seconds)), task.steps)
    return Plan(together, min(task.steps, max(1, int(task.budget / (per_step * together)))))


def train_in_calls(trainer: Trainer, config: TrainConfig, orders: Sequence[Order], steps: int) -> list[StepLog]:
    """Train the first so many steps of each of these epochs, in calls that end wherever `log_every` has the host read
    losses; a log for each epoch.
    """
    every, whole = config.log_every, bool(orders) and steps == config.steps(orders[0].n)
    if whole and (every is None or every >= 2 * steps):
        together = len(orders) if every is None else every // steps
        return [log for at in range(0, len(orders), together) for log in trainer.run_epochs(orders[at : at + together])]
    stops = [*range(0, steps, every or steps), steps]
    return [StepLog.joined([trainer.run(order, *part) for part in pairwise(stops)]) for order in orders]
