"""`Optimizer`: base class of the optimizers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from ..errors import ConfigError
from ..errors.arguments import ByName, shown

if TYPE_CHECKING:
    import numpy as np

#: Columns of the numbers of a step (`Optimizer.numbers`). The device's memory holds one row for each step of an epoch.
NUMBERS = 8

#: Updates of `drawn`: enough that one larger gradient does not decide the next update alone.
DRAWN = 8


@dataclass(frozen=True)
class Optimizer(metaclass=ByName):
    """Optimizer and its settings, with the names and meaning of `torch.optim`; learning_rate : at least 0, before a
    schedule's factor.

    warpladder knows a derived class by its name. The folder of the class holds its step: `reference.py`, and any of
    `array.py`, `loops.py`, `step.cu` and `jax.py`. A rung whose file is missing reports it.
    """

    by_place: ClassVar[tuple[str, ...] | None] = ("learning_rate",)
    known: ClassVar[dict[str, type[Optimizer]]] = {}
    #: Roundings on the longest path from a gradient to a parameter, for the bound of an update. The default is Adam's.
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
                    raise ConfigError(f"{field.name} wants a finite number of at least 0, got {shown(value)}")
            elif field.type == "bool" and not isinstance(value, bool):
                raise ConfigError(f"{field.name} wants True or False, got {shown(value)}")
        self.check()

    def check(self) -> None:
        """Raise `ConfigError` if settings contradict each other. Numbers have been checked: finite and at least 0."""

    @property
    def name(self) -> str:
        """Class name in lower case, as on the command line and in kernels of step.cu (`sgd_step`)."""
        return type(self).__name__.lower()

    def described(self) -> str:
        """Name, learning rate, and settings that differ from their defaults: "SGD 0.1, momentum 0.9"."""
        more = []
        for field in fields(self)[1:]:
            value, words = getattr(self, field.name), field.name.replace("_", " ")
            if value != field.default:
                text = " ".join(f"{each:g}" for each in value) if isinstance(value, tuple) else f"{value:g}"
                more.append(words if value is True else f"{words} {text}")
        return ", ".join([f"{type(self).__name__} {self.learning_rate:g}", *more])

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the optimizer's arrays, at most two, as in `torch.optim`: each shaped as the parameters, first 0."""
        return ()

    @property
    def steady(self) -> bool:
        """True if `numbers` are equal at every step with one rate."""
        return True

    @property
    def stores(self) -> int:
        """Number of roundings per step at the parameter's magnitude: one of the stored sum, more if it has several
        parts.
        """
        return 1

    def host_rounding(self, number: int) -> float:
        """Bound of the relative difference between two programs' update `number`, from 1, by the rounding of the
        numbers that a host computes in float64: for a proof's tolerances.
        """
        return 0.0

    def drawn(self, rng: np.random.Generator, params: np.ndarray, gradient: np.ndarray) -> dict[str, np.ndarray]:
        """Slots (count,) float64 of a tensor after a few random updates, by name: in a proof, zero slots may hide an
        error.

        The updates' gradients have the root mean square of `gradient` (count,), either sign and magnitudes within a
        factor of 2, so that a division by the root of their mean square magnifies all rounding errors equally.
        """
        step, count, size = self.form("reference").step, len(gradient), math.sqrt((gradient**2).mean())
        slots = dict.fromkeys(self.slots, 0.0 * params)
        for number in range(1, DRAWN + 1):
            drawn = size * rng.uniform(0.7, 1.4, count) * rng.choice((-1.0, 1.0), count)
            _, slots = step(params, drawn, slots, self, 0.0, number)
        return slots

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Numbers of consecutive steps, computed once on the host.

        rates : (steps,) float64; learning rate of each step.
        first : number of updates before the first of these steps.
        Returns ndarray: (steps, NUMBERS) float64. Each optimizer defines its columns; the first is 0 if the rate is 0,
        and unused ones are 0.
        """
        raise NotImplementedError(f"{type(self).__name__} lacks numbers()")

    @classmethod
    def folder(cls) -> Path:
        """Folder of the files of the optimizer's step."""
        file = import_module(cls.__module__).__file__
        assert file is not None
        return Path(file).parent

    @classmethod
    def form(cls, name: str) -> ModuleType:
        """Module of the optimizer's folder: `form("reference")` is reference.py. Raises `ConfigError` if missing."""
        return _form(cls, name)

    @classmethod
    def lacks(cls, file: str) -> str | None:
        """Reason why the optimizer's folder lacks a file, for instance "step.cu"; None if it has it."""
        if not hasattr(import_module(cls.__module__), "__path__"):
            place = f"{cls.__name__.lower()}/__init__.py"
            return (
                f"optimizer {cls.__name__} stands alone in a file: put it into {place}, and {file} next to it, "
                "which computes its step here"
            )
        folder = cls.folder()
        if (folder / file).is_file():
            return None
        return f"optimizer {cls.__name__} has no {file}, which computes its step here, in its folder {folder}"


@cache
def _form(kind: type[Optimizer], name: str) -> ModuleType:
    """Module of an optimizer's folder, found once: a proof asks for it in each of a thousand steps."""
    if reason := kind.lacks(f"{name}.py"):
        raise ConfigError(reason)
    return import_module(f".{name}", kind.__module__)
