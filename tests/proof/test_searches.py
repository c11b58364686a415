"""Searches for samples fit to judge by: they end, and find some for nets that normalise several times."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from planted_operations import mixed
from rounding import rounding

from warpladder import ladder
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.nets import (
    AdaptiveAvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Layer,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Residual,
)
from warpladder.nets.params import views
from warpladder.proof import verify
from warpladder.proof.bounds import update_bounds
from warpladder.proof.cases import Cases
from warpladder.proof.kinks import on_grid
from warpladder.trainers.base import State


def conv(channels: int, stride: int = 1) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=3, padding=1, stride=stride)


def block(channels: int, stride: int = 1) -> Residual:
    inner: tuple[Layer, ...] = (conv(channels, stride), BatchNorm2d(), ReLU(), conv(channels), BatchNorm2d())
    return Residual(*inner, projection=conv(channels, stride)) if stride > 1 else Residual(*inner)


def resnet(channels: int) -> Net:
    body = (conv(channels), BatchNorm2d(), ReLU(), block(channels), ReLU(), block(2 * channels, 2), ReLU())
    end = AdaptiveAvgPool2d(1), Flatten(), Linear(out_features=10)
    return Net("small resnet", (1, 8, 8), (*body, *end), CrossEntropyLoss())


POOLS = Net(
    "pools",
    (1, 14, 14),
    (
        conv(8), BatchNorm2d(), ReLU(), MaxPool2d(2), conv(16), BatchNorm2d(), ReLU(), MaxPool2d(2), Flatten(),
        Linear(out_features=10),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
TWICE = Net(
    "twice",
    (1, 6, 6),
    (conv(4), BatchNorm2d(), ReLU(), Flatten(), BatchNorm1d(), Linear(out_features=5)),
    CrossEntropyLoss(),
)
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.integers(0, 256, (253, 1, 6, 6)).astype(np.uint8), RANDOM.integers(0, 5, 253).astype(np.int32)
SAMPLES = Dataset("samples", X, Y, X[:5], Y[:5], 1 / 255)


def test_a_search_in_vain_ends_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(net: Net, step: object, *others: object) -> tuple[object, str]:
        return step, "roundings change all"

    monkeypatch.setattr("warpladder.proof.case_maker.with_format_errors", never)
    monkeypatch.setattr("warpladder.proof.patience.Patience.__init__.__defaults__", (0.05,))
    began = time.thread_time()
    verdict = verify(rounding("bf16"), TWICE, TrainConfig(batch_size=24), precision="bf16", seed=1)
    assert not verdict.judged and not verdict.passed
    assert "roundings change all, after " in verdict.reason
    assert time.thread_time() - began < 5


def test_no_grid_is_sought_for_weights_of_nan() -> None:
    net = Net("plain", (4,), (Linear(out_features=3), ReLU(), Linear(out_features=2)), CrossEntropyLoss())
    state = State(np.full(net.param_count, np.nan, np.float32))
    assert np.isnan(on_grid(net, state, np.ones((2, 4)), np.random.default_rng(0)).params).any()


class AddsOneByOne:
    """Adds the terms of a gradient's means in a normalisation one by one in float32, as PyTorch does."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        t, z = self.buffers, self.z[:n]
        dy = t.dy[:n]
        means = (np.add.reduce(each, axis=0, dtype=np.float32) / np.float32(n) for each in (dy, dy * z))
        mean, along = means
        t.dx[:n] = (dy - mean - z * along) * (self.factor * t.w).astype(np.float32)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_errors_that_a_later_normalisation_leaves_over_are_tolerated(seed: int) -> None:
    config = TrainConfig(batch_size=None, clip_norm=0.5)
    verdict = verify(mixed(BatchNorm1d, AddsOneByOne, "numpy"), TWICE, config, seed=seed, reach=4, dataset=SAMPLES)
    assert verdict.passed, verdict.reason


def test_a_gradient_that_nearly_vanishes_is_judged() -> None:
    step = Cases(TWICE, TrainConfig(batch_size=None), np.random.default_rng(0), SAMPLES).exact.steps[0]
    assert step.uncertainty is not None
    unsure, g = (np.linalg.norm(views(TWICE, flat)["1.weight"]) for flat in (step.uncertainty, step.gradient))
    assert 0 < unsure < 4 * update_bounds(TWICE, step.size)["1.weight"] * g


@pytest.mark.pairs
@pytest.mark.parametrize(
    ("net", "batch"),
    [(resnet(8), 24), (resnet(16), 24), (resnet(16), 64), (POOLS, 24)],
    ids=("resnet-8", "resnet-16", "resnet-16-64", "pools"),
)
def test_cases_are_found_in_half_precision(net: Net, batch: int) -> None:
    began = time.thread_time()
    cases = Cases(net, TrainConfig(batch_size=batch), np.random.default_rng(1), None, "bf16")
    assert cases.maker.patience.spent < 30 and time.thread_time() - began < 60


def test_a_net_that_ends_in_a_normalised_convolution_is_judged() -> None:
    """A bias that a normalisation subtracts has a gradient of 0 at zero weights, in every program."""
    layers = Conv2d(out_channels=2, kernel_size=3), BatchNorm2d()
    net = Net("ends", (1, 5, 5), layers, MSELoss())
    verdict = verify(ladder.find("numpy").build, net, TrainConfig(batch_size=8), reach=4)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("classes", "batch"), [(70, 40), pytest.param(300, None, marks=pytest.mark.slow)])
def test_a_softmax_of_many_classes_is_judged(classes: int, batch: int | None) -> None:
    """At weights of zero the terms of a bias are alike: of 16 samples no batch was fit to judge by."""
    net = Net("many", (9,), (Linear(out_features=classes),), CrossEntropyLoss())
    verdict = verify(ladder.find("numpy").build, net, TrainConfig(batch_size=batch), seed=0, reach=4)
    assert verdict.passed, verdict.reason
