"""The checks of a proof, in the order in which they are made."""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import RungError
from ..nets import Net
from ..order import Order
from ..params import views
from ..trainers.base import State, StepLog, Trainer
from .bounds import loss_bound, output_bound, update_bounds
from .cases import LEAST_RATE, Cases, same_batch
from .specimens import Case, Specimen
from .verdict import Ledger, Refuted

Build = Callable[[Net, TrainConfig, State], Trainer]

#: The checks without which nothing passes.
REQUIRED = (
    "update", "velocity", "loss", "correct", "size", "log", "state", "predict", "output",
    "repeat", "rebuild", "epochs", "range", "disturbance", "empty range", "round trip", "copy", "data",
)  # fmt: skip


class Watched:
    """A trainer whose exceptions are findings, and whose caller keeps no hold on it: it is given copies, which are then spoilt."""

    def __init__(self, build: Build, net: Net, config: TrainConfig, state: State) -> None:
        self.config = config
        mine = copied(state)
        self.trainer: Trainer = self._watch("build", build, net, config, mine)
        spoil(mine)

    def _watch(self, name: str, function: Callable[..., Any], *args: object) -> Any:
        try:
            return function(*args)
        except RungError:
            raise
        except Exception as error:
            raise Refuted("crash", f"crash: {name} raised {type(error).__name__}{_place(error)}: {error}") from error

    def load(self, dataset: Dataset) -> None:
        self._watch("load", self.trainer.load, dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self._watch(f"run of steps {first}..{last}", self.trainer.run, order, first, last)

    def run_epochs(self, orders: list[Order]) -> list[StepLog]:
        return self._watch(f"run_epochs of {len(orders)} epochs", self.trainer.run_epochs, orders)

    def state(self) -> State:
        return self._watch("state", self.trainer.state)

    def set_state(self, state: State) -> None:
        mine = copied(state)
        self._watch("set_state", self.trainer.set_state, mine)
        spoil(mine)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self._watch(f"predict of {len(x)} samples", self.trainer.predict, x, scale)


def _place(error: Exception) -> str:
    """Where in the file of the function that was called it happened, as " in mine.py, line 7"; empty where the call itself failed."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


class Proof:
    """Proves one trainer on its cases; `run` raises `Refuted` at the first check that fails."""

    def __init__(
        self, build: Build, net: Net, config: TrainConfig, cases: Cases, rng: np.random.Generator, bitwise: bool, ledger: Ledger
    ) -> None:
        self.build, self.net, self.config, self.cases, self.rng = build, net, config, cases, rng
        self.bitwise, self.ledger, self.precision = bitwise, ledger, cases.precision
        self.trainers: list[Watched] = []

    def run(self) -> None:
        cases = self.cases
        before = [_checksum(case.dataset) for case in cases]

        strong = self._make(cases.strong(), cases.exact.specimens[0].state)
        self._steps(strong, cases.exact, built=True)
        self._steps(strong, cases.zeros)
        self._steps(strong, cases.ties)
        self._steps(strong, cases.floats)
        self._steps(strong, cases.stored, poisoned=True)
        self._steps(strong, cases.far)
        biting = cases.biting()
        if biting is not None:
            self._steps(self._make(biting, cases.exact.specimens[0].state), cases.exact, built=True)

        start = cases.stored.specimens[0].state
        own = self._make(self.config, start)
        self._predictions(own, "before any data")
        own.set_state(start)
        self._steps(own, cases.stored, built=True)
        self._predictions(own, "after training")
        self._steps(own, cases.exact)
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

    def _steps(self, trainer: Watched, case: Case, *, built: bool = False, poisoned: bool = False) -> None:
        """Every specimen of a case, each from its own state; `built`: the trainer already stands at the first."""
        trainer.load(case.dataset)
        for number, specimen in enumerate(case.specimens):
            where = f"{case.name} data, step {specimen.step}, batch of {specimen.size}, learning rate {trainer.config.learning_rate:g}"
            if poisoned:
                self._poison(trainer, case, specimen)
                where += ", after a step of NaN"
            if number or poisoned or not built:
                trainer.set_state(specimen.state)
            log = trainer.run(case.order, specimen.step, specimen.step + 1)
            self._log(log, 1, where)
            self._told(specimen, log, where)
            if case.updates:
                self._moved(trainer, specimen, where)

    def _told(self, specimen: Specimen, log: StepLog, where: str) -> None:
        """What a step logs."""
        net, ledger = self.net, self.ledger
        ledger.holds("size", log.size[0] == specimen.size, f"size: the log has {log.size[0]} samples: {where}")
        correct = f"correct: the log has {log.correct[0]}, the reference {specimen.correct}: {where}"
        ledger.holds("correct", log.correct[0] == specimen.correct, correct)
        ledger.near(
            "loss",
            where,
            {"the batch": (log.loss, np.array([specimen.loss]))},
            {"the batch": loss_bound(net, specimen.size, self.precision)},
        )

    def _moved(self, trainer: Watched, specimen: Specimen, where: str) -> None:
        """The update of every tensor, and its momentum."""
        net, ledger, config = self.net, self.ledger, trainer.config
        before = specimen.state.params.astype(np.float64)
        after, (params, velocity) = self._state(trainer, where), specimen.after(config)
        update_sizes, velocity_sizes = specimen.sizes(config)
        bounds = update_bounds(net, specimen.size, self.precision)
        stored = views(net, params) if config.learning_rate < LEAST_RATE else None
        updates = pairs(net, after.params - before, params - before)
        ledger.near("update", where, updates, bounds, views(net, update_sizes), stored)
        if config.momentum:
            ledger.near("velocity", where, pairs(net, after.velocity, velocity), bounds, views(net, velocity_sizes))
        else:
            ledger.holds("velocity", not np.any(after.velocity), f"velocity: it is not zero, and there is no momentum: {where}")

    def _poison(self, trainer: Watched, case: Case, specimen: Specimen) -> None:
        """Leave NaN in every buffer that a step writes; a trainer that refuses to train on NaN stays clean."""
        bad = np.full(self.net.param_count, np.nan, np.float32)
        with np.errstate(all="ignore"):
            try:
                trainer.trainer.set_state(State(bad, bad.copy() if self.config.momentum else np.zeros_like(bad)))
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
                which = rng.permutation(np.arange(n) % len(pool.x))
                got = trainer.predict(pool.x[which], pool.scale)
                where = f"{n} samples of {pool.x.dtype}, {when}"
                alike = isinstance(got, np.ndarray) and got.dtype == np.float32 and got.shape == (n, *net.out_shape)
                is_not = f"output: wanted float32 {(n, *net.out_shape)}, got {getattr(got, 'dtype', type(got))} {np.shape(got)}: {where}"
                ledger.holds("output", alike, is_not)
                ledger.near("predict", where, {"the output": (got, pool.truth[which])}, bounds, {"the output": np.full(got.shape, rms)})
                kept.append((got, got.copy()))
        for got, then in kept:
            ledger.same("predict", f"an earlier prediction, before and after later ones ({when}),", got, then)

    def _repeats(self, own: Watched, other: Watched, case: Case, others: Case) -> None:
        """An epoch, told in several ways, must end in the same bits."""
        start, order, steps = case.specimens[0].state, case.order, self.config.steps(case.order.n)
        own.set_state(start)
        log = own.run(order, 0, steps)
        self._log(log, steps, f"steps 0..{steps} in one call")
        end = copied(self._state(own, f"after steps 0..{steps}"))

        own.set_state(start)
        self._again("repeat", "an epoch and its repetition", own.run(order, 0, steps), log, own, end)

        fresh = self._make(self.config, start)
        fresh.load(case.dataset)
        later = [replace(order, epoch=order.epoch + i) for i in range(1, 65)]
        next_order = next((o for o in later if not same_batch(o, order, self.config.batch(order.n))), later[0])
        next_log = fresh.run(next_order, 0, steps)
        next_end = copied(fresh.state())
        fresh.set_state(start)
        self._again("rebuild", "an epoch of one trainer and of a second", fresh.run(order, 0, steps), log, fresh, end)
        own.set_state(start)
        self._again("rebuild", "another epoch of one trainer and of a second", own.run(next_order, 0, steps), next_log, own, next_end)

        second = fresh.run(next_order, 0, steps)  # behind the first, which it has just trained
        both_end = copied(fresh.state())
        own.set_state(start)
        logs = own.run_epochs([order, next_order])
        self.ledger.holds(
            "epochs", isinstance(logs, list) and len(logs) == 2, "epochs: two epochs in one call do not give a list of two logs"
        )
        for number, part in enumerate(logs):
            self._log(part, steps, f"epoch {number + 1} of two in one call")
        self._again("epochs", "two epochs in one call and one by one", joined(logs), joined([log, second]), own, both_end)

        own.set_state(start)
        parts = [own.run(order, step, step + 1) for step in range(steps)]
        self._again("range", f"steps 0..{steps} in one call and one by one", joined(parts), log, own, end)

        own.set_state(start)
        other.load(others.dataset)
        parts = []
        for step in range(steps):
            own.predict(case.dataset.train_x[:3], case.dataset.scale)
            other.set_state(others.specimens[0].state)
            other.run(others.order, 0, 1)
            own.set_state(own.state())
            parts.append(own.run(order, step, step + 1))
        what = "an epoch, and one between whose steps it predicts, another trains, and its state goes out and in,"
        self._again("disturbance", what, joined(parts), log, own, end)

        held = copied(own.state())
        self._log(own.run(order, steps // 2, steps // 2), 0, "an empty range of steps")
        self.ledger.same("empty range", "parameters before and after no steps", own.state().params, held.params)

    def _states(self, own: Watched, case: Case) -> None:
        """State goes in and out without a change, and what went out is the caller's."""
        rng, count, ledger = self.rng, self.net.param_count, self.ledger
        params, velocity = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
        odd = np.array([-0.0, 1e-40, -1e-30, 3e38, -3e38], np.float32)[:count]
        params[: len(odd)] = odd
        given = State(params, velocity if self.config.momentum else np.zeros_like(velocity))
        own.set_state(given)
        got = self._state(own, "after set_state")
        ledger.same("round trip", "parameters given to set_state and got from state", got.params, given.params)
        ledger.same("round trip", "velocity given to set_state and got from state", got.velocity, given.velocity)

        start = case.specimens[0].state
        own.set_state(start)
        got = own.state()
        log = own.run(case.order, 0, 1)
        ledger.same("copy", "parameters from state(), before and after a later step,", got.params, start.params)
        ledger.same("copy", "velocity from state(), before and after a later step,", got.velocity, start.velocity)
        end = copied(own.state())
        own.set_state(start)
        spoil(own.state())
        self._again("copy", "a step, and one after a caller had overwritten what state() gave,", own.run(case.order, 0, 1), log, own, end)

    def _log(self, log: StepLog, steps: int, where: str) -> None:
        for name, dtype in (("loss", np.float64), ("correct", np.int64), ("size", np.int64)):
            a = getattr(log, name)
            alike = isinstance(a, np.ndarray) and a.shape == (steps,) and a.dtype == dtype
            self.ledger.holds("log", alike, f"log: {name} is not a {np.dtype(dtype)} array of shape {(steps,)}: {where}")

    def _state(self, trainer: Watched, where: str) -> State:
        state = trainer.state()
        for name in ("params", "velocity"):
            a = getattr(state, name, None)
            alike = isinstance(a, np.ndarray) and a.shape == (self.net.param_count,) and a.dtype == np.float32
            self.ledger.holds("state", alike, f"state: {name} is not a float32 array of shape {(self.net.param_count,)}: {where}")
        return state

    def _again(self, check: str, what: str, log: StepLog, first_log: StepLog, trainer: Watched, first: State) -> None:
        """The same steps a second time: log and state must have the bits of the first."""
        state = self._state(trainer, what)
        if self.bitwise:
            for name in ("loss", "correct", "size"):
                self.ledger.same(check, f"{name} of {what}", getattr(log, name), getattr(first_log, name))
            self.ledger.same(check, f"parameters after {what}", state.params, first.params)
            self.ledger.same(check, f"velocity after {what}", state.velocity, first.velocity)
        else:
            steps = len(first_log.size)
            bounds = {name: steps * limit for name, limit in update_bounds(self.net, int(max(first_log.size)), self.precision).items()}
            self.ledger.near(check, what, pairs(self.net, state.params, first.params.astype(np.float64)), bounds)


def pairs(net: Net, got: np.ndarray, want: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Two flat buffers (param_count,), tensor by tensor."""
    wanted = views(net, want)
    return {name: (tensor, wanted[name]) for name, tensor in views(net, got).items()}


def joined(logs: list[StepLog]) -> StepLog:
    """The log of consecutive ranges as that of one."""
    return StepLog(*(np.concatenate([getattr(log, name) for log in logs]) for name in ("loss", "correct", "size")))


def copied(state: State) -> State:
    return State(np.array(state.params), np.array(state.velocity))


def spoil(state: State) -> None:
    """Write NaN into a state's arrays, where they let us."""
    for a in (state.params, state.velocity):
        if a.flags.writeable:
            a.fill(np.nan)


def _checksum(dataset: Dataset) -> tuple[int, int]:
    return zlib.crc32(dataset.train_x.data), 0 if dataset.train_y is None else zlib.crc32(dataset.train_y.data)
