"""Checks of single steps: the log, the update and the slots of a step, within the bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss
from ..nets.params import buffer_views, views
from ..trainers.base import State, StepLog
from .bounds import loss_bound, output_bound, output_scale, step_bounds
from .cases import LEAST_RATE
from .context import GuardedTrainer, ProofContext, pairs
from .extremes.magnitudes import KINDS
from .normalised.whole_batches import buffer_bounds, judged, rest_of
from .reference import ReferenceTrainer
from .reference_cases import ReferenceCase, ReferenceStep
from .verdict import Refuted

#: Largest loss of a sample that is compared where a peer declares deviations: some count rarer labels as so rare.
COUNTED = 15.0
#: Kind of data whose correct samples are not compared there: logits so small that probabilities of classes are equal.
UNDECIDED = "faint"
EXTREME = 4  # samples at extremes whose outputs are compared
OWN = (*(kind for kind in KINDS if kind != "small pixels"), "mixed")  # kinds of extremes with large and small weights
LARGEST = 2.0**100  # largest weight after a step there: float32 holds 2^28 times as much
LIKE = 5  # samples of data sets that are nearly alike, at most
#: Largest error that long sums in one accumulator may make by way of a kink, the checks that see it, and words for it.
LONG_SUMS, BY_SUMS = 1 / 16, ("loss", "update", "slots")
IN_ONE = "so may be a program that adds up all of a channel's numbers in one accumulator"
WIDER = 4.0  # times its bound that a loss there may be off by: no witness has chosen the samples


def check_case(
    context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase, *, built: bool = False, poisoned: bool = False
) -> None:
    """Check a case in an epoch with losses, and, if `loss_every` omits losses, in an epoch without them.

    built : True if the trainer is already at the first step's state.
    poisoned : True if the trainer is first trained on NaN.
    """
    _check_steps(context, trainer, case, built, poisoned)
    if context.config.loss_every > 1:
        _check_steps(context, trainer, context.cases.without_loss(case), False, poisoned)


def _check_steps(
    context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase, built: bool, poisoned: bool
) -> None:
    """Check every step of a case, each from its own state."""
    trainer.load(case.dataset)
    for number, wanted in enumerate(case.steps):
        rate = f"learning rate {trainer.config.learning_rate:g}"
        where = f"{case.name} data, step {wanted.step}, batch of {wanted.size}, {rate}"
        if not trainer.config.steady:
            where += f", update {wanted.state.step + 1} of the run"
        if not context.config.has_loss(case.order.epoch):
            where += ", in an epoch without losses"
        if poisoned:
            _poison(context, trainer, case, wanted)
            where += ", after a step of NaN"
        if number or poisoned or not built:
            trainer.set_state(wanted.state)
        log = trainer.run(case.order, wanted.step, wanted.step + 1)
        context.check_log(log, case.order, 1, where)
        try:
            _check_logged(context, case.name, wanted, log, where)
            if case.updates:
                _check_update(context, trainer, wanted, where)
        except Refuted as error:
            is_slight = error.row is not None and error.row.error <= LONG_SUMS
            if wanted.partial and is_slight and error.check in BY_SUMS:
                context.ledger.leave(error, IN_ONE)
                continue
            raise


def _check_logged(context: ProofContext, name: str, wanted: ReferenceStep, log: StepLog, where: str) -> None:
    """Check the size, the loss and the correct samples in a step's log. name : of the case."""
    ledger = context.ledger
    ledger.holds("size", log.size[0] == wanted.size, f"size: the log has {log.size[0]} samples: {where}")
    if not log.has_loss:
        return
    correct = f"correct: the log has {log.correct[0]}, the reference {wanted.correct}: {where}"
    if context.bitwise or name != UNDECIDED:
        ledger.holds("correct", log.correct[0] == wanted.correct, correct)
    if not context.bitwise and wanted.largest_loss > COUNTED:
        return
    bound = loss_bound(context.net, wanted.size, context.cases.precision)
    if wanted.loss_uncertainty:  # at extremes, where no loss is zero
        bound += wanted.loss_uncertainty / abs(wanted.loss)
    ledger.near("loss", where, {"the batch": (log.loss, np.array([wanted.loss]))}, {"the batch": bound})


