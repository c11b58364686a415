"""Context of a proof: the trainers under proof, guarded against exceptions, and checks of logs and states."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..errors import RungError
from ..errors.arguments import kind_of
from ..nets import Net
from ..nets.params import views
from ..trainers.base import State, StepLog, Trainer
from .cases import Cases
from .verdict import Ledger, Refuted

Build = Callable[[Net, TrainConfig, State], Trainer]


class GuardedTrainer:
    """Trainer whose exceptions refute it. It gets copies of states, which are later filled with NaN.

    rng : random numbers for names and sizes of data sets, by which a trainer could recognise a proof.
    """

    def __init__(
        self, build: Build, net: Net, config: TrainConfig, state: State, name: str, rng: np.random.Generator
    ) -> None:
        self.config, self.name, self.rng = config, name, rng
        mine = state.copied()
        self.trainer: Trainer = self._guard("build", build, net, config, mine)
        spoil(mine)

    def _guard(self, name: str, function: Callable[..., Any], *args: object) -> Any:
        try:
            return function(*args)
        except RungError:
            raise
        except Exception as error:
            raise Refuted("crash", f"crash: {name} raised {type(error).__name__}{_place(error)}: {error}") from error

    def load(self, dataset: Dataset) -> None:
        """Load a data set under the name of the real one, with a random number of test samples."""
        n = int(self.rng.integers(1, len(dataset.train_x) + 1))
        labels = None if dataset.train_y is None else dataset.train_y[:n]
        seen = dataset.but(name=self.name, test_x=dataset.train_x[:n], test_y=labels)
        self._guard("load", self.trainer.load, seen)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        return self._guard(f"run of steps {first}..{last}", self.trainer.run, order, first, last)

    def run_epochs(self, orders: list[Order]) -> list[StepLog]:
        return self._guard(f"run_epochs of {len(orders)} epochs", self.trainer.run_epochs, orders)

    def state(self) -> State:
        return self._guard("state", self.trainer.state)

    def set_state(self, state: State) -> None:
        mine = state.copied()
        self._guard("set_state", self.trainer.set_state, mine)
        spoil(mine)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self._guard(f"predict of {len(x)} samples", self.trainer.predict, x, scale)

    def close(self) -> None:
        self._guard("close", self.trainer.close)


def _place(error: Exception) -> str:
    """Text of an error's place in the called function's file, as " in mine.py, line 7"; "" if the call failed."""
    place = getattr(error, "place", None)  # place of an error in another process
    if place is not None:
        return f" in {place}" if place else ""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


def spoil(state: State) -> None:
    """Fill a state's writable arrays with NaN."""
    for a in (state.params, *state.slots.values(), *(() if state.buffers is None else (state.buffers,))):
        if a.flags.writeable:
            a.fill(np.nan)


