"""Checks of a proof, in order."""

from __future__ import annotations

import zlib
from dataclasses import replace

from ..data.dataset import Dataset
from .calls import check_calls, check_history, reach_of
from .context import ProofContext
from .non_finite import check_non_finite
from .prediction_checks import check_more_predictions, check_predictions
from .repeat_checks import check_like_states, check_repeats, check_states, check_worn
from .step_checks import check_case, check_extremes, check_like_data

#: The checks without which no proof passes.
REQUIRED = (
    "update", "slots", "step", "loss", "correct", "size", "log", "state", "predict", "output",
    "repeat", "rebuild", "epochs", "history", "range", "disturbance", "empty range", "round trip", "copy", "data",
    "NaN",
)  # fmt: skip


def prove(context: ProofContext) -> None:
    """Make all checks. Raises `Refuted` at the first that fails."""
    cases = context.cases
    before = [_checksum(case.dataset) for case in cases]

    strong = context.make(cases.strongest, cases.exact.steps[0].state)
    check_case(context, strong, cases.exact, built=True)
    check_case(context, strong, cases.zeros)
    check_case(context, strong, cases.ties)
    check_case(context, strong, cases.floats)
    check_case(context, strong, cases.stored, poisoned=True)
    check_case(context, strong, cases.far)
    for case in (cases.sized, cases.single):
        if case is not None:
            check_case(context, strong, case)
    late = cases.late()
    config = cases.strong(late.steps)
    trainer = strong if config == cases.strongest else context.make(config, late.steps[0].state)
    check_case(context, trainer, late)
    for case in (cases.exact, late):
        if (visible := cases.visible(case)) is not None:
            check_case(context, context.make(visible, case.steps[0].state), case, built=True)
    for config in cases.around_norm(cases.floats):
        check_case(context, context.make(config, cases.floats.steps[0].state), cases.floats, built=True)
    once = replace(cases.exact, steps=cases.exact.steps[:1])
    check_case(context, context.make(cases.weak(once), once.steps[0].state), once, built=True)
    if (ended := cases.ended()) is not None:
        config, case = ended
        check_case(context, context.make(config, case.steps[0].state), case, built=True)

    start = cases.stored.steps[0].state
    own = context.make(context.config, start)
    check_predictions(context, own, "before any data")
    own.set_state(start)
    check_case(context, own, cases.stored, built=True)
    check_predictions(context, own, "after training")
    check_case(context, own, cases.exact)
    second, pace = check_repeats(context, own, strong, cases.exact, cases.floats)
    context.close_another(start, cases.exact.dataset)
    check_states(context, own, cases.exact)
    check_like_states(context, own, second, cases.stored)
    check_worn(context, own, cases.exact)
    context.reach = context.reach or reach_of(context, pace)
    check_calls(context, own, second, cases.source, context.reach)
    check_more_predictions(context, own, cases.stored)
    check_history(context, cases.history)
    check_extremes(context, own)
    if cases.rests:
        config = cases.strong(case.steps[0] for case in cases.rests)
        trainer = strong if config == cases.strongest else context.make(config, cases.rests[0].steps[0].state)
        for case in cases.rests:
            check_case(context, trainer, case)
    check_non_finite(context, own, cases.floats)

    after = [_checksum(case.dataset) for case in cases]
    context.ledger.holds("data", before == after, "data: a data set is not what it was before training")
    check_like_data(context, own, cases.floats)


def _checksum(dataset: Dataset) -> tuple[int, int]:
    return zlib.crc32(dataset.train_x.data), 0 if dataset.train_y is None else zlib.crc32(dataset.train_y.data)
