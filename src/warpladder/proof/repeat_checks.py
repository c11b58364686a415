"""Checks of repetition: an epoch repeated, by a second trainer, or with disturbances must give equal bits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.order import Order
from ..nets.params import buffer_views, views
from ..trainers.base import State, StepLog
from .bounds import output_bound, output_scale, update_bounds
from .context import GuardedTrainer, ProofContext, pairs, spoil
from .normalised.whole_batches import drawn_buffers
from .places import same_batch
from .reference_cases import ReferenceCase

WORN = 256  # rounds of calls, at most, after which a step must still give the same bits
WORN_SHARE = 0.015  # share of the proof's seconds that they may add
FEW = 3  # samples that are predicted


def check_repeats(
    context: ProofContext, own: GuardedTrainer, other: GuardedTrainer, case: ReferenceCase, others: ReferenceCase
) -> tuple[GuardedTrainer, float]:
    """Check that an epoch of `case` gives equal bits in all kinds of calls of `own`; `other` trains `others` between
    them.

    Returns a second trainer, and the seconds of a step of `own`.
    """
    checks = _RepeatChecks(context, own, case)
    checks.check_again()
    checks.check_second_trainer()
    checks.check_disturbance(other, others)
    if checks.steps > 1:
        checks.check_breaks()
    checks.check_empty_range()
    return checks.second, checks.pace


class _RepeatChecks:
    """Repetitions of a case's epoch that was trained in one call.

    order, log, end : the epoch, its log, and the state after it.
    next_order, next_log, next_end : another epoch from the same start, by the second trainer.
    second : the second trainer; own : the first one, which takes `pace` seconds for a step.
    """

    def __init__(self, context: ProofContext, own: GuardedTrainer, case: ReferenceCase) -> None:
        self.context, self.own, self.case, self.order = context, own, case, case.order
        self.start, self.steps = case.steps[0].state, context.config.steps(case.order.n)
        where = f"steps 0..{self.steps} in one call"
        if context.config.loss_every > 1:
            own.load(case.dataset)  # data set of an epoch with losses again
        own.set_state(self.start)
        self.log = own.run(self.order, 0, self.steps)
        context.check_log(self.log, self.order, self.steps, where)
        self.end = context.state(own, f"after steps 0..{self.steps}").copied()
        context.check_count(self.end, self.start.step + self.steps, where)

    def check_again(self) -> None:
        self.own.set_state(self.start)
        began = time.perf_counter()
        log = self.own.run(self.order, 0, self.steps)
        self.pace = (time.perf_counter() - began) / self.steps
        check_equal(self.context, "repeat", "an epoch and its repetition", (log, self.log), self.own, self.end)

    def check_second_trainer(self) -> None:
        """Check a second trainer, which trains another epoch first; then the first trainer trains that epoch too."""
        context, steps = self.context, self.steps
        second = self.second = context.make(context.config, self.start)
        second.load(self.case.dataset)
        self.next_order = self._other_epoch()
        self.next_log = second.run(self.next_order, 0, steps)
        context.check_log(self.next_log, self.next_order, steps, "another epoch")
        self.next_end = context.state(second, "after another epoch").copied()
        second.set_state(self.start)
        what = "an epoch of one trainer and of a second"
        check_equal(context, "rebuild", what, (second.run(self.order, 0, steps), self.log), second, self.end)
        self.own.set_state(self.start)
        log = self.own.run(self.next_order, 0, steps)
        what = "another epoch of one trainer and of a second"
        check_equal(context, "rebuild", what, (log, self.next_log), self.own, self.next_end)

    def _other_epoch(self) -> Order:
        """Order of a later epoch with another first batch, without losses if `loss_every` omits any."""
        config, order = self.context.config, self.order
        later = [replace(order, epoch=order.epoch + i) for i in range(1, 65)]
        if config.loss_every > 1:
            later = [each for each in later if not config.has_loss(each.epoch)]
        return next((each for each in later if not same_batch(each, order, config.batch(order.n))), later[0])

    def check_disturbance(self, other: GuardedTrainer, others: ReferenceCase) -> None:
        """Check an epoch with predictions, another trainer's steps, and reading and setting of states between steps."""
        context, own, data = self.context, self.own, self.case.dataset
        own.set_state(self.start)
        other.load(others.dataset)
        parts = []
        for step in range(self.steps):
            own.predict(data.train_x[:3].copy(), data.scale)
            other.set_state(others.steps[0].state)
            other.run(others.order, 0, 1)
            own.set_state(context.state(own, f"before step {step}"))
            parts.append(own.run(self.order, step, step + 1))
        what = "an epoch, and one between whose steps it predicts, another trains, and its state goes out and in,"
        log = context.joined(parts, self.order, "disturbance")
        check_equal(context, "disturbance", what, (log, self.log), own, self.end)

    def check_breaks(self) -> None:
        """Check second steps of an epoch that do not follow its first one: that one was of another epoch, or on another
        data set.
        """
        context, own, second, data = self.context, self.own, self.second, self.case.dataset
        y, weight = data.train_y, data.train_weight
        other = data.but(
            train_x=data.train_x[::-1].copy(), train_y=None if y is None else y[::-1].copy(),
            train_weight=None if weight is None else weight[::-1].copy(),
        )  # fmt: skip
        for what, dataset, order in (("data set", other, self.order), ("epoch", data, self.next_order)):
            second.load(dataset)
            second.set_state(self.start)
            log = second.run(order, 1, 2)
            end = context.state(second, "after a second step alone").copied()
            own.load(data)
            own.set_state(self.start)
            own.run(self.order, 0, 1)
            if dataset is not data:
                own.load(dataset)
            own.set_state(self.start)
            what = f"a second step alone, and one after the first of another {what},"
            check_equal(context, "rebuild", what, (own.run(order, 1, 2), log), own, end)

    def check_empty_range(self) -> None:
        context, middle = self.context, self.steps // 2
        held = context.state(self.own, "before no steps").copied()
        context.check_log(self.own.run(self.order, middle, middle), self.order, 0, "an empty range of steps")
        after = context.state(self.own, "after no steps")
        context.check_same("empty range", "before and after no steps", after, held)


