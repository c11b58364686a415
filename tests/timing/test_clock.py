"""The clock: a program from outside is timed with all of its work, or refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from clock_answers import (
    DEVIATING_CHEATS,
    DEVIATIONS,
    TEST_CHEATS,
    AddsInAnyOrder,
    AddsTheLossInAnyOrder,
    AnswersAheadOfTheClock,
    AnswersForTheStart,
    KeepsItsAnswers,
)
from clock_elsewhere import ELSEWHERE_CHEATS, ELSEWHERE_HONEST
from clock_hooks import HOOK_CHEATS, HOOK_HONEST
from clock_programs import CHEATS, HONEST, IMPOSSIBLE, FullBatchAhead, Program, WrongWhere
from clock_weights import NO_LOSS_CHEATS, WEIGHT_CHEATS, WEIGHT_HONEST, LosesItsOnlyUpdate

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.machine import facts as machine
from warpladder.rungs.base import Rung
from warpladder.timing import measure, task, witness_losses
from warpladder.timing import repeat as replays
from warpladder.timing.entry import TimedEntry
from warpladder.timing.measure import prepare, repeat
from warpladder.timing.repeat import replay, time_test
from warpladder.timing.task import ClimbTask, TimingPlan
from warpladder.timing.turn import StepRange, Turn, drawn_index, drawn_ranges

CONFIG = TrainConfig(batch_size=32, learning_rate=0.05)
REPEATS = 3
BY_DAY = 2  # programs with hooks that scripts/test runs, of either kind
HOOKED = [
    pytest.param(*each, marks=[pytest.mark.slow] * (number >= BY_DAY))
    for number, each in enumerate((HOOK_CHEATS | ELSEWHERE_CHEATS).items())
]
HONEST_HOOKED = [
    pytest.param(each, marks=[pytest.mark.slow] * (number >= BY_DAY))
    for number, each in enumerate((*HOOK_HONEST, *ELSEWHERE_HONEST))
]


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    monkeypatch.setattr(measure, "PROBE", 0.004)
    monkeypatch.setattr(task, "PROBE", 0.004)
    monkeypatch.setattr(machine, "busy_seconds", lambda: None)
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 250).astype(np.int32)
    x = (rng.integers(0, 100, (250, 1, 4, 4)) + 100 * y[:, None, None, None]).astype(np.uint8)
    return Dataset("toy", x[:200], y[:200], x[200:], y[200:], 1 / 255)


def timed(
    program: type[Program],
    data: Dataset,
    batch_size: int = 32,
    settings: TrainConfig = CONFIG,
    plan: TimingPlan | None = None,
    **more,
) -> tuple[TimedEntry, list[int]]:
    """A program after its repetitions and the replay, and the steps that it trained on the clock in each."""
    config = settings.but(batch_size=None if program is FullBatchAhead else batch_size)
    job = ClimbTask(nets.mlp10((1, 4, 4), 2), data, config, epochs=2, repeats=REPEATS, budget=1.0)
    entry = TimedEntry(Rung("mine", "a program", "A program.", program, **more), job)
    prepare(entry)
    entry.plan = plan or TimingPlan(4, job.steps)
    on_clock = []
    for number in range(REPEATS):
        before = program.steps
        if entry.alive:
            repeat(entry, number)
            on_clock.append(program.steps - before)
    for work in (time_test, replay):
        if entry.alive:
            work(entry)
    entry.end()
    return entry, on_clock


@pytest.mark.parametrize(
    ("program", "is_refused"), [*CHEATS.items(), *HOOKED], ids=lambda value: getattr(value, "__name__", "")
)
def test_a_cheat_is_refused_or_timed_with_all_of_its_work(program, is_refused, data):
    entry, on_clock = timed(program, data)
    if is_refused or not entry.alive:
        assert not entry.alive and entry.found["status"] in ("refused", "failed"), entry.found
        assert entry.found["reason"]
    else:
        assert all(steps >= entry.plan.steps * entry.plan.epochs for steps in on_clock), on_clock


@pytest.mark.parametrize("program", [*HONEST, *HONEST_HOOKED], ids=lambda program: program.__name__)
def test_an_honest_program_is_timed(program, data):
    entry, _ = timed(program, data)
    assert entry.alive, entry.found
    assert entry.found["same_bits"] and entry.is_repeated and len(entry.seconds) == REPEATS
    assert entry.found["trained_epochs"] == 2 and len(entry.epochs) >= 2


@pytest.mark.parametrize("program", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_log_that_no_training_has_costs_its_own_row(program, data):
    entry, _ = timed(program, data)
    assert not entry.alive and entry.found["status"] in ("refused", "failed"), entry.found


def test_deviations_do_not_excuse_steps_that_are_left_out(data):
    from clock_programs import Longer

    class LeavesAlmostAllOut(Longer):
        def drop(self, step):
            return True

    entry, _ = timed(LeavesAlmostAllOut, data, deviations=("its sums run in another order each time",))
    assert not entry.alive and "moved the weights" in entry.found["reason"], entry.found


@pytest.mark.parametrize(
    "program",
    [pytest.param(each, marks=[pytest.mark.slow] * (n > 3)) for n, each in enumerate(DEVIATING_CHEATS)],
    ids=lambda program: program.__name__,
)
def test_deviations_excuse_no_cheat(program, data):
    entry, _ = timed(program, data, deviations=DEVIATIONS)
    assert not entry.alive and "does not train the required steps" in entry.found["reason"], entry.found


@pytest.mark.parametrize("program", [AddsInAnyOrder, AddsTheLossInAnyOrder], ids=lambda program: program.__name__)
def test_an_honest_program_with_deviations_is_timed(program, data):
    entry, _ = timed(program, data, deviations=DEVIATIONS)
    assert entry.alive and not entry.found["same_bits"] and entry.is_repeated, entry.found


@pytest.mark.parametrize(
    "program",
    [pytest.param(each, marks=[pytest.mark.slow] * (n > 1)) for n, each in enumerate(WEIGHT_CHEATS)],
    ids=lambda program: program.__name__,
)
def test_weights_show_what_losses_at_a_small_rate_do_not(program, data):
    entry, _ = timed(program, data, settings=TrainConfig(learning_rate=0.005))
    assert not entry.alive and "does not train the required steps" in entry.found["reason"], entry.found


@pytest.mark.parametrize(
    "program",
    [pytest.param(each, marks=[pytest.mark.slow] * (n > 0)) for n, each in enumerate(NO_LOSS_CHEATS)],
    ids=lambda program: program.__name__,
)
def test_weights_show_epochs_without_losses(program, data, monkeypatch):
    monkeypatch.setattr(witness_losses, "SECONDS", 0.0)  # so that array code does not come to the epoch with losses
    entry, _ = timed(program, data, settings=TrainConfig(learning_rate=0.05, loss_every=2))
    assert not entry.alive and "is rounding" in entry.found["reason"], entry.found


def test_weights_show_the_only_step_of_a_turn(data):
    for program in (LosesItsOnlyUpdate, Program):
        entry, _ = timed(program, data, plan=TimingPlan(1, 1))
        assert entry.alive is (program is Program), entry.found


@pytest.mark.parametrize("rate", [0.5, 0.005])
@pytest.mark.parametrize(
    "program",
    [pytest.param(each, marks=[pytest.mark.slow] * (n > 1)) for n, each in enumerate(WEIGHT_HONEST)],
    ids=lambda program: program.__name__,
)
def test_honest_weights_may_be_rounded_otherwise(program, rate, data):
    entry, _ = timed(program, data, settings=TrainConfig(learning_rate=rate))
    assert entry.alive and entry.found["same_bits"], entry.found


@pytest.mark.parametrize(
    "program", [KeepsItsAnswers, AnswersAheadOfTheClock, AnswersForTheStart], ids=lambda program: program.__name__
)
def test_a_test_pass_is_timed_with_all_of_its_work(program, data, monkeypatch):
    on_clock = []

    def clocked(work):
        before = program.computed
        result = measure.clocked(work)
        on_clock.append(program.computed - before)
        return result

    monkeypatch.setattr(replays, "clocked", clocked)
    entry, _ = timed(program, data)
    assert entry.alive and on_clock[-1] >= 1, on_clock


@pytest.mark.parametrize("is_honest", [True, False])
def test_a_stretch_from_a_drawn_step_of_a_long_epoch_is_compared(is_honest, data, monkeypatch):
    class LateInAnEpoch(WrongWhere):
        def seen(self, order, step):
            return step >= 20 and not is_honest

    monkeypatch.setattr(witness_losses, "SECONDS", 0.0)  # so that 16 steps of 50 are compared from the beginning
    monkeypatch.setattr(replays, "check_weights", lambda *_: None)
    monkeypatch.setattr(replays, "drawn_index", lambda calls: next(i for i, call in enumerate(calls) if call[1] >= 20))
    entry, _ = timed(LateInAnEpoch, data, batch_size=4)
    assert entry.alive is is_honest, entry.found
    assert is_honest or "of an epoch has the loss" in entry.found["reason"]


def test_short_calls_of_a_replay_are_anywhere_in_an_epoch():
    turn = Turn(None, [Order(1, epoch, 4000, True) for epoch in range(40)])
    calls = drawn_ranges(turn, 2000)
    short = [first for _, first, last in calls if last - first <= 2]
    assert all(any(at <= first < at + 500 for first in short) for at in (0, 500, 1000, 1500))
    assert [sum(last - first for order, first, last in calls if order is one) for one in turn.orders] == [2000] * 40
    assert {drawn_index(calls[:3]) for _ in range(400)} <= {0, 1, 2}
    assert drawn_index([StepRange(turn.orders[0], 0, 0)]) == 0


def test_there_are_enough_programs():
    cheats = (*CHEATS, *HOOK_CHEATS, *ELSEWHERE_CHEATS, *WEIGHT_CHEATS, *NO_LOSS_CHEATS, LosesItsOnlyUpdate)
    assert len(set(cheats)) >= 55 and len({*HONEST, *HOOK_HONEST, *ELSEWHERE_HONEST, *WEIGHT_HONEST}) >= 48


@pytest.mark.parametrize("program", TEST_CHEATS, ids=lambda program: program.__name__)
def test_outputs_for_test_samples_are_those_of_the_weights(program, data):
    entry, _ = timed(program, data)
    assert not entry.alive and "outputs for test samples" in entry.found["reason"], entry.found
