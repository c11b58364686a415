"""Trainers that get one detail wrong, or are wrong by little or seldom, are caught, and the same code without its fault
passes, at batches of one to all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_details import DETAILS
from planted_operations import Planted
from planted_quiet import QUIET
from shared_cases import made_before, made_once

from warpladder.config import TrainConfig
from warpladder.nets import (
    GELU,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    LeakyReLU,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Tanh,
    Upsample2d,
)
from warpladder.optimizers import SGD
from warpladder.proof import verify

CONV = Conv2d(out_channels=4, kernel_size=3, padding=1)
FIRST = CONV, GELU(), MaxPool2d(2), Upsample2d(scale_factor=2), CONV, ReLU(), Flatten(), Dropout(0.3)
LAST = Linear(out_features=8), GELU(), Linear(out_features=5)
NETS = {
    "image": Net("image", (2, 6, 6), (*FIRST, *LAST), CrossEntropyLoss()),
    "norm": Net(
        "norm", (2, 6, 6), (CONV, BatchNorm2d(), ReLU(), Flatten(), Linear(out_features=9), BatchNorm1d(), *LAST[1:]),
        CrossEntropyLoss(),
    ),
    "labels": Net(
        "labels", (7,), (Linear(out_features=9), ReLU(), Linear(out_features=4)),
        CrossEntropyLoss((0.5, 2.0, 1.0, 1.25), 0.2),
    ),
    "coder": Net(
        "coder", (2, 6, 6),
        (CONV, ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2), Conv2d(out_channels=2, kernel_size=3, padding=1)),
        MSELoss(),
    ),
    "curves": Net(
        "curves", (1, 6, 6),
        (
            Conv2d(out_channels=3, kernel_size=3), Tanh(), AvgPool2d(3, 1), Flatten(), Linear(out_features=9),
            LeakyReLU(0.01), Linear(out_features=4),
        ),
        CrossEntropyLoss(),
    ),
}  # fmt: skip
BATCHES = (1, 8, None)
#: Parts of the names of faults in batches that are not full: those of one sample and of all samples are.
OF_LAST_BATCHES = "Last", "FullBatch"
BY_DAY = (
    "ClipsEachLayer-labels-8", "FillsTheLastBatch-coder-8", "AddsSmoothingOnTop-labels-8",
    "IgnoresClassesInTheLastBatch-labels-8", "KeepsTheLastSampleWhole-Dropout-image-8",
    "CountsFullBatches-BatchNorm2d-norm-8", "ReadsTheNextRowForPadding-Conv2d-image-1",
    "FlushesSubnormalHalves-labels-None", "LosesLastBatchesOf6-labels-8", "LeavesZeroGradientsAlone-SGD-labels-8",
    "DecaysAtTheFirstRate-AdamW-labels-1",
)  # fmt: skip


def nets_of(fault: Planted) -> tuple[str, ...]:
    if fault.loss is CrossEntropyLoss:
        return ("labels",)
    if fault.layer is None:
        return "image", "coder", "labels"
    nets = tuple(name for name, net in NETS.items() if fault.applies(net))
    if fault.layer is Conv2d and "InHalf" in fault.name:  # a normalisation behind it subtracts the bias again
        nets = tuple(name for name in nets if name != "norm")
    return nets[:2]


def every() -> list[Any]:
    out = []
    for fault in (*DETAILS, *QUIET):
        for name in nets_of(fault):
            for batch in BATCHES:
                if (name == "norm" and batch == 1) or (
                    batch != 8 and any(part in fault.name for part in OF_LAST_BATCHES)
                ):
                    continue
                label = f"{fault}-{name}-{batch}"
                marks = () if label in BY_DAY else pytest.mark.slow
                out.append(pytest.param(fault, name, batch, marks=marks, id=label))
    return out


@pytest.mark.parametrize(("fault", "name", "batch"), every())
def test_a_wrong_detail_is_caught(
    fault: Planted, name: str, batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpladder.proof.Cases", made_before)
    config = TrainConfig(batch_size=batch, **fault.settings)
    honest = verify(fault.twin, NETS[name], config, reach=16)
    assert honest.passed, honest.reason
    verdict = verify(fault.lie, NETS[name], config, reach=16)
    assert verdict.judged and not verdict.passed, verdict.reason
    assert not verdict.reason.startswith("crash"), verdict.reason


def test_slots_show_where_all_gradients_of_a_tensor_are_zero() -> None:
    """At weights of zero all gradients but those of the last bias are 0: a step that they leave out would not show."""
    config = TrainConfig(batch_size=8, optimizer=SGD(0.01, momentum=0.9))
    (step,) = made_once(NETS["coder"], config).zeros.steps
    assert not np.any(step.gradient[: -NETS["coder"].out_shape[0]])
    assert np.all(step.state.slots["momentum_buffer"] != 0)


@pytest.mark.parametrize(("net", "sizes"), [("labels", [2, 3, 4, 6, 7]), ("norm", [])])
def test_last_batches_have_all_sizes_where_they_are_few(net: str, sizes: list[int]) -> None:
    cases = made_once(NETS[net], TrainConfig(batch_size=8))
    assert [case.steps[0].size for case in cases.rests] == sizes
    assert all(case.steps[0].step == 1 for case in cases.rests)
