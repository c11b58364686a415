"""Faults of somebody who has read all of a proof are caught, and odd but honest programs pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from liars import Wrapper
from planted_outsider import HONEST, LIARS, StepByStep

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets import BatchNorm1d, CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.proof import verify
from warpladder.trainers.base import State, StepLog

LAST = ReLU(), Linear(out_features=4)
PLAIN = Net("outsider", (1, 4, 5), (Flatten(), Linear(out_features=9), *LAST), CrossEntropyLoss())
NORMAL = Net("outsider", (1, 4, 5), (Flatten(), Linear(out_features=9), BatchNorm1d(), *LAST), CrossEntropyLoss())
CONFIGS = {
    "momentum": TrainConfig(batch_size=6, optimizer=SGD(0.01, momentum=0.9)),
    "adam": TrainConfig(batch_size=6, optimizer=Adam(1e-3)),
    "adamw": TrainConfig(batch_size=6, optimizer=AdamW(1e-3, weight_decay=0.01)),
}
BY_DAY = {"KeepsTheCountOfEqualParameters", "KeepsStatisticsOfEqualParameters", "TakesOnlyWhatChanged"}


def marked(kind: type[Wrapper], *more: object) -> Any:
    name = kind.__name__
    return pytest.param(kind, *more, id=name, marks=() if name in BY_DAY else pytest.mark.slow)


@pytest.mark.parametrize(("liar", "settings"), [marked(*each) for each in LIARS.items()])
def test_a_fault_is_caught(liar: type[Wrapper], settings: str) -> None:
    net = NORMAL if settings == "statistics" else PLAIN
    verdict = verify(liar, net, CONFIGS.get(settings, CONFIGS["momentum"]), reach=16)
    assert verdict.judged and not verdict.passed, verdict.reason
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("twin", [marked(each) for each in HONEST])
@pytest.mark.parametrize("net", [PLAIN, pytest.param(NORMAL, marks=pytest.mark.slow)], ids=["plain", "normal"])
def test_an_odd_but_honest_program_passes(twin: type[Wrapper], net: Net) -> None:
    verdict = verify(twin, net, CONFIGS["adam"], reach=16)
    assert verdict.passed, verdict.reason


class LosesLastBatchesOfEleven(StepByStep):
    """Leaves out partial batches of 11 samples."""

    def ended(self, order: Order, step: int, before: State, log: StepLog) -> None:
        if log.size[0] == 11:
            self.skip(before)


@pytest.mark.parametrize("net", [PLAIN, NORMAL], ids=["plain", "normal"])
def test_the_last_batch_of_the_run_itself_is_judged(net: Net) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (299, *net.in_shape), np.uint8), rng.integers(0, 4, 299, np.int32)
    data = Dataset("last", x, y, x[:5], y[:5], 1 / 255)
    config = TrainConfig(batch_size=32)
    verdict = verify(LosesLastBatchesOfEleven, net, config, dataset=data, reach=16)
    assert verdict.judged and not verdict.passed, verdict.reason
    assert verify(Wrapper, net, config, dataset=data, reach=16).passed
