"""Faults where a proof had not been are caught, at batches of one to all samples; their twins pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_details import honest_twin
from planted_unvisited import UNVISITED

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.nets import BatchNorm1d, BCEWithLogitsLoss, CrossEntropyLoss, Dropout, Flatten, Linear, Net, ReLU, Tanh
from warpladder.optimizers import SGD
from warpladder.proof import verify


def of(*layers: Any, loss: Any = CrossEntropyLoss, outputs: int = 5) -> Net:
    every = Flatten(), Linear(out_features=9), *layers, Linear(out_features=outputs)
    return Net("unvisited", (1, 3, 4), every, loss())


NETS = {
    "plain": of(ReLU()),
    "weighted": of(Tanh()),
    "many": of(ReLU(), outputs=200),
    "targets": of(Tanh(), loss=BCEWithLogitsLoss),
    "dropped": of(ReLU(), Dropout(0.3)),
    "normal": of(BatchNorm1d(), ReLU()),
}
#: Batch sizes at which a fault makes no difference: an epoch has one step, no partial batch, one
#: weight, or nothing to normalise.
NOTHING = {
    "MasksAfterAStateAsAtTheBeginning": (None,), "Prefetches": (None,), "PrefetchesByNumber": (None,),
    "ShrinksWeightedRests": (1, None), "PredictsByTheStatisticsBefore": (1,),
    "KeepsTheWeightsOfTheDataBefore": (1,), "WeighsNotWithoutLosses": (1,),
}  # fmt: skip
BY_DAY = {"BeginsUnshuffled", "LosesItsNormInLongCalls", "Prefetches", "ClosesForAll"}


def given(kind: str) -> Dataset | None:
    """Data set of a run on this kind of net: with weights of samples, or with soft targets; or none."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (40, 1, 3, 4)).astype(np.uint8)
    if kind == "weighted":
        y, weight = rng.integers(0, 5, 40).astype(np.int32), rng.uniform(0.5, 2, 40).astype(np.float32)
        return Dataset("mine", x, y, x[:2], y[:2], 1 / 255, train_weight=weight)
    targets = rng.random((40, 5)).astype(np.float32)
    return Dataset("mine", x, targets, x[:2], targets[:2], 1 / 255) if kind == "targets" else None


def cases() -> list[Any]:
    out = []
    for fault in UNVISITED:
        for batch in (each for each in (7, 1, None) if each not in NOTHING.get(fault.__name__, ())):
            is_slow = fault.__name__ not in BY_DAY or batch != 7
            name = f"{fault.__name__}-{batch or 'full'}"
            out.append(pytest.param(fault, batch, id=name, marks=[pytest.mark.slow] * is_slow))
    return out


@pytest.mark.parametrize(("fault", "batch"), cases())
def test_a_fault_is_caught_and_its_twin_passes(fault: Any, batch: int | None) -> None:
    kind, settings = UNVISITED[fault]
    config = TrainConfig(batch_size=batch, epochs=20, **{"optimizer": SGD(0.02, momentum=0.9), **settings})
    twin: Any = honest_twin(fault)
    for each in (fault, twin):
        verdict = verify(each, NETS[kind], config, dataset=given(kind), reach=16)
        assert verdict.judged and verdict.passed is not each.lies, (each.__name__, verdict.reason)
        assert not verdict.reason.startswith("crash"), verdict.reason
