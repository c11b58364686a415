"""The clock on an emulated GPU: a program whose work is elsewhere, or less, is refused, and an honest one is timed."""

from __future__ import annotations

import pytest
from clock_elsewhere import ELSEWHERE_CHEATS, ELSEWHERE_HONEST
from clock_gpu import CHEATING, GPU_CHEATS, GPU_HONEST, on_gpu
from clock_hooks import HOOK_CHEATS, HOOK_HONEST
from clock_programs import CHEATS, HONEST, Program, SkipsSamples
from test_clock import data, in_a_hurry, timed

from warpladder.data.dataset import Dataset

__all__ = ["data", "in_a_hurry"]  # fixtures
BY_DAY = {"EmptyGraph", "Whole"}
#: Cheats in their form on a GPU, and True if they can only be refused.
OF_OTHERS = {
    on_gpu(program): is_refused
    for program, is_refused in (CHEATS | HOOK_CHEATS | ELSEWHERE_CHEATS).items()
    if program is not SkipsSamples  # trains by array code
}
FORMS = {**dict.fromkeys(GPU_CHEATS, True), **OF_OTHERS}
HONEST_FORMS = (*GPU_HONEST, *map(on_gpu, (*HONEST, *HOOK_HONEST, *ELSEWHERE_HONEST)))


def marked(program: type[Program], *more: object) -> object:
    name = program.__name__
    return pytest.param(program, *more, id=name, marks=() if name in BY_DAY else pytest.mark.slow)


@pytest.mark.parametrize(("program", "is_refused"), [marked(*each) for each in FORMS.items()])
def test_a_cheat_on_a_gpu_is_refused_or_timed_with_all_of_its_work(
    program: type[Program], is_refused: bool, data: Dataset
) -> None:
    entry, on_clock = timed(program, data)
    if is_refused or not entry.alive:
        assert not entry.alive and entry.found["status"] in ("refused", "failed"), entry.found
        assert entry.found["reason"]
    else:
        assert all(steps >= entry.plan.steps * entry.plan.epochs for steps in on_clock), on_clock


@pytest.mark.parametrize("program", [marked(each) for each in HONEST_FORMS])
def test_an_honest_program_on_a_gpu_is_timed(program: type[Program], data: Dataset) -> None:
    entry, _ = timed(program, data)
    assert entry.alive and entry.found["same_bits"] and entry.is_repeated, entry.found


def test_there_are_enough_forms() -> None:
    assert len(FORMS) >= 50 and len(CHEATING) >= 12 and len(HONEST_FORMS) >= 50
