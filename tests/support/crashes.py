"""Trainings that are interrupted, and comparison of what they leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import Hook, data, facts, hooked

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.ladder import Rung
from warpladder.nets import Net
from warpladder.train import Run, train
from warpladder.trainers.base import Trainer


class Crash(Exception):
    """The machine went off here."""


def crash_at(place: int) -> Hook:
    """Before the call that would train this step, counted over all epochs of seven steps."""

    def before(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if order.epoch * 7 + last > place:
            raise Crash

    return before


def crashed(
    path: Path,
    net: Net,
    config: TrainConfig,
    rung: str | Rung,
    place: int,
    every: int | None,
    resume: Path | None = None,
) -> bool:
    """Whether a run up to the crash left a checkpoint; checkpoints go to `path`."""
    with pytest.raises(Crash):
        train(
            net,
            data(),
            config,
            rung=hooked(rung, before=crash_at(place)),
            checkpoint=path,
            checkpoint_every=every,
            resume=resume,
        )
    return path.exists()


def same(run: Run, other: Run) -> None:
    assert facts(run.checkpoint) == facts(other.checkpoint)
