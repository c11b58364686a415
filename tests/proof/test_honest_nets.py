"""Honest array code on nets for which a proof once crashed or refused it."""

from __future__ import annotations

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.ladder import find
from warpladder.nets import GELU, BCEWithLogitsLoss, Conv2d, Layer, Loss, MSELoss, Net, ReLU
from warpladder.optimizers import SGD
from warpladder.proof import verify


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
