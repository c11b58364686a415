"""Residual connections of the native trainer: its proof for several threads, and wrong programs, which it finds."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from warpladder.config import TrainConfig
from warpladder.nets import (
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    Net,
    ReLU,
    Residual,
    Sigmoid,
    Tanh,
)
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.trainers.native.program import residual_rows
from warpladder.trainers.native.trainer import NativeTrainer


def conv(channels: int, stride: int = 1, *, bias: bool = True) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=3, stride=stride, padding=1, bias=bias)


LOSS = CrossEntropyLoss()
PLAIN = Net(
    "plain", (2, 6, 6),
    (conv(4), ReLU(), Residual(conv(4), ReLU(), conv(4)), ReLU(), Residual(conv(20, 2), Tanh(), projection=True), Flatten(), Linear(out_features=3)), LOSS,
)  # fmt: skip
#: a ResNet; first of all layers, on channels that are not padded; within one another; on features, after a Flatten
NETS = [
    Net(
        "resnet", (3, 8, 8),
        (
            conv(4), BatchNorm2d(), ReLU(), Residual(conv(4, bias=False), BatchNorm2d(), ReLU(), conv(4), BatchNorm2d()), ReLU(),
            Residual(conv(8, 2), BatchNorm2d(), ReLU(), conv(8), BatchNorm2d(), projection=[Conv2d(out_channels=8, kernel_size=1, stride=2), BatchNorm2d()]),
            ReLU(), AdaptiveAvgPool2d(1), Flatten(), Linear(out_features=3),
        ),
        LOSS,
    ),
    Net("first", (3, 6, 6), (Residual(conv(3), ReLU(), conv(3)), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=3)), LOSS),
    Net(
        "nested", (2, 6, 6),
        (
            conv(4),
            Residual(conv(4), ReLU(), Residual(conv(4), Sigmoid()), AvgPool2d(2), projection=[Residual(conv(4), projection=True), AvgPool2d(2)]),
            Dropout(0.2), Flatten(), Linear(out_features=3),
        ),
        LOSS,
    ),
    Net(
        "features", (2, 5, 5),
        (
            conv(2), Flatten(), Residual(Linear(out_features=50), ReLU()), Residual(Tanh()), Residual(Residual(Linear(out_features=50), ReLU())), ReLU(),
            Linear(out_features=3),
        ),
        LOSS,
    ),
]  # fmt: skip
CONFIGS = [
    TrainConfig(batch_size=6), TrainConfig(batch_size=8, optimizer=Adam(0.01), loss_every=2),
    TrainConfig(batch_size=None, clip_norm=0.5, momentum=0.9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("net", "config"),
    [(PLAIN, CONFIGS[0]), *(pytest.param(PLAIN, config, marks=pytest.mark.slow) for config in CONFIGS[1:]),
     *(pytest.param(net, CONFIGS[i % 3], marks=pytest.mark.slow) for i, net in enumerate(NETS))],
    ids=lambda each: getattr(each, "name", ""),
)  # fmt: skip
@pytest.mark.usefixtures("cases_once")
def test_a_residual_net_is_proven_on_one_to_three_threads(net: Net, config: TrainConfig) -> None:
    for threads in (1, 2, 3):
        verdict = verify(partial(NativeTrainer, threads=threads), net, config)
        assert verdict.passed, (threads, verdict.reason)


def forgets_the_skip(rows: Any, section: str, tensors: Any, has_relu: bool) -> None:
    x, other, y = tensors
    HONEST(rows, section, (x, None if section == "forward" else other, y), has_relu)


def forgets_the_second_gradient(rows: Any, section: str, tensors: Any, has_relu: bool) -> None:
    x, other, y = tensors
    HONEST(rows, section, (x, None if section == "backward" else other, y), has_relu)


def doubles_the_gradient(rows: Any, section: str, tensors: Any, has_relu: bool) -> None:
    x, other, y = tensors
    HONEST(rows, section, (x, x if section == "backward" and other is not None else other, y), has_relu)


def forgets_the_relu(rows: Any, section: str, tensors: Any, has_relu: bool) -> None:
    HONEST(rows, section, tensors, False)


HONEST = residual_rows._add
LIARS = [forgets_the_skip, forgets_the_second_gradient, doubles_the_gradient, forgets_the_relu]


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_program_is_caught(liar: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_rows, "_add", liar)
    verdict = verify(partial(NativeTrainer, threads=1), PLAIN, CONFIGS[0])
    assert not verdict.passed and verdict.judged, verdict.reason
