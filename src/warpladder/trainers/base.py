"""`Trainer`: contract of all trainers of a net, which train a range of steps of an epoch at a time.

Graphs and whole-epoch kernels have no calls for each layer; resuming, Ctrl-C and trajectories need the range.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..checkpoint.plan import NetPlan
from ..config import TrainConfig
from ..data.convert import nhwc_hint
from ..data.order import Order
from ..errors import ConfigError, DataError, RungError
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, Net
from ..nets.params import initial, initial_buffers

if TYPE_CHECKING:
    from ..data.dataset import Dataset


@dataclass(frozen=True)
class StepLog:
    """Losses and numbers of correct samples of a range of steps in one epoch.

    loss : (steps,) float64, each batch's mean loss before its update.
    correct : (steps,) int64, samples whose largest logit is their label's; zeros for MSELoss.
    size : (steps,) int64, samples in each batch.
    has_loss : True if loss and correct were computed; else, as in epochs skipped by `TrainConfig.loss_every`, both are
    empty.
    """

    loss: np.ndarray
    correct: np.ndarray
    size: np.ndarray
    has_loss: bool = field(default=True, kw_only=True)

    @classmethod
    def without_loss(cls, size: np.ndarray) -> StepLog:
        """Log of steps without losses and correct samples; size : (steps,) int64, samples of each batch."""
        return cls(np.zeros(0), np.zeros(0, np.int64), size, has_loss=False)

    @classmethod
    def joined(cls, logs: Sequence[StepLog]) -> StepLog:
        """Log of consecutive ranges of one epoch, at least one, as a single range."""
        loss, correct, size = (
            np.concatenate([getattr(log, name) for log in logs]) for name in ("loss", "correct", "size")
        )
        if len({log.has_loss for log in logs}) > 1:
            raise ValueError("steps with losses and steps without are not of one epoch")
        return cls(loss, correct, size, has_loss=logs[0].has_loss)

    def by_step(self) -> list[StepLog]:
        """Logs of the single steps."""
        if not self.has_loss:
            return [StepLog.without_loss(self.size[i : i + 1]) for i in range(len(self.size))]
        return [
            StepLog(self.loss[i : i + 1], self.correct[i : i + 1], self.size[i : i + 1]) for i in range(len(self.size))
        ]


@dataclass(frozen=True)
class State:
    """State of a training on the host: float32, or float64 from a trainer in fp64 and from the reference.

    params : (param_count,), in the order of `params.param_slices`.
    slots : (param_count,) for each of `Optimizer.slots`, by name; missing slots are zeros.
    step : number of updates so far, for the schedule and the optimizer's corrections.
    buffers : (buffer_count,), running means and variances in the order of `params.buffer_slices`; None for the initial
        ones, or without any. Each batch moves them; the optimizer does not.
    """

    params: np.ndarray
    slots: Mapping[str, np.ndarray] = field(default_factory=dict)
    step: int = 0
    buffers: np.ndarray | None = None

    @classmethod
    def drawn(cls, net: Net, config: TrainConfig) -> State:
        """State before the first step: initial parameters float32, drawn by the settings' seed and rule."""
        return cls(initial(net, config.seed, config.initial))

    def slot(self, name: str) -> np.ndarray:
        """Slot (param_count,) of this name; zeros if it is not among `slots`."""
        found = self.slots.get(name)
        return np.zeros_like(self.params) if found is None else found

    def buffers_of(self, net: Net) -> np.ndarray:
        """Buffers (buffer_count,), by default the net's initial ones."""
        return initial_buffers(net) if self.buffers is None else self.buffers

    def but(self, **changes: Any) -> State:
        """State with these parts changed."""
        return replace(self, **changes)

    def copied(self, dtype: Any = None) -> State:
        """Copy of the state, converted to dtype if it is not None."""
        return State(
            np.array(self.params, dtype), {name: np.array(slot, dtype) for name, slot in self.slots.items()}, self.step,
            None if self.buffers is None else np.array(self.buffers, dtype),
        )  # fmt: skip

    def bits(self) -> bytes:
        """Parameters, slots, buffers and number of updates as bytes, equal if and only if the states are equal."""
        return b"".join(
            [
                self.params.tobytes(),
                *(self.slots[name].tobytes() for name in sorted(self.slots)),
                self.step.to_bytes(8, "little"),
                b"" if self.buffers is None else self.buffers.tobytes(),
            ]
        )


