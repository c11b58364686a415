"""Checks of single steps: what a step logs, its update and slots, and the outputs at a state, within the bounds."""

from __future__ import annotations

import numpy as np

from ..nets.params import views
from ..trainers.base import State, StepLog
from .bounds import loss_bound, output_bound, update_bounds
from .cases import LEAST_RATE
from .context import GuardedTrainer, ProofContext, pairs
from .reference_cases import PredictionPool, ReferenceCase, ReferenceStep


def check_case(
    context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase, *, built: bool = False, poisoned: bool = False
) -> None:
    """Check a case in an epoch with losses, and, if `loss_every` leaves losses out, in an epoch without them.

    built : True if the trainer already stands at the first step's state.
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
        _check_logged(context, wanted, log, where)
        if case.updates:
            _check_update(context, trainer, wanted, where)


def _check_logged(context: ProofContext, wanted: ReferenceStep, log: StepLog, where: str) -> None:
    """Check the size, the loss and the correct samples that a step logs."""
    ledger = context.ledger
    ledger.holds("size", log.size[0] == wanted.size, f"size: the log has {log.size[0]} samples: {where}")
    if not log.has_loss:
        return
    correct = f"correct: the log has {log.correct[0]}, the reference {wanted.correct}: {where}"
    ledger.holds("correct", log.correct[0] == wanted.correct, correct)
    losses = {"the batch": (log.loss, np.array([wanted.loss]))}
    ledger.near("loss", where, losses, {"the batch": loss_bound(context.net, wanted.size, context.cases.precision)})


def _check_update(context: ProofContext, trainer: GuardedTrainer, wanted: ReferenceStep, where: str) -> None:
    """Check the update of every tensor, its slots, and the count of updates."""
    net, ledger, config = context.net, context.ledger, trainer.config
    before = wanted.params
    after, (params, slots) = context.state(trainer, where), wanted.after(config)
    update_scales, slot_scales = wanted.error_scales(config)
    bounds = update_bounds(net, wanted.size, context.cases.precision, config.optimizer.roundings)
    slack = None
    if config.learning_rate < LEAST_RATE:
        slack = views(net, _storage_error(context, before, params, config.optimizer.stores))
    updates = pairs(net, after.params - before, params - before)
    ledger.near("update", where, updates, bounds, views(net, update_scales), slack)
    for slot, values in slots.items():
        tensors, scales = pairs(net, after.slots[slot], values), views(net, slot_scales[slot])
        names = {name: f"{name}'s {slot}" for name in tensors}
        ledger.near(
            "slots",
            where,
            {names[name]: pair for name, pair in tensors.items()},
            {names[name]: bounds[name] for name in names},
            {names[name]: scales[name] for name in names},
        )
    context.check_count(after, wanted.state.step + 1, where)


def _storage_error(context: ProofContext, before: np.ndarray, after: np.ndarray, roundings: int) -> np.ndarray:
    """Error of each weight, (param_count,), from being rounded for storage, last and, in some optimizers, before that.

    In fp64 the reference is rounded as well.
    """
    times = 2 if context.element == np.float64 else 1
    return times * context.cases.precision.roundoff * (np.abs(after) + (roundings - 1) * np.abs(before))


def _poison(context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase, wanted: ReferenceStep) -> None:
    """Leave NaN in every buffer that a step writes; a trainer that refuses to train on NaN stays clean."""
    bad = State(np.full(context.net.param_count, np.nan, context.element), step=wanted.state.step)
    slots = {name: bad.params.copy() for name in context.config.optimizer.slots}
    with np.errstate(all="ignore"):
        try:
            trainer.trainer.set_state(bad.but(slots=slots))
            trainer.trainer.run(case.order, wanted.step, wanted.step + 1)
            trainer.trainer.predict(case.dataset.train_x[: context.cases.batch], case.dataset.scale)
        except (ArithmeticError, ValueError):
            return


def check_predictions(context: ProofContext, trainer: GuardedTrainer, when: str) -> None:
    """Check outputs for numbers of samples unlike the batch's, and that earlier outputs stay as they were."""
    b = context.cases.batch
    trainer.set_state(context.cases.predicted)
    earlier: list[tuple[np.ndarray, np.ndarray]] = []
    for pool, sizes in zip(context.cases.pools, ((2, b + 1), (1, 2 * b + 3)), strict=True):
        for n in sizes:
            got = _check_prediction(context, trainer, pool, n, when)
            earlier.append((got, got.copy()))
    for got, then in earlier:
        context.ledger.same("predict", f"an earlier prediction, before and after later ones ({when}),", got, then)


def _check_prediction(
    context: ProofContext, trainer: GuardedTrainer, pool: PredictionPool, n: int, when: str
) -> np.ndarray:
    """Outputs for n samples of a pool, checked."""
    rng, ledger, shape = context.rng, context.ledger, (n, *context.net.out_shape)
    some = np.resize(rng.permutation(pool.alone), n) if n <= 2 else np.arange(n) % len(pool.x)
    which = rng.permutation(some)
    got = trainer.predict(pool.x[which], pool.scale)
    where = f"{n} samples of {pool.x.dtype}, {when}"
    alike = isinstance(got, np.ndarray) and got.dtype == context.element and got.shape == shape
    given = f"got {getattr(got, 'dtype', type(got))} {np.shape(got)}"
    ledger.holds("output", alike, f"output: wanted {context.element} {shape}, {given}: {where}")
    outputs = {"the output": (got, pool.truth[which])}
    bounds = {"the output": output_bound(context.net, context.cases.precision)}
    scales = {"the output": np.full(got.shape, float(np.sqrt(np.mean(pool.truth**2))))}
    ledger.near("predict", where, outputs, bounds, scales)
    return got
