"""Nets of as many inputs as MNIST has: powers by the number of inputs overflow, where those of the digits do not."""

from __future__ import annotations

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.device.emulator import why_not
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.proof import verify
from warpladder.sklearn import MLPClassifier

WIDE = Net("wide", (1, 28, 28), (Flatten(), Linear(out_features=6), ReLU(), Linear(out_features=4)), CrossEntropyLoss())


@pytest.mark.parametrize("name", ["numpy", "graph:device=emulated"])
def test_a_net_of_784_inputs_is_proven(name: str) -> None:
    if "emulated" in name and (reason := why_not()):
        pytest.skip(reason)
    verdict = verify(find(name).build, WIDE, TrainConfig(batch_size=7))
    assert verdict.passed, verdict.reason


def test_an_estimator_learns_784_features_on_a_rung() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.random((60, 784)) + np.eye(3).repeat(262, axis=1)[y, :784]).astype(np.float32)
    model = MLPClassifier((8,), rung="numpy", random_state=0, max_iter=30).fit(x, y)
    assert model.rung_ == "numpy" and model.score(x, y) > 0.9