class Trainer(ABC):
    """Net in training: the contract of rungs and peers.

    A trainer is built with an initial `State`, gets a data set by `load`, and then runs steps.

    Attributes
    ----------
    tuned : NetPlan or None
        Choices that `load` made by measuring, which a run must follow to repeat bit for bit; None if it measures
    nothing. If set before `load`, they are followed instead of measured.
    remark : str
        Remark on what `load` chose, for results, or empty.
    idea : str
        Idea of what `load` chose, if it is not the rung's and uses no special unit; else empty.
    say : callable or None
        Called with a line about each long part of `load`.
    has_cheap_calls : bool
        False if each call of `predict` prepares anew: callers then make few calls with many samples. Such a trainer
        cuts
        the samples itself, so that its activations stay small.
    is_ready_early : bool
        False, if a peer's caller sets it before `load`: programs are compiled, and graphs captured, at their first use.
        True makes those of whole epochs in `load`, where no clock runs.
    """

    net: Net
    config: TrainConfig
    tuned: NetPlan | None = None
    remark: str = ""
    idea: str = ""
    say: Callable[[str], None] | None = None
    has_cheap_calls: bool = True
    is_ready_early: bool = True

    @abstractmethod
    def load(self, dataset: Dataset) -> None:
        """Load a training set. Must be called before `run`; may be called again with another set."""

    @abstractmethod
    def run(self, order: Order, first: int, last: int) -> StepLog:
        """Train steps first..last-1 of the epoch of `order`.

        Step s takes the samples at positions s * batch to min((s + 1) * batch, n) of the order. In an epoch without
        losses (`config.has_loss(order.epoch)` is False), the log is `StepLog.without_loss`.
        """

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        """Train whole epochs: logs, weights and slots equal those of `run` on each order, bit for bit.

        In an epoch of one step, starting it and reading its loss take the host as long as the step itself: a trainer
        may queue many epochs before it waits.
        """
        return [self.run(order, 0, self.config.steps(order.n)) for order in orders]

    @abstractmethod
    def state(self) -> State:
        """Copy of the parameters and slots, and the number of updates so far."""

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Copies of the parameters (param_count,) and of the running statistics (buffer_count,), None without any."""
        state = self.state()
        return state.params, state.buffers

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Replace the parameters, the slots and the number of updates."""

    @abstractmethod
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        """Net's outputs (samples, *out_shape), in the state's dtype, for uint8 or float32 samples x times scale."""

    def memory(self) -> dict[str, int]:
        """Bytes of memory by component that the trainer has: parameters, input, activations, gradients, ..."""
        return {}

    def flops(self) -> int:
        """FLOPs to train one sample, fewer than the net's if an algorithm is cheaper; they give the least true time."""
        return self.net.train_flops

    def peak(self) -> float | None:
        """Peak FLOP/s of the unit that trains, in its precision; None for a CPU, whose peak a climb measures."""
        return None

    def spans(self) -> dict[str, float]:
        """Seconds since the trainer was built, by named part (compile, upload, ...), for the parts that it measures."""
        return {}

    def sources(self) -> Sequence[type | Path]:
        """Classes and files that show how this trainer computes, for a comparison of rungs; call it after `load`."""
        return [type(self)]

    def close(self) -> None:
        """Release the trainer's resources; it cannot be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def in_a_row(config: TrainConfig, orders: Sequence[Order]) -> list[tuple[bool, int]]:
    """Ranges of consecutive epochs with equal has_loss: (True if they have losses, number of epochs) each."""
    return [
        (has_loss, len(list(part)))
        for has_loss, part in groupby(orders, key=lambda order: config.has_loss(order.epoch))
    ]


def check_fit(net: Net, dataset: Dataset, config: TrainConfig | None = None) -> None:
    """Raise `DataError` if the data set cannot train the net with these settings; every trainer's `load` calls it."""
    if dataset.in_shape != net.in_shape:
        hint = nhwc_hint(dataset.train_x.shape, net.in_shape)
        raise DataError(
            f"net {net.name!r} takes samples of shape {net.in_shape}, {dataset.name} has {dataset.in_shape}{hint}"
        )
    if dataset.standard is not None:
        raise DataError(f"{dataset.name} is to be standardised before a trainer takes it: give dataset.standardized()")
    if config is not None and (size := smallest_batch(config, len(dataset.train_x))) < net.least_batch:
        raise DataError(
            f"net {net.name!r}: a batch of {size} has no variance for its BatchNorm1d, and {len(dataset.train_x)} "
            f"samples in batches of {config.batch(len(dataset.train_x))} leave one: take another batch size, or "
            "drop_last"
        )
    if isinstance(net.loss, CrossEntropyLoss):
        if dataset.train_y is None:
            raise DataError(f"net {net.name!r} needs labels and {dataset.name} has none")
        if dataset.has_targets:
            raise DataError(f"net {net.name!r} needs labels and {dataset.name} has targets: take MSELoss")
        if dataset.classes > net.out_shape[0]:
            raise DataError(
                f"net {net.name!r} has {net.out_shape[0]} outputs, "
                f"but {dataset.name} has labels up to {dataset.classes - 1}"
            )
        return
    outputs, loss = math.prod(net.out_shape), type(net.loss).__name__
    if isinstance(net.loss, BCEWithLogitsLoss):
        check_binary(net, dataset)
    if dataset.has_targets and dataset.outputs != outputs:
        raise DataError(f"net {net.name!r} has {outputs} outputs, but {dataset.name} has {dataset.outputs} targets")
    if not dataset.has_targets and outputs != math.prod(net.in_shape):
        raise DataError(
            f"net {net.name!r}: {loss} compares outputs {net.out_shape} with targets, and {dataset.name} has none; as "
            f"its own target a sample {net.in_shape} would need as many outputs"
        )


