"""The defects of the reports' programs, rebuilt in examples/findings: each trains, and each is refused for what it does
wrong.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpladder as wl
from warpladder.ladder import find
from warpladder.nets import cnn, mlp10, params

FINDINGS = Path(__file__).parents[2] / "examples" / "findings"
CONFIG = wl.TrainConfig(batch_size=64, learning_rate=0.01)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("forty_percent.py", "3."),
        ("forty_percent.py:threads=128", "3."),
        ("frozen_layer.py", "1."),
        ("summed_gradients.py", "3."),
    ],
)
def test_a_rebuilt_defect_is_refused_for_what_it_does_wrong(name: str, layer: str) -> None:
    verdict = wl.verify(find(f"{FINDINGS}/{name}").build, mlp10((1, 4, 4)), CONFIG)
    assert not verdict.passed and verdict.judged
    assert verdict.reason.startswith(f"update of {layer}"), verdict.reason


def test_of_a_net_with_convolutions_it_is_the_first_one_that_stays_as_it_was() -> None:
    net, data = cnn((1, 8, 8)), wl.data.load("digits", limit=128)
    run = wl.train(net, data, CONFIG.but(epochs=1), rung=f"{FINDINGS}/frozen_layer.py")
    start = params.views(net, params.initial(net, CONFIG.seed))
    same = {name: np.array_equal(run.params[name], start[name]) for name in start}
    assert same == {name: name.startswith("0.") for name in start}


def test_with_a_thread_for_every_logit_the_first_defect_is_none() -> None:
    verdict = wl.verify(find(f"{FINDINGS}/forty_percent.py:threads=640").build, mlp10((1, 4, 4)), CONFIG)
    assert verdict.passed, verdict.reason


def test_the_network_that_s1_s_pytorch_program_trains_is_not_the_stated_one() -> None:
    net = wl.load_net(str(FINDINGS / "s1_pytorch.toml"), (1, 28, 28), 10)
    assert (net.param_count, cnn().param_count) == (67_530, 50_890)
