"""Schedules of the learning rate: constant, step decay and cosine, each with a linear warm-up, and one cycle."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from ..errors import ConfigError
from ..errors.arguments import ByName, shown

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Schedule(metaclass=ByName):
    """Schedule and its settings, times in epochs; the rate of each step is computed on the host in float64.

    warmup : epochs of a linear rise of the rate, from one step's share to the optimizer's rate; 0 for none.
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
                raise ConfigError(f"{field.name} wants a finite number of at least 0, got {shown(value)}")
        self.check()

    def check(self) -> None:
        """Raise `ConfigError` if settings are invalid. Numbers have been checked: finite and at least 0."""

    @property
    def steady(self) -> bool:
        """True if the rate is equal at every step."""
        return False

    @property
    def by_epochs(self) -> bool:
        """True if the rates depend on the number of epochs of the run."""
        return False

    def over(self, epochs: int) -> Schedule:
        """Schedule with the rates of a run of `epochs` epochs, for a run of any length."""
        return self

    def described(self) -> str:
        """Name, and settings that differ from their defaults: "cosine, least 0.001, warm-up 1 epoch"."""
        changed = [field.name for field in fields(self)[1:] if getattr(self, field.name) != field.default]
        settings = [f"{name} {getattr(self, name):g}" for name in changed]
        rising = [f"warm-up {self.warmup:g} epoch{'s' * (self.warmup != 1)}"] * bool(self.warmup)
        return ", ".join([type(self).__name__.lower(), *settings, *rising])

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        """Rates (steps,) after the warm-up. done : (steps,) epochs before each step; epochs : length of the run."""
        raise NotImplementedError(f"{type(self).__name__} lacks after_warmup()")

    def rates(self, rate: float, first: int, last: int, steps: int, epochs: int) -> np.ndarray:
        """Learning rates of the updates first..last-1.

        rate : learning rate of the optimizer.
        first, last : updates, counted from 0 over all epochs; later ones than the run's end have the rate of its end.
        steps : steps of an epoch.
        epochs : epochs of the run.
        Returns ndarray: (last - first,) float64.
        """
        import numpy as np

        at = np.arange(first, last, dtype=np.float64)
        done = np.minimum(at / max(1, steps), float(epochs)) if self.by_epochs else at / max(1, steps)
        out = np.asarray(self.after_warmup(rate, done, float(epochs)), np.float64)
        rising = self.warmup * steps
        return np.where(at + 1 < rising, rate * (at + 1) / max(rising, 1.0), out)


@dataclass(frozen=True)
class Constant(Schedule):
    """Schedule with the optimizer's learning rate at every step."""

    @property
    def steady(self) -> bool:
        return self.warmup == 0

    def after_warmup(self, rate: float, done: np.ndarray, epochs: float) -> np.ndarray:
        import numpy as np

        return np.full(len(done), rate)

    def rates(self, rate: float, first: int, last: int, steps: int, epochs: int) -> np.ndarray:
        import numpy as np

        return np.full(last - first, float(rate)) if self.steady else super().rates(rate, first, last, steps, epochs)


@dataclass(frozen=True)
class StepDecay(Schedule):
    """Schedule whose rate is multiplied by `gamma` every `every` epochs, as by `torch.optim.lr_scheduler.StepLR`.

    Parameters
    ----------
    every : float
        Epochs between two multiplications, above 0.
    gamma : float
        Factor of the rate.
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
    """Schedule whose rate falls along half a cosine to `least`, as by `torch.optim.lr_scheduler.CosineAnnealingLR`, but
    at each step.

    Parameters
    ----------
    least : float
        Rate at the end.
    epochs : float or None
        Epoch of the end; None for the end of the run.
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


@dataclass(frozen=True)
class OneCycle(Schedule):
    """Schedule whose rate rises along half a cosine to the optimizer's rate, then falls along half a cosine, as by
    `torch.optim.lr_scheduler.OneCycleLR` with `cycle_momentum=False`; the optimizer's rate is its `max_lr`.

    Parameters
    ----------
    pct_start : float
        Share of the steps in which the rate rises, above 0 and below 1.
    div_factor : float
        Optimizer's rate divided by the rate of the first step.
    final_div_factor : float
        Rate of the first step divided by the rate of the last.
    epochs : float or None
        Length of the cycle; None for the length of the run.
    """

    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4
    epochs: float | None = None

    def check(self) -> None:
        if self.warmup:
            raise ConfigError("OneCycle has a rise of its own: leave warmup out and set pct_start")
        if not 0 < self.pct_start < 1:
            raise ConfigError(f"pct_start wants a number between 0 and 1, got {self.pct_start:g}")
        if not (self.div_factor and self.final_div_factor):
            raise ConfigError("div_factor and final_div_factor want a number above 0, got 0")

    @property
    def by_epochs(self) -> bool:
        return self.epochs is None

    def over(self, epochs: int) -> Schedule:
        return replace(self, epochs=float(epochs)) if self.by_epochs else self

    def rates(self, rate: float, first: int, last: int, steps: int, epochs: int) -> np.ndarray:
        import numpy as np

        total = max(1.0, (epochs if self.epochs is None else self.epochs) * steps)
        top, end = self.pct_start * total - 1, total - 1  # numbers of the steps, from 0, of the highest and last rate
        at = np.minimum(np.arange(first, last, dtype=np.float64), end)
        low = rate / self.div_factor
        rising = _half_cosine(low, rate, at / top) if top > 0 else np.full(len(at), rate)
        falling = _half_cosine(rate, low / self.final_div_factor, (at - top) / max(end - top, 1e-9))
        return np.where(at <= top, rising, falling)


def _half_cosine(start: float, end: float, share: np.ndarray) -> np.ndarray:
    """Half a cosine from start, at a share of 0, to end, at a share of 1."""
    import numpy as np

    return end + (start - end) / 2 * (1 + np.cos(np.pi * share))
