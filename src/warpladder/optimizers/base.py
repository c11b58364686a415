"""`Optimizer`: what every optimizer says of itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from ..errors import ConfigError
from ..errors.arguments import ByName

if TYPE_CHECKING:
    import numpy as np

NUMBERS = 8  # that a step is made with, at most: a row of them lies in the device's memory for each step of an epoch

# updates that `drawn` makes: as many that a gradient which is larger than theirs does not decide the next one alone
DRAWN = 8


@dataclass(frozen=True)
class Optimizer(metaclass=ByName):
    """An optimizer and its settings, under the names and with the meaning of `torch.optim`.

    A class derived from it is an optimizer that all of warpladder knows, by the name of the class. The folder in which
    the class is defined holds its step: `reference.py`, and any of `array.py`, `loops.py`, `step.cu` and `jax.py`; a
    rung for which there is none says so.

    Parameters
    ----------
    learning_rate : float
        At least 0. A schedule varies it from step to step.
    """

    by_place: ClassVar[tuple[str, ...] | None] = ("learning_rate",)
    known: ClassVar[dict[str, type[Optimizer]]] = {}
    #: Roundings on the longest way from a gradient to a parameter: what an update's bound counts. One's own optimizer
    #: has Adam's, if it does not say.
    roundings: ClassVar[int] = 24
    learning_rate: float

    def __init_subclass__(cls) -> None:
        Optimizer.known[cls.__name__.lower()] = cls

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "float":
                if (
                    isinstance(value, bool)
                    or not isinstance(value, (int, float))
                    or not (math.isfinite(value) and value >= 0)
                ):
                    raise ConfigError(f"{field.name} wants a finite number of at least 0, got {value!r:.40}")
            elif field.type == "bool" and not isinstance(value, bool):
                raise ConfigError(f"{field.name} wants True or False, got {value!r:.40}")
        self.check()

    def check(self) -> None:
        """Raise `ConfigError` where settings do not go together; numbers are finite and not below 0 already."""

    @property
    def name(self) -> str:
        """The class's name in small letters: what the command line and the kernels of step.cu, `sgd_step`, call it."""
        return type(self).__name__.lower()

    def described(self) -> str:
        """Name, learning rate, and whatever else is not as it is when nothing is said: "SGD 0.1, momentum 0.9"."""
        more = []
        for field in fields(self)[1:]:
            value, words = getattr(self, field.name), field.name.replace("_", " ")
            if value != field.default:
                told = " ".join(f"{each:g}" for each in value) if isinstance(value, tuple) else f"{value:g}"
                more.append(words if value is True else f"{words} {told}")
        return ", ".join([f"{type(self).__name__} {self.learning_rate:g}", *more])

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the arrays that it keeps beside the parameters, each of their shape, at most two; `torch.optim`'s
        names. They begin at zero.
        """
        return ()

    @property
    def steady(self) -> bool:
        """Whether `numbers` are the same at every step while the rate is."""
        return True

    @property
    def stores(self) -> int:
        """Roundings of a size like a parameter's own that honest code makes in a step: one where the sum is stored,
        more where it is made in parts.
        """
        return 1

    def drawn(self, rng: np.random.Generator, params: np.ndarray, gradient: np.ndarray) -> dict[str, np.ndarray]:
        """Slots of a tensor as they stand after a few updates: what a proof begins a step from, since from zero it may
        look the same with and without them.

        The gradients of these updates are of either sign and alike in size within a factor of 2, so that means of
        squares are within one of 4: whatever divides by their roots then makes no more of one element's rounding errors
        than of another's.

        Parameters
        ----------
        rng : numpy.random.Generator
        params, gradient : (count,) float64
            Of the tensor; the updates' gradients are of this one's root mean square.

        Returns
        -------
        dict
            (count,) float64 for each of `slots`, by name.
        """
        step, count, size = self.form("reference").step, len(gradient), math.sqrt((gradient**2).mean())
        slots = dict.fromkeys(self.slots, 0.0 * params)
        for number in range(1, DRAWN + 1):
            drawn = size * rng.uniform(0.7, 1.4, count) * rng.choice((-1.0, 1.0), count)
            _, slots = step(params, drawn, slots, self, 0.0, number)
        return slots

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """What consecutive steps are made with, computed once on the host.

        Parameters
        ----------
        rates : (steps,) float64
            The learning rate of each step.
        first : int
            Updates that were made before the first of them.

        Returns
        -------
        ndarray
            (steps, NUMBERS) float64; what the columns mean is the optimizer's own, the first is 0 where the rate is.
            Those that are not in use are 0.
        """
        raise NotImplementedError(f"{type(self).__name__} lacks numbers()")

    @classmethod
    def folder(cls) -> Path:
        """The folder in which the files of the optimizer's step stand."""
        file = import_module(cls.__module__).__file__
        assert file is not None
        return Path(file).parent

    @classmethod
    def form(cls, name: str) -> ModuleType:
        """A file of the optimizer's folder as a module: `form("reference")` is that of reference.py.

        Raises
        ------
        ConfigError
            The optimizer has no such file.
        """
        if told := cls.lacks(f"{name}.py"):
            raise ConfigError(told)
        return import_module(f".{name}", cls.__module__)

    @classmethod
    def lacks(cls, file: str) -> str | None:
        """A line where the optimizer's folder has no such file, as "step.cu"; None where it has."""
        if not hasattr(import_module(cls.__module__), "__path__"):
            place = f"{cls.__name__.lower()}/__init__.py"
            return f"optimizer {cls.__name__} stands alone in a file: put it into {place}, and {file} beside it, which says how it steps here"
        folder = cls.folder()
        if (folder / file).is_file():
            return None
        return f"optimizer {cls.__name__} has no {file} in its folder, {folder}, which says how it steps here"