@dataclass
class ProofContext:
    """Subject of a proof, its cases, and the ledger of its checks.

    build : function that makes the trainers.
    rng : random numbers of the checks.
    bitwise : True if repetitions must be equal bit for bit.
    reach : steps of a long call; 0 until it is known.
    trainers : trainers made so far.
    names : random numbers of names and test sets.
    began : time of `perf_counter` at which the checks began.
    """

    build: Build
    net: Net
    config: TrainConfig
    cases: Cases
    rng: np.random.Generator
    bitwise: bool
    ledger: Ledger
    reach: int = 0
    trainers: list[GuardedTrainer] = field(default_factory=list, init=False)
    names: np.random.Generator = field(init=False)
    began: float = field(default_factory=time.perf_counter, init=False)

    def __post_init__(self) -> None:
        self.names = np.random.default_rng(self.rng.bit_generator.random_raw())

    @property
    def element(self) -> np.dtype:
        """NumPy dtype of parameters, slots and outputs."""
        return np.dtype(self.cases.precision.element)

    def make(self, config: TrainConfig, state: State) -> GuardedTrainer:
        """Trainer with these settings, at this state."""
        name = self.cases.name or f"set {self.names.integers(2**31)}"
        trainer = GuardedTrainer(self.build, self.net, config, state, name, self.names)
        self.trainers.append(trainer)
        return trainer

    def close_another(self, state: State, dataset: Dataset) -> None:
        """Make, load and close a trainer; the others must train as before."""
        another = self.make(self.config, state)
        another.load(dataset)
        self.trainers.remove(another)
        another.close()

    def close(self) -> None:
        """Close all trainers of the proof."""
        for trainer in self.trainers:
            trainer.close()

    def check_count(self, state: State, wanted: int, where: str) -> None:
        """Check the number of updates in a state."""
        message = f"step: the state counts {state.step} updates, {wanted} were made: {where}"
        self.ledger.holds("step", state.step == wanted, message)

    def check_same(self, check: str, where: str, got: State, want: State) -> None:
        """Check that two states are equal bit for bit."""
        self.ledger.same(check, f"parameters {where}", got.params, want.params)
        for name in self.config.optimizer.slots:
            self.ledger.same(check, f"{name} {where}", got.slots[name], want.slot(name))
        if self.net.normalizes:
            wanted = want.buffers_of(self.net).astype(self.element)
            self.ledger.same(check, f"running statistics {where}", got.buffers_of(self.net), wanted)
        self.check_count(got, want.step, where)

    def check_log(self, log: StepLog, order: Order, steps: int, where: str) -> None:
        """Check the arrays of a log: `steps` long, with losses exactly in epochs with losses."""
        has_loss = self.config.has_loss(order.epoch)
        if has_loss:
            message = "log: it says that no loss was computed, in an epoch that has losses"
        else:
            message = "no loss: the log claims losses in an epoch whose losses are not computed"
        self.ledger.holds("log" if has_loss else "no loss", log.has_loss is has_loss, f"{message}: {where}")
        losses = steps if has_loss else 0
        for name, dtype, count in (
            ("loss", np.float64, losses),
            ("correct", np.int64, losses),
            ("size", np.int64, steps),
        ):
            a = getattr(log, name)
            alike = isinstance(a, np.ndarray) and a.shape == (count,) and a.dtype == dtype
            message = f"log: {name} is not a {np.dtype(dtype)} array of shape {(count,)}: {where}"
            self.ledger.holds("log", alike, message)

    def joined(self, parts: list[StepLog], order: Order, check: str) -> StepLog:
        """Log of a range of steps, joined from the checked logs of its single steps."""
        for step, part in enumerate(parts):
            self.check_log(part, order, 1, f"step {step} by itself ({check})")
        return StepLog.joined(parts)

    def state(self, trainer: GuardedTrainer, where: str) -> State:
        """State of a trainer, checked to have all arrays of a state, and nothing else."""
        state = trainer.state()
        wanted, slots = trainer.config.optimizer.slots, getattr(state, "slots", None)
        self._check_array("params", getattr(state, "params", None), where)
        message = f"slots: the state's are no mapping of names to arrays but {kind_of(slots)}: {where}"
        self.ledger.holds("slots", isinstance(slots, Mapping), message)
        names = [str(name) for name in state.slots]
        listed = f"the state has {', '.join(names) or 'none'}, the optimizer {', '.join(wanted) or 'none'}"
        self.ledger.holds("slots", sorted(names) == sorted(wanted), f"slots: {listed}: {where}")
        for name in wanted:
            self._check_array(name, state.slots[name], where)
        if self.net.normalizes:
            self._check_array("buffers", getattr(state, "buffers", None), where, self.net.buffer_count)
        whole = isinstance(getattr(state, "step", None), int) and not isinstance(state.step, bool)
        self.ledger.holds("state", whole, f"state: step is no int but {kind_of(getattr(state, 'step', None))}: {where}")
        return state

    def _check_array(self, name: str, a: object, where: str, count: int | None = None) -> None:
        shape = (self.net.param_count if count is None else count,)
        alike = isinstance(a, np.ndarray) and a.shape == shape and a.dtype == self.element
        self.ledger.holds("state", alike, f"state: {name} is not a {self.element} array of shape {shape}: {where}")


def pairs(net: Net, got: np.ndarray, want: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs of tensors (got, want) by name, from two flat buffers (param_count,)."""
    wanted = views(net, want)
    return {name: (tensor, wanted[name]) for name, tensor in views(net, got).items()}