def check_states(context: ProofContext, own: GuardedTrainer, case: ReferenceCase) -> None:
    """Check that a state is set and read unchanged, and that a state that was read is the caller's own copy."""
    rng, count, slots = context.rng, context.net.param_count, context.config.optimizer.slots
    params, *held = (rng.standard_normal(count).astype(context.element) for _ in range(1 + len(slots)))
    odd = np.array([-0.0, 1e-40, -1e-30, 3e38, -3e38], context.element)[:count]
    params[: len(odd)] = odd
    given = State(params, dict(zip(slots, held, strict=True)), int(rng.integers(2**31)))
    own.set_state(given)
    after = context.state(own, "after set_state")
    context.check_same("round trip", "given to set_state and got from state", after, given)
    own.load(case.dataset)
    context.check_same("round trip", "before and after a load", context.state(own, "after a load"), given)
    bare = State(params, step=given.step)
    own.set_state(bare)
    after = context.state(own, "after set_state without slots")
    context.check_same("round trip", "given without slots, which are zeros,", after, bare)
    other = bare
    for kind, part in _parts(context, given).items():  # one after the other: each state is the last one but for a part
        other = other.but(**part)
        own.set_state(other)
        after = context.state(own, f"after set_state with {kind}")
        context.check_same("round trip", f"given with {kind} and the same parameters,", after, other)

    start = case.steps[0].state
    own.set_state(start)
    got = context.state(own, "after set_state")
    log = own.run(case.order, 0, 1)
    context.check_same("copy", "from state(), before and after a later step,", got, start)
    end = context.state(own, "after a step").copied()
    own.set_state(start)
    spoil(context.state(own, "after set_state"))
    again = own.run(case.order, 0, 1)
    what = "a step, and one after a caller had overwritten what state() gave,"
    check_equal(context, "copy", what, (again, log), own, end)


