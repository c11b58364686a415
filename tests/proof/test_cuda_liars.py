"""Faults within the kernels of the faster CUDA rungs are caught on the emulator, and an honest text in the same place
passes.
"""

from __future__ import annotations

from typing import Any

import pytest
from planted_kernels import PlantedKernel, is_harmless, verdict_of
from planted_tiles import PLANTED

#: Of each rung a fault or two that take a second.
BY_DAY = {
    "CouplesDecay-resident-adamw", "HasNoRowMaximum-tiled-many", "CountsASampleTwice-tiled-wide",
    "LosesATailOfK-gemm-wide", "LosesTheBiasOfAnOutput-gemm-wide", "KeepsAMaskForAllSteps-graph-masked",
}  # fmt: skip
TWINS_BY_DAY = {"CouplesDecay-resident-adamw", "HasNoRowMaximum-tiled-many"}


def marked(by_day: set[str], least: int = 0) -> list[Any]:
    return [
        pytest.param(each, id=str(each), marks=() if str(each) in by_day else pytest.mark.slow)
        for each in PLANTED
        if each.least <= 6 or least
    ]


def test_there_are_forty_faults_and_names_are_unique() -> None:
    names = [str(each) for each in PLANTED]
    assert len(set(names)) == len(names) >= 60
    assert set(names) >= BY_DAY | TWINS_BY_DAY


@pytest.mark.parametrize("planted", marked(BY_DAY))
def test_a_fault_is_caught(planted: PlantedKernel) -> None:
    assert not is_harmless(planted, 6)
    verdict = verdict_of(planted, planted.wrong, 6)
    assert verdict.judged and not verdict.passed, verdict.reason
    assert not verdict.reason.startswith("crash"), verdict.reason


@pytest.mark.parametrize("planted", marked(TWINS_BY_DAY, least=1))
def test_another_honest_text_passes(planted: PlantedKernel) -> None:
    verdict = verdict_of(planted, planted.right, 6)
    assert verdict.passed, verdict.reason


def test_the_last_of_many_classes_that_tie_is_caught_in_batches_of_one() -> None:
    """With random labels of 70 classes hardly any sample shows which of those that tie is taken."""
    tie = next(each for each in PLANTED if str(each) == "TakesTheLastOfTies-tiled-many")
    verdict = verdict_of(tie, tie.wrong, 1, seed=0)
    assert verdict.judged and not verdict.passed, verdict.reason


@pytest.mark.pairs
@pytest.mark.parametrize("planted", [pytest.param(each, id=str(each)) for each in PLANTED])
@pytest.mark.parametrize("batch", [1, 13, 40, None], ids=["1", "13", "40", "full"])
def test_faults_are_caught_at_other_batches(planted: PlantedKernel, batch: int | None) -> None:
    if is_harmless(planted, batch) or (batch == 1 and planted.net == "norm"):
        pytest.skip("makes no difference here")
    verdict = verdict_of(planted, planted.wrong, batch)
    assert verdict.judged and not verdict.passed, verdict.reason