def _check_update(context: ProofContext, trainer: GuardedTrainer, wanted: ReferenceStep, where: str) -> None:
    """Check the update of every tensor, its slots, and the number of updates."""
    net, ledger, config = context.net, context.ledger, trainer.config
    before = wanted.params
    after, (params, slots) = context.state(trainer, where), wanted.after(config)
    bounds = step_bounds(net, wanted.size, context.cases.precision, config)
    update_scales, slot_scales = wanted.error_scales(config, bounds, net)
    slack = None
    if wanted.rate(config) < LEAST_RATE:
        lost = _storage_error(context, before, params, config.optimizer.stores)
        if wanted.rate(config) < np.finfo(context.element).tiny:  # which is 0 in many programs
            lost = lost + np.abs(params - before)
        slack = views(net, lost)
    names = judged(net, config)
    updates = pairs(net, after.params - before, params - before)
    updates = {name: both for name, both in updates.items() if name in names}
    more = config.optimizer.host_rounding(wanted.state.step + 1)
    wider = {name: bound + more for name, bound in bounds.items()}
    ledger.near("update", where, updates, wider, views(net, update_scales), slack)
    for slot, values in slots.items():
        tensors, scales = pairs(net, after.slots[slot], values), views(net, slot_scales[slot])
        called = {name: f"{name}'s {slot}" for name in names}
        ledger.near(
            "slots",
            where,
            {called[name]: tensors[name] for name in names},
            {called[name]: bounds[name] for name in names},
            {called[name]: scales[name] for name in names},
        )
    if wanted.buffers is not None:
        _check_buffers(context, after, wanted, where)
    context.check_count(after, wanted.state.step + 1, where)


def _check_buffers(context: ProofContext, after: State, wanted: ReferenceStep, where: str) -> None:
    """Check the running statistics after a batch."""
    net, precision = context.net, context.cases.precision
    assert after.buffers is not None and wanted.buffers is not None and wanted.buffer_scales is not None
    before = wanted.state.buffers_of(net).astype(np.float64)
    slack = 2 * _storage_error(context, before, wanted.buffers, 2)
    got, want, scales, slacks = (
        buffer_views(net, flat) for flat in (after.buffers, wanted.buffers, wanted.buffer_scales, slack)
    )
    both = {name: (got[name], want[name]) for name in want}
    context.ledger.near("buffers", where, both, buffer_bounds(net, wanted.size, precision), scales, slacks)


def _storage_error(context: ProofContext, before: np.ndarray, after: np.ndarray, roundings: int) -> np.ndarray:
    """Error (param_count,) of each weight by rounding for storage, last and, in some optimizers, before; the smallest
    normal number may be flushed to 0.

    In fp64 the reference is rounded too.
    """
    times = 2 if context.element == np.float64 else 1
    rounding = times * context.cases.precision.roundoff * (np.abs(after) + (roundings - 1) * np.abs(before))
    return np.asarray(rounding + np.finfo(context.element).tiny)


def _poison(context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase, wanted: ReferenceStep) -> None:
    """Write NaN to all buffers that a step uses; a trainer that refuses to train on NaN stays clean."""
    bad = State(np.full(context.net.param_count, np.nan, context.element), step=wanted.state.step)
    slots = {name: bad.params.copy() for name in context.config.optimizer.slots}
    bad = bad.but(buffers=np.full(context.net.buffer_count, np.nan, context.element))
    with np.errstate(all="ignore"):
        try:
            trainer.trainer.set_state(bad.but(slots=slots))
            trainer.trainer.run(case.order, wanted.step, wanted.step + 1)
            trainer.trainer.predict(case.dataset.train_x[: context.cases.batch].copy(), case.dataset.scale)
        except (ArithmeticError, ValueError):
            return


def check_like_data(context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase) -> None:
    """Check losses of data sets of one shape, loaded in turn, each unlike the first in one thing."""
    n, first = min(LIKE, case.order.n), case.dataset
    state, order = case.steps[0].state, replace(case.order, n=n, shuffle=False)
    step = n // 2 // context.config.batch(n)
    reference = ReferenceTrainer(context.net, context.config, state)
    outputs = np.abs(reference.predict(first.train_x[:n], first.scale)).max()
    bound = WIDER * loss_bound(context.net, context.config.batch(n), context.cases.precision)
    for name, data in _like(context, first, n).items():
        where = f"one of several data sets that are nearly alike, {name}"
        trainer.load(data)
        trainer.set_state(state)
        log = trainer.run(order, step, step + 1)
        context.check_log(log, order, 1, where)
        reference.load(data)
        reference.set_state(state)
        truth = float(reference.run(order, step, step + 1).loss[0])
        context.ledger.within("loss", "the batch", where, abs(float(log.loss[0]) - truth) / (truth + outputs), bound)
    if first.train_weight is not None and context.config.batch_size is not None:
        _check_weightless(context, trainer, first, state)