def _parts(context: ProofContext, given: State) -> dict[str, dict[str, Any]]:
    """Parts of a state in which two may differ whose parameters are the same, by a name; `given` has the slots."""
    parts: dict[str, dict[str, Any]] = {"another count": {"step": given.step // 2 + 1}}
    if given.slots:
        parts["other slots"] = {"slots": given.slots}
    if context.net.normalizes:
        drawn = drawn_buffers(context.net, context.rng, context.cases.precision)
        assert drawn is not None
        parts["other running statistics"] = {"buffers": drawn.astype(context.element)}
    return parts


def check_worn(context: ProofContext, own: GuardedTrainer, case: ReferenceCase) -> None:
    """Check that steps and outputs are the same after many calls of each kind, in a small share of the seconds."""
    if not context.bitwise:
        return
    until = time.perf_counter() + WORN_SHARE * (context.cases.seconds + time.perf_counter() - context.began)
    own.load(case.dataset)
    x, scale = case.dataset.train_x[:1].copy(), case.dataset.scale
    first: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    what = "outputs", "parameters"
    for number in range(WORN):
        wanted = case.steps[number % len(case.steps)]
        own.set_state(wanted.state)
        out = own.predict(x, scale)
        own.run(case.order, wanted.step, wanted.step + 1)
        own.state()
        params = own.state().params
        held = first.setdefault(wanted.step, (out.copy(), params.copy()))
        differs = any(got.tobytes() != then.tobytes() for got, then in zip((out, params), held, strict=True))
        if differs or (number >= len(case.steps) and time.perf_counter() > until):
            break
    for name, got, then in zip(what, (out, params), held, strict=True):  # once: the clock decides how many there were
        context.ledger.same("repeat", f"{name} of a step, and of one after {number} rounds of calls,", got, then)


def check_like_states(
    context: ProofContext, own: GuardedTrainer, second: GuardedTrainer, case: ReferenceCase
) -> None:  # fmt: skip
    """Check a state that is nearly that before it: most numbers have changed places within their tensor, so that its
    ends and sums are the same. A trainer that comes from another state makes the same step.
    """
    start, order, net = case.steps[0].state.copied(context.element), case.order, context.net
    x, scale = case.dataset.train_x[:FEW].copy(), case.dataset.scale
    like = start.copied()
    flats = (like.params, *like.slots.values())
    tensors = [tensor for flat in flats for tensor in views(net, flat).values()]
    if like.buffers is not None:
        tensors += buffer_views(net, like.buffers).values()
    for tensor in tensors:
        flat = tensor.reshape(-1)
        flat[1:-1] = flat[1:-1][::-1].copy()
    ends, outputs = [], []
    for trainer, before in ((second, start.but(params=-start.params)), (own, start)):
        trainer.load(case.dataset)
        trainer.set_state(before)
        trainer.predict(x, scale)
        trainer.run(order, 0, 1)
        trainer.set_state(before)
        trainer.predict(x, scale)
        trainer.set_state(like)
        outputs.append(trainer.predict(x, scale))
        ends.append((trainer.run(order, 0, 1), context.state(trainer, "after a step from a like state").copied()))
    (log, end), (own_log, _) = ends
    what = "a step from a state, and one from it after one with the same ends of tensors,"
    check_equal(context, "rebuild", what, (own_log, log), own, end)
    if context.bitwise:
        context.ledger.same("predict", f"outputs before {what}", outputs[1], outputs[0])
    elif np.all(np.isfinite(outputs[0])):
        bounds, scales = {"the output": output_bound(net, context.cases.precision)}, output_scale(outputs[0])
        context.ledger.near("predict", what, {"the output": (outputs[1], outputs[0])}, bounds, {"the output": scales})


def check_equal(
    context: ProofContext, check: str, what: str, both: tuple[StepLog | list[StepLog], StepLog | list[StepLog]],
    trainer: GuardedTrainer, first: State,
) -> None:  # fmt: skip
    """Check a repetition of steps of one epoch or of several.

    both : logs of the repetition and of the first run.
    trainer, first : trainer after the repetition, and the state after the first run.
    """
    state = context.state(trainer, what)
    logs, first_logs = ([each] if isinstance(each, StepLog) else each for each in both)
    if context.bitwise:
        for got, wanted in zip(logs, first_logs, strict=True):
            for name in ("loss", "correct", "size"):
                context.ledger.same(check, f"{name} of {what}", getattr(got, name), getattr(wanted, name))
        context.check_same(check, f"after {what}", state, first)
        return
    sizes = np.concatenate([each.size for each in first_logs])
    limits = update_bounds(context.net, int(max(sizes)), context.cases.precision)
    bounds = {name: len(sizes) * limit for name, limit in limits.items()}
    tensors = pairs(context.net, state.params, first.params.astype(np.float64))
    context.ledger.near(check, what, tensors, bounds)
    context.check_count(state, first.step, what)
