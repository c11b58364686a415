"""The checks of a proof, in the order in which they are made."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..errors.arguments import kind_of
from ..nets import Net
from ..nets.params import views
from ..trainers.base import State, StepLog
from .bounds import loss_bound, output_bound, update_bounds
from .cases import LEAST_RATE, Cases, same_batch
from .guarded import Build, Watched, spoil
from .reference_cases import Case, Specimen
from .verdict import Ledger

#: The checks without which nothing passes.
REQUIRED = (
    "update", "slots", "step", "loss", "correct", "size", "log", "state", "predict", "output",
    "repeat", "rebuild", "epochs", "range", "disturbance", "empty range", "round trip", "copy", "data",
)  # fmt: skip


class Proof:
    """Proves one trainer on its cases; `run` raises `Refuted` at the first check that fails."""

    def __init__(
        self,
        build: Build,
        net: Net,
        config: TrainConfig,
        cases: Cases,
        rng: np.random.Generator,
        bitwise: bool,
        ledger: Ledger,
    ) -> None:
        self.build, self.net, self.config, self.cases, self.rng = build, net, config, cases, rng
        self.bitwise, self.ledger, self.precision = bitwise, ledger, cases.precision
        self.element = np.dtype(self.precision.element)  # of parameters, slots and outputs
        self.trainers: list[Watched] = []

    def run(self) -> None:
        cases = self.cases
        before = [_checksum(case.dataset) for case in cases]

        strong = self._make(cases.strong(), cases.exact.specimens[0].state)
        self._kinds(strong, cases.exact, built=True)
        self._kinds(strong, cases.zeros)
        self._kinds(strong, cases.ties)
        self._kinds(strong, cases.floats)
        self._kinds(strong, cases.stored, poisoned=True)
        self._kinds(strong, cases.far)
        biting = cases.biting()
        if biting is not None:
            self._kinds(self._make(biting, cases.exact.specimens[0].state), cases.exact, built=True)

        start = cases.stored.specimens[0].state
        own = self._make(self.config, start)
        self._predictions(own, "before any data")
        own.set_state(start)
        self._kinds(own, cases.stored, built=True)
        self._predictions(own, "after training")
        self._kinds(own, cases.exact)
        self._repeats(own, strong, cases.exact, cases.floats)
        self._states(own, cases.exact)

        after = [_checksum(case.dataset) for case in cases]
        self.ledger.holds("data", before == after, "data: a data set is not what it was before training")

    def close(self) -> None:
        """Close every trainer that was built."""
        for watched in self.trainers:
            watched._watch("close", watched.trainer.close)

    def _make(self, config: TrainConfig, state: State) -> Watched:
        trainer = Watched(self.build, self.net, config, state)
        self.trainers.append(trainer)
        return trainer

    def _kinds(self, trainer: Watched, case: Case, *, built: bool = False, poisoned: bool = False) -> None:
        """A case in an epoch with losses, and where `loss_every` leaves epochs without them, the same steps in such a
        one.
        """
        self._steps(trainer, case, built=built, poisoned=poisoned)
        if self.config.loss_every > 1:
            self._steps(trainer, self.cases.without_loss(case), poisoned=poisoned)

    def _steps(self, trainer: Watched, case: Case, *, built: bool = False, poisoned: bool = False) -> None:
        """Every specimen of a case, each from its own state; `built`: the trainer already stands at the first."""
        trainer.load(case.dataset)
        for number, specimen in enumerate(case.specimens):
            where = f"{case.name} data, step {specimen.step}, batch of {specimen.size}, learning rate {trainer.config.learning_rate:g}"
            if not trainer.config.steady:
                where += f", update {specimen.state.step + 1} of the run"
            if not self.config.has_loss(case.order.epoch):
                where += ", in an epoch without losses"
            if poisoned:
                self._poison(trainer, case, specimen)
                where += ", after a step of NaN"
            if number or poisoned or not built:
                trainer.set_state(specimen.state)
            log = trainer.run(case.order, specimen.step, specimen.step + 1)
            self._log(log, case.order, 1, where)
            self._told(specimen, log, where)
            if case.updates:
                self._moved(trainer, specimen, where)

    def _told(self, specimen: Specimen, log: StepLog, where: str) -> None:
        """What a step logs."""
        net, ledger = self.net, self.ledger
        ledger.holds("size", log.size[0] == specimen.size, f"size: the log has {log.size[0]} samples: {where}")
        if not log.has_loss:
            return
        correct = f"correct: the log has {log.correct[0]}, the reference {specimen.correct}: {where}"
        ledger.holds("correct", log.correct[0] == specimen.correct, correct)
        ledger.near(
            "loss",
            where,
            {"the batch": (log.loss, np.array([specimen.loss]))},
            {"the batch": loss_bound(net, specimen.size, self.precision)},
        )

    def _moved(self, trainer: Watched, specimen: Specimen, where: str) -> None:
        """The update of every tensor, its slots, and the count of updates."""
        net, ledger, config = self.net, self.ledger, trainer.config
        before = specimen.params
        after, (params, slots) = self._state(trainer, where), specimen.after(config)
        update_sizes, slot_sizes = specimen.sizes(config)
        bounds = update_bounds(net, specimen.size, self.precision, config.optimizer.roundings)
        slack = self._stored(before, params, config.optimizer.stores) if config.learning_rate < LEAST_RATE else None
        updates = pairs(net, after.params - before, params - before)
        ledger.near(
            "update", where, updates, bounds, views(net, update_sizes), None if slack is None else views(net, slack)
        )
        for slot, wanted in slots.items():
            tensors, sizes = pairs(net, after.slots[slot], wanted), views(net, slot_sizes[slot])
            of = {name: f"{name}'s {slot}" for name in tensors}
            limits, scales = {of[name]: bounds[name] for name in of}, {of[name]: sizes[name] for name in of}
            ledger.near("slots", where, {of[name]: pair for name, pair in tensors.items()}, limits, scales)
        self._counted(after, specimen.state.step + 1, where)

    def _stored(self, before: np.ndarray, after: np.ndarray, roundings: int) -> np.ndarray:
        """What each weight may be off for having been rounded to be stored, last of all and, as some optimizers go,
        ahead of that; in fp64 the truth is too.
        """
        times = 2 if self.element == np.float64 else 1
        return times * self.precision.roundoff * (np.abs(after) + (roundings - 1) * np.abs(before))

    def _counted(self, state: State, wanted: int, where: str) -> None:
        self.ledger.holds(
            "step", state.step == wanted, f"step: the state counts {state.step} updates, {wanted} were made: {where}"
        )

    def _poison(self, trainer: Watched, case: Case, specimen: Specimen) -> None:
        """Leave NaN in every buffer that a step writes; a trainer that refuses to train on NaN stays clean."""
        bad = State(np.full(self.net.param_count, np.nan, self.element), step=specimen.state.step)
        with np.errstate(all="ignore"):
            try:
                trainer.trainer.set_state(
                    bad.but(slots={name: bad.params.copy() for name in self.config.optimizer.slots})
                )
                trainer.trainer.run(case.order, specimen.step, specimen.step + 1)
                trainer.trainer.predict(case.dataset.train_x[: self.cases.batch], case.dataset.scale)
            except (ArithmeticError, ValueError):
                return

    def _predictions(self, trainer: Watched, when: str) -> None:
        """Outputs for numbers of samples unlike the batch's, and earlier outputs left as they were."""
        net, rng, ledger, b = self.net, self.rng, self.ledger, self.cases.batch
        state = self.cases.predicted
        trainer.set_state(state)
        bounds = {"the output": output_bound(net, self.precision)}
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for pool, sizes in zip(self.cases.pools, ((2, b + 1), (1, 2 * b + 3)), strict=True):
            rms = float(np.sqrt(np.mean(pool.truth**2)))
            for n in sizes:
                which = rng.permutation(
                    np.resize(rng.permutation(pool.alone), n) if n <= 2 else np.arange(n) % len(pool.x)
                )
                got = trainer.predict(pool.x[which], pool.scale)
                where = f"{n} samples of {pool.x.dtype}, {when}"
                alike = isinstance(got, np.ndarray) and got.dtype == self.element and got.shape == (n, *net.out_shape)
                is_not = f"output: wanted {self.element} {(n, *net.out_shape)}, got {getattr(got, 'dtype', type(got))} {np.shape(got)}: {where}"
                ledger.holds("output", alike, is_not)
                ledger.near(
                    "predict",
                    where,
                    {"the output": (got, pool.truth[which])},
                    bounds,
                    {"the output": np.full(got.shape, rms)},
                )
                kept.append((got, got.copy()))
        for got, then in kept:
            ledger.same("predict", f"an earlier prediction, before and after later ones ({when}),", got, then)

    def _repeats(self, own: Watched, other: Watched, case: Case, others: Case) -> None:
        """An epoch, told in several ways, must end in the same bits."""
        start, order, steps = case.specimens[0].state, case.order, self.config.steps(case.order.n)
        if self.config.loss_every > 1:
            own.load(case.dataset)  # of an epoch with losses again
        own.set_state(start)
        log = own.run(order, 0, steps)
        self._log(log, order, steps, f"steps 0..{steps} in one call")
        end = self._state(own, f"after steps 0..{steps}").copied()
        self._counted(end, start.step + steps, f"steps 0..{steps} in one call")

        own.set_state(start)
        self._again("repeat", "an epoch and its repetition", own.run(order, 0, steps), log, own, end)

        fresh = self._make(self.config, start)
        fresh.load(case.dataset)
        later = [replace(order, epoch=order.epoch + i) for i in range(1, 65)]
        if self.config.loss_every > 1:
            later = [each for each in later if not self.config.has_loss(each.epoch)]
        next_order = next((o for o in later if not same_batch(o, order, self.config.batch(order.n))), later[0])
        next_log = fresh.run(next_order, 0, steps)
        self._log(next_log, next_order, steps, "another epoch")
        next_end = self._state(fresh, "after another epoch").copied()
        fresh.set_state(start)
        self._again("rebuild", "an epoch of one trainer and of a second", fresh.run(order, 0, steps), log, fresh, end)
        own.set_state(start)
        self._again(
            "rebuild",
            "another epoch of one trainer and of a second",
            own.run(next_order, 0, steps),
            next_log,
            own,
            next_end,
        )

        second = fresh.run(next_order, 0, steps)  # behind the first, which it has just trained
        both_end = self._state(fresh, "after two epochs").copied()
        self._counted(both_end, start.step + 2 * steps, "two epochs, one by one")
        own.set_state(start)
        logs = own.run_epochs([order, next_order])
        self.ledger.holds(
            "epochs",
            isinstance(logs, list) and len(logs) == 2,
            "epochs: two epochs in one call do not give a list of two logs",
        )
        for number, part in enumerate(logs):
            self._log(part, (order, next_order)[number], steps, f"epoch {number + 1} of two in one call")
        self._again("epochs", "two epochs in one call and one by one", logs, [log, second], own, both_end)

        own.set_state(start)
        parts = [own.run(order, step, step + 1) for step in range(steps)]
        self._again(
            "range", f"steps 0..{steps} in one call and one by one", self._joined(parts, order, "range"), log, own, end
        )
        if self.config.loss_every > 1:
            own.set_state(start)
            parts = [own.run(next_order, step, step + 1) for step in range(steps)]
            what = f"steps 0..{steps} of an epoch without losses in one call and one by one"
            self._again("range", what, self._joined(parts, next_order, "range"), next_log, own, next_end)

        own.set_state(start)
        other.load(others.dataset)
        parts = []
        for step in range(steps):
            own.predict(case.dataset.train_x[:3], case.dataset.scale)
            other.set_state(others.specimens[0].state)
            other.run(others.order, 0, 1)
            own.set_state(self._state(own, f"before step {step}"))
            parts.append(own.run(order, step, step + 1))
        what = "an epoch, and one between whose steps it predicts, another trains, and its state goes out and in,"
        self._again("disturbance", what, self._joined(parts, order, "disturbance"), log, own, end)

        held = self._state(own, "before no steps").copied()
        self._log(own.run(order, steps // 2, steps // 2), order, 0, "an empty range of steps")
        self._same("empty range", "before and after no steps", self._state(own, "after no steps"), held)

    def _states(self, own: Watched, case: Case) -> None:
        """State goes in and out without a change, and what went out is the caller's."""
        rng, count = self.rng, self.net.param_count
        params, *slots = (
            rng.standard_normal(count).astype(self.element) for _ in range(1 + len(self.config.optimizer.slots))
        )
        odd = np.array([-0.0, 1e-40, -1e-30, 3e38, -3e38], self.element)[:count]
        params[: len(odd)] = odd
        given = State(params, dict(zip(self.config.optimizer.slots, slots, strict=True)), int(rng.integers(2**31)))
        own.set_state(given)
        self._same("round trip", "given to set_state and got from state", self._state(own, "after set_state"), given)

        start = case.specimens[0].state
        own.set_state(start)
        got = self._state(own, "after set_state")
        log = own.run(case.order, 0, 1)
        self._same("copy", "from state(), before and after a later step,", got, start)
        end = self._state(own, "after a step").copied()
        own.set_state(start)
        spoil(self._state(own, "after set_state"))
        self._again(
            "copy",
            "a step, and one after a caller had overwritten what state() gave,",
            own.run(case.order, 0, 1),
            log,
            own,
            end,
        )

    def _same(self, check: str, where: str, got: State, want: State) -> None:
        """Two states to the bit."""
        self.ledger.same(check, f"parameters {where}", got.params, want.params)
        for name in self.config.optimizer.slots:
            self.ledger.same(check, f"{name} {where}", got.slots[name], want.slot(name))
        self._counted(got, want.step, where)

    def _log(self, log: StepLog, order: Order, steps: int, where: str) -> None:
        """Arrays as the contract has them, with losses where they are to be computed and none where they are not."""
        has_loss = self.config.has_loss(order.epoch)
        if has_loss:
            told = "log: it says that no loss was computed, in an epoch that has losses"
        else:
            told = "no loss: the log claims losses in an epoch whose losses are not computed"
        self.ledger.holds("log" if has_loss else "no loss", log.has_loss is has_loss, f"{told}: {where}")
        for name, dtype, count in (
            ("loss", np.float64, steps if has_loss else 0),
            ("correct", np.int64, steps if has_loss else 0),
            ("size", np.int64, steps),
        ):
            a = getattr(log, name)
            alike = isinstance(a, np.ndarray) and a.shape == (count,) and a.dtype == dtype
            self.ledger.holds(
                "log", alike, f"log: {name} is not a {np.dtype(dtype)} array of shape {(count,)}: {where}"
            )

    def _joined(self, parts: list[StepLog], order: Order, check: str) -> StepLog:
        """The logs of single steps as that of their range."""
        for step, part in enumerate(parts):
            self._log(part, order, 1, f"step {step} by itself ({check})")
        return StepLog.joined(parts)

    def _state(self, trainer: Watched, where: str) -> State:
        """What state() gives, which has all that a state has to have, and nothing else."""
        state = trainer.state()
        wanted, slots = trainer.config.optimizer.slots, getattr(state, "slots", None)
        self._array("params", getattr(state, "params", None), where)
        told = f"slots: the state's are no mapping of names to arrays but {kind_of(slots)}: {where}"
        self.ledger.holds("slots", isinstance(slots, Mapping), told)
        names = [str(name) for name in state.slots]
        told = (
            f"slots: the state has {', '.join(names) or 'none'}, the optimizer {', '.join(wanted) or 'none'}: {where}"
        )
        self.ledger.holds("slots", sorted(names) == sorted(wanted), told)
        for name in wanted:
            self._array(name, state.slots[name], where)
        whole = isinstance(getattr(state, "step", None), int) and not isinstance(state.step, bool)
        self.ledger.holds("state", whole, f"state: step is no int but {kind_of(getattr(state, 'step', None))}: {where}")
        return state

    def _array(self, name: str, a: object, where: str) -> None:
        alike = isinstance(a, np.ndarray) and a.shape == (self.net.param_count,) and a.dtype == self.element
        self.ledger.holds(
            "state", alike, f"state: {name} is not a {self.element} array of shape {(self.net.param_count,)}: {where}"
        )

    def _again(
        self,
        check: str,
        what: str,
        log: StepLog | list[StepLog],
        first_log: StepLog | list[StepLog],
        trainer: Watched,
        first: State,
    ) -> None:
        """The same steps a second time, of one epoch or of several: logs and state must have the bits of the first."""
        state = self._state(trainer, what)
        logs, first_logs = ([each] if isinstance(each, StepLog) else each for each in (log, first_log))
        if self.bitwise:
            for got, wanted in zip(logs, first_logs, strict=True):
                for name in ("loss", "correct", "size"):
                    self.ledger.same(check, f"{name} of {what}", getattr(got, name), getattr(wanted, name))
            self._same(check, f"after {what}", state, first)
        else:
            sizes = np.concatenate([each.size for each in first_logs])
            steps = len(sizes)
            bounds = {
                name: steps * limit for name, limit in update_bounds(self.net, int(max(sizes)), self.precision).items()
            }
            self.ledger.near(check, what, pairs(self.net, state.params, first.params.astype(np.float64)), bounds)
            self._counted(state, first.step, what)


def pairs(net: Net, got: np.ndarray, want: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two flat buffers (param_count,), tensor by tensor."""
    wanted = views(net, want)
    return {name: (tensor, wanted[name]) for name, tensor in views(net, got).items()}


def _checksum(dataset: Dataset) -> tuple[int, int]:
    return zlib.crc32(dataset.train_x.data), 0 if dataset.train_y is None else zlib.crc32(dataset.train_y.data)
