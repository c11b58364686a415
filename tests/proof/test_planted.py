"""Planted trainers of further kinds are caught, in loops, array code, native code and emulated CUDA, and their honest
twins and odd but honest trainers pass, at batches of one to all samples.
"""

from typing import Any

import pytest
from planted import HONEST, PLANTED_CALLS, PLANTED_OPERATIONS
from planted_layers import LAYERS, PERSISTENT
from planted_operations import Planted
from planted_reader import DROPPED, READER_CALLS, READER_OPERATIONS
from regime_liars import RegimeLiar
from shared_cases import CODER, SQUARE
from sweep_planted import NETS

from warpladder.config import TrainConfig
from warpladder.nets import MSELoss
from warpladder.proof import verify

#: Those that scripts/test runs, one of each kind; .ci/run and the nights have the others.
BY_DAY = (
    "SwapsTwoStepsOfALongCall-3", "WrapsEpochs-65536", "StopsBelowARate-0.3", "RoundsManyPredictions-64",
    "KeepsDataByFirstSample-0", "DropsSmallGradients-loops", "HearsNoNaN-numpy", "InCallsOf-numpy",
    "gradients summed Kahan", "FlushesTinyErrors-numpy", "HasOneMaskForAllEpochs-loops", "TanhSaturatesEarly-numpy",
    "CountsItsFrame-loops", "TakesTheFirstTarget-numpy", "RootOfTheOldSquare",
    "DropsSmallTermsOfABias-numpy",
)  # fmt: skip
BATCHES = (1, 2, 6, 33, None)  # of honest trainers, in turns


def params(every: Any, marks: Any = pytest.mark.slow) -> list[Any]:
    return [pytest.param(each, marks=[] if str(each) in BY_DAY else [marks], id=str(each)) for each in every]


def judged(build: Any, loss: type | None, batch: int | None = 6, **settings: Any) -> Any:
    return verify(build, CODER if loss is MSELoss else SQUARE, TrainConfig(batch_size=batch, **settings), reach=16)


@pytest.mark.parametrize("liar", params((*PLANTED_CALLS, *READER_CALLS)))
@pytest.mark.usefixtures("cases_once")
def test_a_planted_trainer_is_caught(liar: RegimeLiar) -> None:
    verdict = judged(liar.lie, liar.loss, **liar.settings)
    assert verdict.judged and not verdict.passed
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("liar", params(PLANTED_CALLS, pytest.mark.nightly)[::2])
@pytest.mark.usefixtures("cases_once")
def test_a_trainer_without_the_fault_passes(liar: RegimeLiar) -> None:
    verdict = judged(liar.twin, liar.loss, **liar.settings)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("fault", params(PLANTED_OPERATIONS))
@pytest.mark.usefixtures("cases_once")
def test_a_planted_operation_is_caught(fault: Planted) -> None:
    verdict = judged(fault.lie, fault.loss)
    assert verdict.judged and not verdict.passed
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("fault", params((*LAYERS, *PERSISTENT, *READER_OPERATIONS)))
@pytest.mark.usefixtures("cases_once")
def test_a_planted_fault_of_a_layer_is_caught(fault: Planted) -> None:
    names: tuple[str, ...] = ("mlp", "targets") if fault.layer is None else ("dropped", "curves", "targets")
    net = next(NETS[name] for name in names if fault.applies(NETS[name]))
    verdict = verify(fault.lie, net, TrainConfig(batch_size=33, **fault.settings), reach=16)
    assert verdict.judged and not verdict.passed
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("fault", params(DROPPED))
@pytest.mark.usefixtures("cases_once")
def test_small_terms_of_a_sum_are_missed_at_small_batches(fault: Planted) -> None:
    for name, batch in (("mlp", 2), ("targets", 6)):
        verdict = verify(fault.lie, NETS[name], TrainConfig(batch_size=batch), reach=4)
        assert verdict.judged and not verdict.passed
        assert verdict.reason.startswith(("update", "loss", "predict", "history")), verdict.reason


@pytest.mark.parametrize("name", params(HONEST))
@pytest.mark.usefixtures("cases_once")
def test_an_odd_but_honest_trainer_passes(name: str) -> None:
    build, loss = HONEST[name]
    batch = BATCHES[list(HONEST).index(name) % len(BATCHES)]
    verdict = judged(build, loss, batch)
    assert verdict.passed, verdict.reason


@pytest.mark.nightly
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", HONEST)
@pytest.mark.usefixtures("cases_once")
def test_it_passes_at_every_batch_size_and_on_both_losses(name: str, batch: int | None) -> None:
    build, loss = HONEST[name]
    for each in (loss,) if loss else (None, MSELoss):
        verdict = judged(build, each, batch)
        assert verdict.passed, verdict.reason
