"""Planted trainers of normalisation, losses with settings, weights of samples, clipped norms, weight decay, momentum
across epochs and kept copies are caught, and those without the fault pass.
"""

from typing import Any

import numpy as np
import pytest
from planted_operations import Planted
from planted_settings import SETTINGS, SETTINGS_CALLS
from regime_liars import RegimeLiar

from warpladder import ladder
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.nets import (
    GELU,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    HuberLoss,
    Linear,
    MaxPool2d,
    Net,
    ReLU,
    Residual,
    SiLU,
    Upsample2d,
)
from warpladder.proof import Verdict, verify

NORM = Net(
    "norm",
    (2, 7, 6),
    (
        Conv2d(out_channels=4, kernel_size=3), BatchNorm2d(), ReLU(),
        Residual(
            Conv2d(out_channels=4, kernel_size=3, padding=1), BatchNorm2d(momentum=0.3), ReLU(),
            Conv2d(out_channels=4, kernel_size=3, padding=1),
        ),
        MaxPool2d(2, 2), Flatten(), Dropout(0.25), Linear(out_features=9), BatchNorm1d(), GELU(), Linear(out_features=5),
    ),
    CrossEntropyLoss(label_smoothing=0.1),
)  # fmt: skip
RESIDUAL = Net(
    "residual",
    (1, 6, 6),
    (
        Conv2d(out_channels=3, kernel_size=3, padding=1), SiLU(), AvgPool2d(2),
        Residual(Conv2d(out_channels=3, kernel_size=3, padding=1), ReLU(), Conv2d(out_channels=3, kernel_size=3, padding=1)),
        Upsample2d(scale_factor=2), Flatten(), Linear(out_features=12), GELU(), Dropout(0.3), Linear(out_features=5),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
WEIGHTED = Net(
    "weighted", (26,), (Linear(out_features=14), GELU(), Linear(out_features=4)),
    CrossEntropyLoss((0.5, 2.0, 1.0, 0.0), 0.05),
)  # fmt: skip
POOLED = Net(
    "pooled",
    (1, 6, 6),
    (
        Conv2d(out_channels=3, kernel_size=3, padding=1), ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2),
        Conv2d(out_channels=1, kernel_size=3, padding=1),
    ),
    HuberLoss(0.5),
)  # fmt: skip
BINARY = Net(
    "binary", (30,), (Linear(out_features=10), SiLU(), Linear(out_features=3)), BCEWithLogitsLoss((2.0,))
)  # fmt: skip
BATCH = 40
#: Parts of names of faults that another net than RESIDUAL shows.
ON = {
    "tatistics": NORM, "ByTheB": NORM, "EpsO": NORM, "TheMean": NORM, "Scales": NORM, "ForgetsEps": NORM,
    "WithoutSmoothing": NORM, "labelled": WEIGHTED, "elements": POOLED, "PoolsInHalf": POOLED,
}  # fmt: skip
BY_DAY = (
    "ForgetsMomentumBetweenEpochs-0", "FreezesSlowTensors-100000", "ClipsALittle-cuda", "ClipsAlways",
    "KeepsTransposedWeights-numpy", "StopsStatistics-0", "LeansAtZero-elements", "IgnoresTheFirstClass-labelled",
)  # fmt: skip


def judged(build: Any, name: str, settings: dict[str, Any]) -> Verdict:
    net = next((net for part, net in ON.items() if part in name), RESIDUAL)
    return verify(build, net, TrainConfig(batch_size=BATCH, **settings), reach=16, dataset=weighted(net))


def weighted(net: Net) -> Dataset | None:
    """Samples with weights for WEIGHTED; None for other nets."""
    if net is not WEIGHTED:
        return None
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(60, 26)).astype(np.float32), rng.integers(0, 4, 60).astype(np.int32)
    return Dataset("weights", x, y, x[:1], y[:1], 1.0, train_weight=np.exp2(rng.uniform(-4, 4, 60)).astype(np.float32))


def every() -> list[Any]:
    kinds: list[RegimeLiar | Planted] = [*SETTINGS_CALLS, *SETTINGS]
    return [pytest.param(each, marks=[] if str(each) in BY_DAY else [pytest.mark.slow], id=str(each)) for each in kinds]


@pytest.mark.parametrize("fault", every())
@pytest.mark.usefixtures("cases_once")
def test_a_fault_of_seldom_settings_is_caught(fault: RegimeLiar | Planted) -> None:
    verdict = judged(fault.lie, str(fault), fault.settings)
    assert verdict.judged and not verdict.passed
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("fault", every())
@pytest.mark.usefixtures("cases_once")
def test_a_trainer_of_seldom_settings_without_a_fault_passes(fault: RegimeLiar | Planted) -> None:
    verdict = judged(fault.twin, str(fault), fault.settings)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("seed", range(3))
def test_a_binary_loss_is_judged_where_it_is_learnt(seed: int) -> None:
    """One program that makes no step for gradients of a small norm is caught; array code passes."""
    lie = next(each.lie for each in SETTINGS if str(each) == "SkipsTinyNorms")
    config = TrainConfig(batch_size=8)
    assert not verify(lie, BINARY, config, seed=seed, reach=16).passed
    verdict = verify(ladder.find("numpy").build, BINARY, config, seed=seed, reach=16)
    assert verdict.passed, verdict.reason
