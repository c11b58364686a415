"""The proof at the batch sizes that a class tries: honest rungs pass, and liars whose fault shrinks with the batch do
not.

`tests/support/sweep_proofs.py` does the same with more seeds, nets and rungs, and with every liar.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from large_batches import BATCHES, LARGE
from liars import LIARS
from sweep_proofs import Shared, honest, images, lying, sized

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data import load
from warpladder.data.dataset import Dataset
from warpladder.proof import verify, witness
from warpladder.proof.cases import Cases
from warpladder.rungs.numpy import build as numpy_rung

DIGITS, BLOTS = load("digits"), images(4096)
BIG = tuple(batch for batch in BATCHES if batch is None or batch > 64)
DAY = (255, 1000, 4096, None)  # in .ci/run; the others repeat them at night


def turn(name: str, batch: int | None) -> list[pytest.MarkDecorator]:
    """Marks of a net and batch: scripts/test has full batches, and 4,096 of the net whose step is the shortest."""
    if batch not in DAY:
        return [pytest.mark.nightly]
    return [] if batch is None or (name, batch) == ("softmax", 4096) else [pytest.mark.slow]


SOME = [
    batch if batch in DAY[2:] else pytest.param(batch, marks=pytest.mark.slow if batch in DAY else pytest.mark.nightly)
    for batch in BIG
]
HONEST = [
    pytest.param(name, batch, marks=turn(name, batch), id=f"{name}-{batch}")
    for name in ("softmax", "mlp", "mlp10")
    for batch in BIG
]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
@pytest.mark.parametrize(("name", "batch"), HONEST)
@pytest.mark.by_day("softmax", "mlp10-None")
def test_honest_rungs_pass_at_every_batch_size(name: str, batch: int | None, seed: int) -> None:
    verdicts = list(honest(Shared(*sized(name, DIGITS, batch), DIGITS, seed), ["numpy", "native"]))
    assert len(verdicts) == 2
    for who, good, verdict in verdicts:
        assert good, f"{who}: {verdict.reason}"


@pytest.mark.parametrize(
    ("name", "data", "batch"),
    [
        pytest.param("mlp", BLOTS, 4096, marks=pytest.mark.nightly),
        pytest.param("mlp10", BLOTS, 4096, marks=pytest.mark.nightly),
        pytest.param("softmax", BLOTS, 1000, marks=pytest.mark.slow),
        pytest.param("cnn", DIGITS, 1000, marks=pytest.mark.pairs),
    ],
)
def test_honest_rungs_pass_where_a_batch_repeats_samples_too(name: str, data: Dataset, batch: int) -> None:
    for who, good, verdict in honest(Shared(*sized(name, data, batch), data, 0), ["numpy", "native"]):
        assert good, f"{who}: {verdict.reason}"


def test_an_autoencoder_of_large_images_can_be_judged_at_zero_weights() -> None:
    net, config = sized("autoencoder", BLOTS, 65)  # a narrow one, whose bounds are the tighter
    cases = Cases(net, config.but(batch_size=20), np.random.default_rng(0), BLOTS)
    assert cases.zeros.updates and np.any(cases.zeros.steps[0].gradient)


@pytest.mark.parametrize("batch", SOME)
@pytest.mark.parametrize("name", ["softmax", "mlp", "mlp10", "cnn"])
@pytest.mark.by_day("softmax-4096", "mlp10-4096", "mlp10-None")
def test_a_fault_that_shrinks_with_the_batch_is_still_seen(name: str, batch: int | None) -> None:
    if name == "cnn" and batch is not None and batch > 1024:
        pytest.skip("the sweep of the nightly run has it: ten thousand images take a convolution a minute")
    verdicts = list(lying(Shared(*sized(name, DIGITS, batch), DIGITS, 0), LARGE))
    assert len(verdicts) >= 3
    for who, caught, verdict in verdicts:
        assert caught, f"{who}: {verdict.reason}"


def test_where_no_step_can_be_judged_by_nobody_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "RESERVE", 1e9)  # of which no float32 code has so much
    net = nets.softmax((1, 8, 8))
    for build in (numpy_rung, LIARS[0].build):
        verdict = verify(build, net, TrainConfig(batch_size=4))
        assert not verdict.judged
        assert not verdict.passed
        assert verdict.reason.startswith("cannot judge: exact data: no samples were found for net 'softmax'")
        assert "plain fp32 code itself: " in verdict.reason
        assert not verdict.checks


def test_a_verdict_cannot_pass_unjudged() -> None:
    passed = verify(numpy_rung, nets.softmax((1, 8, 8)), TrainConfig(batch_size=4))
    assert passed.judged
    with pytest.raises(ValueError, match="nothing could be judged"):
        replace(passed, judged=False)