def smallest_batch(config: TrainConfig, samples: int) -> int:
    """Number of samples in the smallest batch of an epoch."""
    batch = config.batch(samples)
    return batch if config.drop_last else samples % batch or batch


def check_binary(net: Net, dataset: Dataset) -> None:
    """Raise `DataError` if targets of BCEWithLogitsLoss are outside 0 to 1."""
    for part in ("train", "valid", "test"):
        x, y = getattr(dataset, f"{part}_x"), getattr(dataset, f"{part}_y")
        if x is None or not len(x):
            continue
        own = np.array([x.min(), x.max()]) * dataset.scale
        goal = own if not dataset.has_targets else y
        if goal is not None and not (goal.min() >= 0 and goal.max() <= 1):
            raise DataError(
                f"net {net.name!r}: BCEWithLogitsLoss wants targets from 0 to 1, and {dataset.name} has "
                f"{goal.min():g} to {goal.max():g} among its {part} samples"
            )


def check_no_weights(dataset: Dataset, name: str) -> None:
    """Raise `RungError` if the data set has weights of samples, for a trainer, named `name`, without them."""
    if dataset.train_weight is not None:
        raise RungError(f"{name} has no weights of samples, and {dataset.name} has some: leave them or {name} out")


def goals(net: Net, y: np.ndarray | None) -> np.ndarray | None:
    """Goals of samples from their labels or targets `y`: labels (samples,) int32, or targets (samples, outputs)
    float32; None if the net's input is its target.
    """
    return y if y is not None and (isinstance(net.loss, CrossEntropyLoss) or y.ndim == 2) else None


def check_samples(net: Net, x: np.ndarray) -> None:
    """Raise `DataError` if samples to predict, (n, ...), have another shape; every trainer's `predict` calls it."""
    if x.shape[1:] != net.in_shape:
        raise DataError(f"net {net.name!r} takes samples of shape {net.in_shape}, got {x.shape[1:]}")


def not_loaded(net: Net) -> DataError:
    """Error for a trainer's `run` before its `load`."""
    return DataError(f"net {net.name!r} has nothing to train on: call load(dataset) before run")


def check_range(config: TrainConfig, order: Order, samples: int, first: int, last: int) -> None:
    """Raise `ConfigError` if a range of steps does not exist in the epoch; every trainer's `run` calls it."""
    if order.n != samples:
        raise ConfigError(f"the order is over {order.n} samples, the training set has {samples}")
    if not 0 <= first <= last <= config.steps(samples):
        raise ConfigError(f"steps {first}..{last} are outside an epoch of {config.steps(samples)}")
