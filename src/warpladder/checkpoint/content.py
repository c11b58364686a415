"""What a checkpoint holds: where a run stands, and everything that the rest of it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..config import TrainConfig
from ..nets import Net, Shape
from .plan import NetPlan


@dataclass(frozen=True)
class Score:
    """How well a net does on a set of samples.

    loss : mean over the samples (MSELoss: and over all elements), computed in float64.
    accuracy : share of the samples whose largest logit is their label's, 0 to 1; None with MSELoss.
    """

    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class EpochLog:
    """A finished epoch.

    epoch : counts from 1.
    train_loss, train_accuracy : sample-weighted means over the epoch's batches, each taken before its update; None
    where `loss_every` leaves the epoch out.
    valid_loss, valid_accuracy : of the validation part after the epoch; None without one.
    seconds : wall time spent in the epoch's training steps; scoring and checkpoints are left out.

    Accuracies are shares from 0 to 1, and None with MSELoss.
    """

    epoch: int
    train_loss: float | None
    train_accuracy: float | None
    valid_loss: float | None
    valid_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class Sums:
    """An unfinished epoch so far: sums over its samples, and the seconds spent in its steps.

    The loss is summed step by step, so that the result does not depend on how the steps were grouped. Loss and correct
    are None in an epoch without them.
    """

    loss: float | None = 0.0
    correct: int | None = 0
    samples: int = 0
    seconds: float = 0.0

    def plus(self, loss: np.ndarray, correct: np.ndarray, size: np.ndarray, seconds: float) -> Sums:
        """With more steps: each batch's mean loss, correct samples and size, (steps,) each."""
        total = 0.0 if self.loss is None else self.loss
        for batch_loss, batch_size in zip(loss.tolist(), size.tolist(), strict=True):
            total += batch_loss * batch_size
        return Sums(
            total, (self.correct or 0) + int(correct.sum()), self.samples + int(size.sum()), self.seconds + seconds
        )

    def plus_without_loss(self, size: np.ndarray, seconds: float) -> Sums:
        """With more steps whose losses were not computed, of batches of these sizes, (steps,)."""
        return Sums(None, None, self.samples + int(size.sum()), self.seconds + seconds)


@dataclass(frozen=True)
class DataMark:
    """Tells one data set from another.

    name : the data set's.
    samples : in the training part.
    scale : what pixels are multiplied by.
    parts : of each part there is ("train_x", ...): type, shape and CRC-32 of its bytes.
    class_names : what label 0, 1, ... is called; empty where labels are numbers.
    mean, std : of the training part, for each feature or channel, where samples were standardised with them; empty
    otherwise.
    """

    name: str
    samples: int
    scale: float
    parts: Mapping[str, str]
    class_names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run at a moment between two steps.

    net, config, data, rung
        What is trained, how, on what, and by which rung.
    epoch : int
        Finished epochs.
    step : int
        Finished steps of the next epoch. All of them may be finished while the epoch is not: then its validation is
        still to come.
    sums : Sums
        Over these steps.
    history : tuple of EpochLog
        The finished epochs.
    finished : bool
        Nothing is left to do; `test` is known.
    test : Score or None
        None before the end, or without a labelled test part.
    params : dict
        Arrays under PyTorch's `state_dict` names: float32, or float64 of a run in fp64.
    slots : dict of dicts
        The same for each array that the optimizer keeps beside the parameters, by `Optimizer.slots`; those that are not
        there are zeros.
    updates : int
        Updates that had been made before this run's first: those of a PyTorch optimizer from which the slots come. 0
        for a run.
    tuned : NetPlan or None
        What the rung's tuner chose, so that the rest of the run is computed as its beginning; None where nothing is
        chosen.
    """

    net: Net
    config: TrainConfig
    data: DataMark
    rung: str
    params: Mapping[str, np.ndarray]
    slots: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    epoch: int = 0
    step: int = 0
    sums: Sums = Sums()
    history: tuple[EpochLog, ...] = ()
    finished: bool = False
    test: Score | None = None
    tuned: NetPlan | None = None
    updates: int = 0

    @property
    def element(self) -> str:
        """NumPy's name of the type of parameters and slots: "float32", or "float64" of a run in fp64."""
        return "float64" if any(array.dtype == np.float64 for array in self.params.values()) else "float32"

    @property
    def made(self) -> int:
        """Updates that were made in all."""
        return self.updates + (self.epoch * self.config.steps(self.data.samples) if self.epoch else 0) + self.step


def param_shapes(net: Net) -> dict[str, Shape]:
    """The shape of every parameter tensor under its name in PyTorch's `state_dict`, in order."""
    return {
        f"{index}.{kind}": shape
        for index, layer in enumerate(net.layers)
        for kind, shape in layer.param_shapes(net.shapes[index]).items()
    }
