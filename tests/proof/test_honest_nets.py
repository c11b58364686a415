"""Honest array code on nets for which a proof once crashed or refused it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hunt_refusals import drawn

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.ladder import find
from warpladder.nets import (
    GELU,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    HuberLoss,
    L1Loss,
    Layer,
    Linear,
    Loss,
    MSELoss,
    Net,
    ReLU,
)
from warpladder.ops.loss.array import ArrayElementLoss
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import SGD, Adam, RMSprop
from warpladder.optimizers.schedules import StepDecay
from warpladder.proof import verify
from warpladder.proof.normalised.whole_batches import cancelled_biases
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


def _coder(layer: Layer, loss: Loss) -> Net:
    first, last = (Conv2d(out_channels=count, kernel_size=3, padding=1) for count in (3, 1))
    return Net("coder", (1, 5, 5), (first, layer, last), loss)


@pytest.mark.parametrize("has_data", [True, False], ids=["bytes", "noise"])
def test_inputs_that_are_targets_of_binary_cross_entropy_stay_from_zero_to_one(has_data: bool) -> None:
    x = np.random.default_rng(0).integers(0, 256, (90, 1, 5, 5), np.uint8)
    data = Dataset("bytes", x, None, x[:5], None, 1 / 255) if has_data else None
    net = _coder(ReLU(), BCEWithLogitsLoss())
    verdict = verify(find("numpy").build, net, TrainConfig(batch_size=8), seed=3, dataset=data, reach=4)
    assert verdict.passed, verdict.reason


def test_tiny_and_huge_errors_have_rates_of_their_own() -> None:
    """At the rate of tiny errors, 2^91, updates by huge ones overflow."""
    net, config = _coder(GELU(), MSELoss()), TrainConfig(batch_size=6, optimizer=SGD(0.01, momentum=0.9))
    verdict = verify(find("numpy").build, net, config, seed=10, reach=4)
    assert verdict.passed, verdict.reason


def test_a_sample_of_nan_that_no_output_depends_on_leaves_the_loss_finite() -> None:
    layers = (Conv2d(out_channels=2, kernel_size=1, padding=1), AvgPool2d(1, 2), Flatten(), Linear(out_features=3))
    net = Net("edge", (1, 1, 2), (layers[0], ReLU(), *layers[1:]), HuberLoss())  # the pool takes corners alone
    verdict = verify(find("numpy").build, net, TrainConfig(batch_size=5), seed=1, reach=4)
    assert verdict.passed, verdict.reason


class HasASignByComparisons(ArrayElementLoss):
    """L1's gradient is 0 for NaN, as PyTorch's."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)
        off = self.x[:n] - self.target[:n]
        self.dx[:n] = (off > 0) * 1.0 - (off < 0)


def test_a_sign_by_comparisons_is_honest() -> None:
    net = Net("signs", (4,), (Linear(out_features=4),), L1Loss())
    table = replace(TABLE, elements=HasASignByComparisons)

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return LayerwiseTrainer(net, config, state, table)

    verdict = verify(build, net, TrainConfig(batch_size=5), seed=1, reach=4)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("loss", [L1Loss(), HuberLoss(delta=0.1)], ids=["L1", "Huber"])
@pytest.mark.parametrize("inputs", [3, 10])
@pytest.mark.by_day("3-L1", "10-Huber")
def test_slopes_of_one_size_are_judged_in_large_batches(loss: Loss, inputs: int) -> None:
    """All batches have thousands of equal terms."""
    net = Net("cut", (inputs,), (Linear(out_features=5), ReLU(), Linear(out_features=6)), loss)
    verdict = verify(find("numpy").build, net, TrainConfig(batch_size=None), seed=1, reach=4)
    assert verdict.passed, verdict.reason


def test_a_history_may_have_learnt_all_its_samples() -> None:
    """Its loss is exactly 0: next to it every difference is infinite."""
    net, rng = Net("large", (6,), (Linear(out_features=2),), CrossEntropyLoss()), np.random.default_rng(0)
    x, y = rng.normal(0, 2.0**16, (64, 6)).astype(np.float32), np.random.default_rng(1).integers(0, 2, 64, np.int32)
    data = Dataset("large", x, y, x[:1], y[:1], 1.0)
    verdict = verify(find("numpy").build, net, TrainConfig(batch_size=8), seed=5, dataset=data, reach=4)
    assert verdict.passed, verdict.reason


def test_few_different_samples_are_judged_in_large_batches() -> None:
    net = Net("few", (2,), (Linear(out_features=2),), MSELoss())
    for batch in (None, 4000):
        verdict = verify(find("numpy").build, net, TrainConfig(batch_size=batch), seed=3, reach=4)
        assert verdict.passed, verdict.reason


def test_a_bias_that_the_next_normalisation_subtracts_is_not_judged_by_its_rounding_errors() -> None:
    layers = (
        Linear(out_features=8),
        BatchNorm1d(),
        Linear(out_features=6),
        BatchNorm1d(),
        ReLU(),
        Linear(out_features=3),
    )
    net = Net("normal", (5,), layers, CrossEntropyLoss())
    assert cancelled_biases(net) == {"0.bias", "1.bias", "2.bias"}
    for optimizer in (SGD(0.01), Adam(1e-3)):
        verdict = verify(find("numpy").build, net, TrainConfig(batch_size=8, optimizer=optimizer), seed=1, reach=4)
        assert verdict.passed, verdict.reason
    padded = Conv2d(out_channels=2, kernel_size=3, padding=1), BatchNorm2d(), Conv2d(out_channels=2, kernel_size=3)
    ends = BatchNorm2d(), Flatten(), Linear(out_features=3)
    assert cancelled_biases(Net("conv", (1, 6, 6), (*padded, *ends), CrossEntropyLoss())) == {
        "0.bias",
        "1.bias",
        "2.bias",
    }
    padded = *padded[:2], Conv2d(out_channels=2, kernel_size=3, padding=1)
    assert cancelled_biases(Net("conv", (1, 6, 6), (*padded, *ends), CrossEntropyLoss())) == {"0.bias", "2.bias"}


def test_a_rate_below_the_smallest_float_changes_nothing() -> None:
    """A schedule that halves the rate in every step of a short epoch."""
    net = Net("faint", (6,), (Linear(out_features=4), ReLU(), Linear(out_features=3)), CrossEntropyLoss())
    for optimizer in (RMSprop(1e-3, weight_decay=1e-3, momentum=0.9), SGD(0.01)):
        config = TrainConfig(batch_size=3, optimizer=optimizer, schedule=StepDecay(every=0.5, gamma=0.5), epochs=29)
        verdict = verify(find("numpy").build, net, config, seed=52, reach=4)
        assert verdict.passed, verdict.reason


@pytest.mark.parametrize("number", [394159, 394163])
def test_an_update_is_judged_by_the_rate_of_its_step(number: int) -> None:
    """Drawn nets whose first rate is large and whose step's is small: the format loses a part of such an update."""
    draw = drawn(number, {"native": 4})
    assert draw is not None
    verdict = draw.verdict()
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("loss", [MSELoss(), HuberLoss(0.5)], ids=str)
def test_one_difference_that_nearly_vanishes_judges_nobody(loss: Loss) -> None:
    """Its loss is less exact than a batch's: native was refused on three of twelve seeds, two of them here."""
    net = Net("one", (40,), (Linear(out_features=1),), loss)
    for seed in (3, 5):
        verdict = verify(find("native").build, net, TrainConfig(batch_size=1), seed=seed, reach=4)
        assert verdict.passed, verdict.reason
