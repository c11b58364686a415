"""Every regime that a proof visits: a liar that lies there alone is caught, and its honest twin passes."""

import pytest
from regime_liars import REGIME_LIARS, RegimeLiar
from shared_cases import CODER, SQUARE

from warpladder import ladder
from warpladder.config import TrainConfig
from warpladder.nets import Linear, MSELoss, Net
from warpladder.proof import verify

#: Liars of which scripts/test sees that they are caught; .ci/run has all of them, and their twins.
BY_DAY = (
    "SkipsOneUpdateInAHundred-100", "TrainsOneStepOfALongCall-3", "HasOneOrderForManyEpochs-1", "SkipsLearntSamples-0.5",
    "HasNoRowMaximum", "TakesZeroForNaN-0", "LeavesSamplesOut-200", "AnswersByKey-0",
)  # fmt: skip


def judged(liar: RegimeLiar, build):
    net = CODER if liar.loss is MSELoss else SQUARE
    return verify(
        build, net, TrainConfig(batch_size=6, **liar.settings), reach=1024 if str(liar).endswith("65536") else 16
    )


@pytest.mark.parametrize(
    "liar",
    [pytest.param(liar, marks=[] if str(liar) in BY_DAY else [pytest.mark.slow]) for liar in REGIME_LIARS],
    ids=str,
)
@pytest.mark.usefixtures("cases_once")
def test_a_liar_of_a_regime_is_caught(liar: RegimeLiar) -> None:
    verdict = judged(liar, liar.lie)
    assert verdict.judged and not verdict.passed
    assert not verdict.reason.startswith("crash") or "Refuses" in str(liar), verdict.reason


@pytest.mark.parametrize(
    "liar",
    [pytest.param(liar, marks=[] if str(liar) in BY_DAY[::4] else [pytest.mark.slow]) for liar in REGIME_LIARS],
    ids=str,
)
@pytest.mark.usefixtures("cases_once")
def test_its_honest_twin_passes(liar: RegimeLiar) -> None:
    verdict = judged(liar, liar.twin)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("seed", (4, 7))
def test_a_loss_of_zero_is_compared(seed: int) -> None:
    """With these seeds one sample of one number is zero, and so is the loss at weights of zero."""
    net = Net("dot", (1,), (Linear(out_features=1),), MSELoss())
    verdict = verify(ladder.find("numpy").build, net, TrainConfig(batch_size=1), seed=seed, reach=4)
    assert verdict.passed, verdict.reason
