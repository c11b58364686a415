"""`Checkpoint`: the state of a run between two steps, with everything needed to continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..config import TrainConfig
from ..data.labels import ClassValue
from ..data.tables.encoding import TableEncoding
from ..nets import Net, Shape
from ..show import number, percent
from .plan import NetPlan


@dataclass(frozen=True)
class Score:
    """Loss and accuracy of a net on a set of samples.

    loss : mean over the samples (MSELoss: and over all elements), computed in float64.
    accuracy : share, 0 to 1, of the samples with the largest logit at their label; None with MSELoss.
    r2, mae : coefficient of determination and mean absolute error, in the targets' units; None without targets.
    """

    loss: float
    accuracy: float | None
    r2: float | None = None
    mae: float | None = None

    def described(self) -> str:
        """Figures as text: loss 0.131, R2 0.8723, MAE 50446."""
        found = [f"loss {number(self.loss)}"]
        found += [] if self.accuracy is None else [f"accuracy {percent(self.accuracy)}"]
        found += [
            f"{name} {number(value)}" for name, value in (("R2", self.r2), ("MAE", self.mae)) if value is not None
        ]
        return ", ".join(found)


@dataclass(frozen=True)
class EpochLog:
    """Log of a finished epoch.

    epoch : counts from 1.
    train_loss, train_accuracy : sample-weighted means over the epoch's batches, each computed before its update; None
    if `loss_every` skips the epoch.
    valid_loss, valid_accuracy : figures of the validation part after the epoch; None without one.
    seconds : wall time of the epoch's training steps, without scoring and checkpoints.

    Accuracies are shares from 0 to 1, and None with MSELoss.
    """

    epoch: int
    train_loss: float | None
    train_accuracy: float | None
    valid_loss: float | None
    valid_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class EpochSums:
    """Sums over the finished steps of an epoch: loss, correct samples, samples, seconds.

    The loss is summed step by step, for any grouping of steps. Loss and correct are None in an epoch without them.
    """

    loss: float | None = 0.0
    correct: int | None = 0
    samples: int = 0
    seconds: float = 0.0

    def plus(self, loss: np.ndarray, correct: np.ndarray, size: np.ndarray, seconds: float) -> EpochSums:
        """Sums with more steps added. loss, correct, size : mean loss, correct samples and size of each batch,
        (steps,).
        """
        total = 0.0 if self.loss is None else self.loss
        for batch_loss, batch_size in zip(loss.tolist(), size.tolist(), strict=True):
            total += batch_loss * batch_size
        return EpochSums(
            total, (self.correct or 0) + int(correct.sum()), self.samples + int(size.sum()), self.seconds + seconds
        )

    def plus_without_loss(self, size: np.ndarray, seconds: float) -> EpochSums:
        """Sums with more steps without losses added. size : size of each batch, (steps,)."""
        return EpochSums(None, None, self.samples + int(size.sum()), self.seconds + seconds)


@dataclass(frozen=True)
class DataMark:
    """Identity of a data set, stored in a checkpoint.

    samples : number of training samples. scale : factor of pixels.
    parts : type, shape and CRC-32 of each array ("train_x", ...).
    class_names : meanings of labels 0, 1, ...: names, numbers or bool; empty if labels mean themselves.
    mean, std : means and deviations of the training part, by feature or channel, if samples were standardised; else
    empty.
    table : encoding of a table's columns; None if samples are no rows of a table.
    columns : names of the features of samples that are rows of a data frame; else empty.
    """

    name: str
    samples: int
    scale: float
    parts: Mapping[str, str]
    class_names: tuple[ClassValue, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    table: TableEncoding | None = None
    columns: tuple[str, ...] = ()

    @property
    def has_targets(self) -> bool:
        """True if the data set has targets, which the net's outputs predict."""
        return self.parts.get("train_y", "").startswith("float32")

    def in_units(self, out: np.ndarray) -> np.ndarray:
        """Outputs of a net (samples, *out_shape) in the units of the table's targets."""
        return out if self.table is None else self.table.in_units(out)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State of a run between two steps, with everything needed to continue it.

    epoch : number of finished epochs. history : logs of the finished epochs.
    step : number of finished steps of the next epoch, `sums` over them; all may be finished and the validation missing.
    finished : True if the run has ended. test : score; None before the end, or without a labelled test part.
    params : arrays by their names in PyTorch's `state_dict`, with running means and variances: float32, or float64 for
    a run in fp64.
    slots : arrays of the optimizer by slot (`Optimizer.slots`) and parameter; missing ones are zeros.
    updates : number of updates before the run's first, made by the PyTorch optimizer of the slots; else 0.
    best : parameters after the epoch with the lowest validation loss, before the end of a run with early stopping.
    last : parameters after the last epoch, after the end of a run with early stopping; `params` are then the best ones.
    tuned : choices of the rung's tuner, used when the run continues; None if nothing is tuned.
    """

    net: Net
    config: TrainConfig
    data: DataMark
    rung: str
    params: Mapping[str, np.ndarray]
    slots: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    epoch: int = 0
    step: int = 0
    sums: EpochSums = EpochSums()
    history: tuple[EpochLog, ...] = ()
    finished: bool = False
    test: Score | None = None
    tuned: NetPlan | None = None
    updates: int = 0
    best: Mapping[str, np.ndarray] | None = None
    last: Mapping[str, np.ndarray] | None = None

    @property
    def best_epoch(self) -> int | None:
        """Epoch with the lowest validation loss, from 1, in a run with early stopping; else None."""
        return None if self.config.early_stopping is None else best_epoch(self.history)

    @property
    def is_over(self) -> bool:
        """True if no epoch is left to train: all are trained, or early stopping has ended the run."""
        return is_over(self.config, self.history)

    @property
    def element(self) -> str:
        """NumPy dtype of parameters and slots: "float32", or "float64" for a run in fp64."""
        return "float64" if any(array.dtype == np.float64 for array in self.params.values()) else "float32"

    @property
    def made(self) -> int:
        """Number of optimizer updates so far, with those before the run."""
        return self._until(self.epoch) + self.step

    @property
    def made_params(self) -> int:
        """Number of updates that made `params`: early stopping goes back to those of the best epoch."""
        best = self.best_epoch if self.last is not None else None
        return self.made if best is None else self._until(best)

    def _until(self, epoch: int) -> int:
        """Number of updates to the end of an epoch; 0 is the start of the run."""
        return self.updates + (epoch * self.config.steps(self.data.samples) if epoch else 0)


def best_epoch(history: Sequence[EpochLog]) -> int | None:
    """Epoch with the lowest validation loss, from 1, the first of equal ones; None without a validation loss."""
    losses = [(log.valid_loss, log.epoch) for log in history if log.valid_loss is not None]
    return min(losses)[1] if losses else None


def is_over(config: TrainConfig, history: Sequence[EpochLog]) -> bool:
    """True if a run with this history has no epoch left to train."""
    done, best = len(history), best_epoch(history)
    has_waited = config.early_stopping is not None and best is not None and done - best >= config.early_stopping
    return done >= config.epochs or has_waited


def param_shapes(net: Net) -> dict[str, Shape]:
    """Shape of every parameter tensor, by its name in PyTorch's `state_dict`, in order."""
    return {
        f"{net.names[index]}.{kind}": shape
        for index, layer in enumerate(net.layers)
        for kind, shape in layer.param_shapes(net.shapes[index]).items()
    }
