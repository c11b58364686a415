"""Programs for the clock: cheats that declare deviations, so that their bits may differ, and those that keep answers to
the test samples; and honest programs of either kind.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from clock_programs import (
    LastStepOnly,
    Longer,
    OneOrderInLongCalls,
    OneStepInThree,
    Program,
    SkipsEpochs,
    StaleLogs,
    WrongWhere,
)

DEVIATIONS = ("its sums run in another order each time",)


class SkipsEveryThirdStep(WrongWhere):
    def seen(self, order, step):
        return order.seed != self.config.seed and step % 3 == 1


class SkipsEveryFourthStep(WrongWhere):
    def seen(self, order, step):
        return order.seed != self.config.seed and step % 4 == 1


class SkipsLateSteps(WrongWhere):
    def seen(self, order, step):
        return order.seed != self.config.seed and step >= 5


class LogsAFallingLoss(WrongWhere):
    """Leaves out every other step, and reports losses that fall as those of its first steps did."""

    def run(self, order, first, last):
        log = super().run(order, first, last)
        if order.seed != self.config.seed:
            log.loss[1:] = log.loss[0] * 0.995 ** np.arange(1, len(log.loss))
        return log

    def seen(self, order, step):
        return order.seed != self.config.seed and step % 2 == 1


DEVIATING_CHEATS: tuple[type[Program], ...] = (
    SkipsEveryThirdStep, SkipsEveryFourthStep, SkipsLateSteps, LogsAFallingLoss, Longer, OneStepInThree, LastStepOnly,
    OneOrderInLongCalls, SkipsEpochs, StaleLogs,
)  # fmt: skip


class AddsInAnyOrder(Program):
    """Moves weights by a rounding, another one each time."""

    def run(self, order, first, last):
        log, state = super().run(order, first, last), self.inner.state()
        roundings = 1 + np.random.default_rng().uniform(-6e-8, 6e-8, len(state.params))
        self.inner.set_state(state.but(params=(state.params * roundings).astype(np.float32)))
        return log


class AddsTheLossInAnyOrder(Program):
    """Reports a loss that differs by a rounding each time."""

    def run(self, order, first, last):
        log = super().run(order, first, last)
        log.loss[...] *= 1 + np.random.default_rng().uniform(-6e-8, 6e-8, len(log.loss))
        return log


class Answers(Program):
    """Counts the predictions that it computes. `late` are those outside of `set_state`."""

    computed: ClassVar[int] = 0

    def answer(self, x, scale):
        type(self).computed += 1
        return self.inner.predict(x, scale)


class KeepsItsAnswers(Answers):
    """Stores the answers to samples at a state."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.kept: dict[Any, np.ndarray] = {}

    def predict(self, x, scale):
        key = x.tobytes(), self.inner.state().bits()
        if key not in self.kept:
            self.kept[key] = self.answer(x, scale)
        return self.kept[key].copy()


class AnswersAheadOfTheClock(Answers):
    """Predicts the samples of the last prediction whenever a state is set."""

    asked: Any = None
    kept: Any = None

    def set_state(self, state):
        super().set_state(state)
        self.kept = None if self.asked is None else self.answer(*self.asked)

    def predict(self, x, scale):
        if self.kept is not None and self.asked is not None and np.array_equal(self.asked[0], x):
            return self.kept.copy()
        self.asked = x.copy(), scale
        return self.answer(x, scale)


class Tests(Answers):
    """Lies about samples that it was not given to train on: those of a test set."""

    def load(self, dataset):
        super().load(dataset)
        self.known = {each.tobytes() for each in dataset.train_x}

    def is_tested(self, x):
        return not any(each.tobytes() in getattr(self, "known", ()) for each in x)


class GivesZeros(Tests):
    """Computes no outputs of test samples."""

    def predict(self, x, scale):
        out = self.answer(x, scale)
        return np.zeros_like(out) if self.is_tested(x) else out


class LeavesHalfOut(Tests):
    """Computes the outputs of every second test sample, and gives them out twice."""

    def predict(self, x, scale):
        out = self.answer(x, scale)
        return np.repeat(out[::2], 2, axis=0)[: len(out)] if self.is_tested(x) else out


class RoundsTestOutputs(Tests):
    """Computes outputs of test samples in half precision."""

    def predict(self, x, scale):
        out = self.answer(x, scale)
        return out.astype(np.float16).astype(np.float32) if self.is_tested(x) else out


class KnowsTheLabels(Tests):
    """Has a table of the test set's labels, which it answers from once it is trained."""

    def predict(self, x, scale):
        out = self.answer(x, scale)
        if self.is_tested(x) and self.inner.state().step > 0:
            right = x.reshape(len(x), -1).mean(axis=1) > 100  # the set's rule
            return np.where(np.arange(2) == right[:, None], np.float32(9), np.float32(0))
        return out


class AnswersForTheStart(Answers):
    """Predicts, with each new samples, also their outputs at the first weights, and keeps these."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.first, self.kept = state.copied(), dict[bytes, np.ndarray]()

    def predict(self, x, scale):
        state, key = self.inner.state().copied(), x.tobytes()
        if np.array_equal(state.params, self.first.params) and key in self.kept:
            return self.kept[key].copy()
        self.inner.set_state(self.first)
        self.kept[key] = self.inner.predict(x, scale).copy()
        self.inner.set_state(state)
        return self.answer(x, scale)


TEST_CHEATS = GivesZeros, LeavesHalfOut, RoundsTestOutputs, KnowsTheLabels