def _check_weightless(context: ProofContext, trainer: GuardedTrainer, data: Dataset, state: State) -> None:
    """Check a step whose samples all have a weight of 0: their mean is 0."""
    batch = context.cases.batch
    n = batch + rest_of(context.net, batch, 1)
    some = np.arange(n) % len(data.train_x)
    weight = np.zeros(n, np.float32)
    weight[-1] = 1
    y = data.train_y
    trainer.load(data.but(train_x=data.train_x[some], train_y=None if y is None else y[some], train_weight=weight))
    trainer.set_state(state)
    log = trainer.run(Order(0, context.cases.epoch_with_loss(1), n, shuffle=False), 0, 1)
    where = "a batch of samples whose weights are 0"
    context.ledger.holds("loss", log.loss[0] == 0, f"loss: {log.loss[0]:g} for {where}")
    finite = np.all(np.isfinite(context.state(trainer, where).params))
    context.ledger.holds("update", finite, f"update: weights are not finite after {where}")


def _like(context: ProofContext, data: Dataset, n: int) -> dict[str, Dataset]:
    """Data sets of the first n samples of one, and others that are nearly alike, by what is other in them."""
    x, y, weight = data.train_x[:n], data.train_y, data.train_weight
    first = data.but(
        train_x=x.copy(), train_y=None if y is None else y[:n].copy(), test_x=x[:1].copy(),
        test_y=None if y is None else y[:1].copy(), train_weight=None if weight is None else weight[:n].copy(),
    )  # fmt: skip
    other = x.copy()
    other[n // 2] = np.flip(x[n // 2])
    sets = {"the first": first, "with another sample": first.but(train_x=other)}
    sets["at another scale"] = first.but(scale=data.scale / 2)
    if y is not None:
        is_binary = isinstance(context.net.loss, BCEWithLogitsLoss)
        others = (y[:n] + 1) % context.net.out_shape[0] if y.ndim == 1 else is_binary - y[:n]
        sets["with other labels"] = first.but(train_y=others.astype(y.dtype))
        if isinstance(context.net.loss, CrossEntropyLoss) and context.net.loss.weight is None:
            ends = {"first": 0, "last": context.net.out_shape[0] - 1}
            sets |= {
                f"with labels of the {at} class": first.but(train_y=np.full_like(y[:n], k)) for at, k in ends.items()
            }
        sets["with the labels of other samples"] = first.but(train_y=np.roll(y[:n], 1, axis=0))
    if weight is not None:
        sets["with other weights"] = first.but(train_weight=weight[:n][::-1] + 1)
        sets["without weights"] = first.but(train_weight=None)
    return sets


def check_extremes(context: ProofContext, own: GuardedTrainer) -> None:
    """Check steps and outputs of extreme cases: samples that are nearly learnt or far from it, large and small weights.

    Each is computed at a rate at which its updates show. own : trainer with the run's own rate, which takes the kinds
    in `OWN` once more.
    """
    for config, cases in _by_rate(context):
        _check_extremes(context, config, cases)
    for case in context.cases.extremes:
        if case.name in OWN:
            check_case(context, own, case)


def _by_rate(context: ProofContext) -> list[tuple[TrainConfig, list[ReferenceCase]]]:
    """Extreme cases, and settings with a rate at which all updates of these cases show and none overflows."""
    every = [(context.cases.strong(case.steps), case) for case in context.cases.extremes]
    groups: list[tuple[TrainConfig, list[ReferenceCase]]] = []
    for own, case in sorted(every, key=lambda each: -each[0].learning_rate):
        config = groups[-1][0] if groups else own
        largest = max(float(np.abs(step.after(config)[0]).max()) for step in case.steps)
        if groups and largest < LARGEST:
            groups[-1][1].append(case)
        else:
            groups.append((own, [case]))
    return groups


def _check_extremes(context: ProofContext, config: TrainConfig, cases: list[ReferenceCase]) -> None:
    """Check cases by one trainer with these settings."""
    trainer = context.make(config, cases[0].steps[0].state)
    for case in cases:
        check_case(context, trainer, case)
        x, scale, state = case.dataset.train_x[:EXTREME].copy(), case.dataset.scale, case.steps[0].state
        trainer.set_state(state)
        truth = ReferenceTrainer(context.net, context.config, state).predict(x, scale)
        outputs = {"the output": (trainer.predict(x, scale), truth)}
        bounds = {"the output": EXTREME * output_bound(context.net, context.cases.precision)}
        context.ledger.near("predict", f"{case.name} data", outputs, bounds, {"the output": output_scale(truth)})
