"""Faults that show in settings, counts, states or data that a short run seldom has are caught; honest twins pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_layers import CutsGradients, IgnoresSmallWeights, SaturatesAt30
from planted_operations import Nothing, mixed
from planted_seldom import ON_BATCHES, ON_LABELS, ON_WEIGHTS
from planted_sizes import SIZES_ON_BATCHES, SIZES_ON_LABELS, SIZES_ON_WEIGHTS
from regime_liars import RegimeLiar
from shared_cases import SQUARE, made_before

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.nets import BatchNorm2d, Conv2d, CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.proof import Verdict, verify

#: Those that scripts/test runs; .ci/run has the others.
BY_DAY = (
    "LosesClippingLate-1000", "StopsAfterTheEnd-1", "LosesTheLastOfWholeTiles-32", "PredictsBeforeALongCall-3",
    "KeepsLabelsByTheirSum-0", "TakesNoWeightForOne-0", "HasNoWeightsInLongCalls-3", "TakesZeroForNaNInSlots-0",
    "ClampsVariances-100", "LosesSmallPartialBatches-4", "CutsGradients-Linear-numpy",
)  # fmt: skip
NORMALISES = Net(
    "normalises",
    (1, 8, 8),
    (Conv2d(out_channels=4, kernel_size=3), BatchNorm2d(), ReLU(), Flatten(), Linear(out_features=5)),
    CrossEntropyLoss(),
)
#: Operations of a net that normalises, which numbers of other magnitudes show.
INSIDE = {
    f"{fault.__name__}-{kind.__name__}-{form}": (kind, fault, form)
    for kind in (Linear, Conv2d) for fault in (CutsGradients, IgnoresSmallWeights, SaturatesAt30)
    for form in ("numpy", "loops")
    if (kind, fault) != (Linear, SaturatesAt30)  # logits stay as they are
}  # fmt: skip


def weighted() -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (50, 1, 4, 4)).astype(np.uint8), rng.integers(0, 5, 50).astype(np.int32)
    return Dataset("weighted", x, y, x[:5], y[:5], 1 / 255, train_weight=rng.uniform(0, 3, 50).astype(np.float32))


WEIGHTED = weighted()
EVERY: dict[str, tuple[RegimeLiar, Net, Dataset | None]] = {
    str(liar): (liar, net, data)
    for some, net, data in (
        (ON_LABELS + SIZES_ON_LABELS, SQUARE, None),
        (ON_WEIGHTS + SIZES_ON_WEIGHTS, SQUARE, WEIGHTED),
        (ON_BATCHES + SIZES_ON_BATCHES, NORMALISES, None),
    )
    for liar in some
}


@pytest.fixture(autouse=True)
def cases_of_each_net_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpladder.proof.Cases", made_before)


def params(names: Any) -> list[Any]:
    return [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.slow]) for name in names]


def judged(build: Any, net: Net, data: Dataset | None = None, proof_seed: int = 1, **settings: Any) -> Verdict:
    return verify(build, net, TrainConfig(batch_size=6, **settings), dataset=data, seed=proof_seed, reach=16)


@pytest.mark.parametrize("name", params(EVERY))
def test_a_seldom_fault_is_caught(name: str) -> None:
    liar, net, data = EVERY[name]
    verdict = judged(liar.lie, net, data, **liar.settings)
    assert verdict.judged and not verdict.passed
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("name", params(EVERY)[:: len(EVERY) // 4])
def test_a_trainer_without_it_passes(name: str) -> None:
    liar, net, data = EVERY[name]
    verdict = judged(liar.twin, net, data, **liar.settings)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("name", params(INSIDE))
def test_a_fault_inside_of_a_net_that_normalises_is_caught(name: str) -> None:
    kind, fault, form = INSIDE[name]
    verdict = judged(mixed(kind, fault, form), NORMALISES, proof_seed=2)  # two of ten seeds miss cut gradients
    assert verdict.judged and not verdict.passed
    assert verdict.reason.startswith(("update", "loss", "correct", "predict")), verdict.reason
    assert judged(mixed(kind, Nothing, form), NORMALISES, proof_seed=2).passed
