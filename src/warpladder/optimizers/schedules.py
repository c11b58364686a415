"""Schedules: how the learning rate goes from step to step."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from ..errors import ConfigError
from ..errors.arguments import ByName

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Schedule(metaclass=ByName):
    """A schedule and its settings. Times are in epochs; the rate is worked out for each step, in float64 on the host.

    Parameters
    ----------
    warmup : float
        Epochs in which the rate rises in a straight line from one step's share to all of the optimizer's; 0 for none.
    """

    by_place: ClassVar[None] = None
    known: ClassVar[dict[str, type[Schedule]]] = {}
    warmup: float = 0.0

    def __init_subclass__(cls) -> None:
        Schedule.known[cls.__name__.lower()] = cls

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and "None" in str(field.type):
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not (math.isfinite(value) and value >= 0)
            ):
                raise ConfigError(f"{field.name} wants a finite number of at least 0, got {value!r:.40}")
        self.check()

    def check(self) -> None:
        """Raise `ConfigError` where settings make no sense; numbers are finite and not below 0 already."""

    @property
    def steady(self) -> bool:
        """Whether the rate is the same at every step."""
        return False

    @property
    def by_epochs(self) -> bool:
        """Whether the rates depend on how many epochs the run has."""
        return False

    def over(self, epochs: int) -> Schedule:
        """The schedule that has these rates in a run of any length; they are those of a run of this many epochs."""
        return self

    def described(self) -> str:
        """The schedule's name, and those of its settings that are not the defaults: "cosine, least 0.001, warm-up 1
        epoch".
        """
        changed = [field.name for field in fields(self)[1:] if getattr(self, field.name) != field.default]
        told = [f"{name} {getattr(self, name):g}" for name in changed]
        rising = [f"warm-up {self.warmup:g} epoch{'s' * (self.warmup != 1)}"] * bool(self.warmup)
        return ", ".join([type(self).__name__.lower(), *told, *rising])

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        """(steps,) rates behind the warm-up: of steps before which `done` (steps,) epochs are done, in a run of this
        many epochs.
        """
        raise NotImplementedError(f"{type(self).__name__} lacks after_warmup()")

    def rates(self, rate: float, first: int, last: int, steps: int, epochs: int) -> np.ndarray:
        """The learning rates of updates first..last-1.

        Parameters
        ----------
        rate : float
            The optimizer's.
        first, last : int
            Updates counted from 0, over all epochs; those beyond the run's end have the rate of its end.
        steps : int
            Of an epoch.
        epochs : int
            Of the run.

        Returns
        -------
        ndarray
            (last - first,) float64.
        """
        import numpy as np

        at = np.arange(first, last, dtype=np.float64)
        done = np.minimum(at / max(1, steps), float(epochs)) if self.by_epochs else at / max(1, steps)
        out = np.asarray(self.after_warmup(rate, done, float(epochs)), np.float64)
        rising = self.warmup * steps
        return np.where(at + 1 < rising, rate * (at + 1) / max(rising, 1.0), out)


@dataclass(frozen=True)
class Constant(Schedule):
    """The optimizer's learning rate at every step."""

    @property
    def steady(self) -> bool:
        return self.warmup == 0

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        import numpy as np

        return np.full(len(done), rate)


@dataclass(frozen=True)
class StepDecay(Schedule):
    """The rate is multiplied by `gamma` every `every` epochs, as `torch.optim.lr_scheduler.StepLR` does.

    Parameters
    ----------
    every : float
        Epochs between two falls, above 0.
    gamma : float
        What the rate is multiplied by.
    """

    every: float = 10.0
    gamma: float = 0.1

    def check(self) -> None:
        if not self.every:
            raise ConfigError("every wants a number of epochs above 0, got 0")

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        import numpy as np

        return rate * self.gamma ** np.floor(done / self.every)


@dataclass(frozen=True)
class Cosine(Schedule):
    """The rate falls along half a cosine to `least`, as `torch.optim.lr_scheduler.CosineAnnealingLR` has it, worked out
    for each step.

    Parameters
    ----------
    least : float
        The rate at the end.
    epochs : float or None
        Where the end is; None for the end of the run.
    """

    least: float = 0.0
    epochs: float | None = None

    @property
    def by_epochs(self) -> bool:
        return self.epochs is None

    def over(self, epochs: int) -> Schedule:
        return replace(self, epochs=float(epochs)) if self.by_epochs else self

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        import numpy as np

        end = epochs if self.epochs is None else self.epochs
        share = np.clip((done - self.warmup) / max(end - self.warmup, 1e-9), 0.0, 1.0)
        return self.least + (rate - self.least) * (1 + np.cos(np.pi * share)) / 2
