"""Checks of arguments: one sentence for a wrong type, position or name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import ArgumentError

P = ParamSpec("P")
T = TypeVar("T")


class ByName(type):
    """Metaclass of dataclasses whose settings are keyword-only, except those in their `by_place` (None: all may be
    positional).

    A wrong call raises `ArgumentError` with the right form. Scalars of NumPy become Python's numbers. Copies and
    pickles create objects without a call.
    """

    if not TYPE_CHECKING:  # type checkers read the dataclass

        @property
        def __signature__(cls) -> inspect.Signature:
            """Signature of `__init__`, for `help` and notebooks."""
            own = inspect.signature(cls.__init__)
            return own.replace(parameters=list(own.parameters.values())[1:])

        def __call__(cls, *places: Any, **settings: Any) -> Any:
            if not is_dataclass(cls):
                raise ArgumentError(
                    f"{cls.__name__} has no settings yet: put @dataclass(frozen=True) above class {cls.__name__}"
                )
            known = {field.name: field.default is MISSING for field in fields(cls)}
            needed = [name for name, must in known.items() if must]
            form = f"write {cls.__name__}({', '.join(f'{name}=...' for name in needed or list(known)[:1])})"
            by_place = tuple(known) if cls.by_place is None else cls.by_place
            if len(places) > len(by_place):
                given = ", ".join(
                    [
                        *(f"{shown(value)}" for value in places),
                        *(f"{name}={shown(value)}" for name, value in settings.items()),
                    ]
                )
                takes = f"takes {', '.join(known)} by name" if known else "has no settings"
                raise ArgumentError(f"{cls.__name__}({given}): {cls.__name__} {takes}{_inferred(known)}: {form}")
            takes = [*known, *getattr(cls, "short", ())]
            if beyond := [name for name in settings if name not in takes]:
                sizes = _inferred(known) if any(name.startswith("in_") for name in beyond) else ""
                more = sizes or meant(beyond[0], takes)
                raise ArgumentError(
                    f"{cls.__name__} has no {', '.join(beyond)}{more}; it has {', '.join(takes) or 'no settings'}"
                )
            if lacking := [name for name in needed if name not in settings and name not in by_place[: len(places)]]:
                raise ArgumentError(f"{cls.__name__} wants {' and '.join(lacking)}: {form}")
            return super().__call__(*map(plain, places), **{name: plain(value) for name, value in settings.items()})


def plain(value: Any) -> Any:
    """Python's number for a scalar of NumPy, as loops over arrays and `y.max() + 1` give them, also in a tuple or list;
    other values unchanged.
    """
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def _inferred(known: dict[str, bool]) -> str:
    return ", for input sizes are inferred" if any(name.startswith("out_") for name in known) else ""


#: Settings by the names that PyTorch, Keras and scikit-learn give them.
_ELSEWHERE = {
    "lr": "learning_rate", "learning_rate_init": "learning_rate", "n_epochs": "epochs", "num_epochs": "epochs",
    "max_iter": "epochs", "random_state": "seed", "alpha": "weight_decay", "epsilon": "eps", "patience":
    "early_stopping", "kernel": "kernel_size", "bs": "batch_size",
}  # fmt: skip


def meant(word: object, known: Iterable[str], most: int = 1, before: str = ": ", after: str = "") -> str:
    """Question "did you mean ...?" with the known names closest to an unknown one, in any case, or ""."""
    names = {str(name).lower(): name for name in known}
    lower = str(word).lower()
    other = _ELSEWHERE.get(lower)
    near = [other] if other in names else [names[each] for each in get_close_matches(lower, names, most, 0.65)]
    return f"{before}did you mean {' or '.join(map(repr, near))}?{after}" if near else ""


def wanted(name: str, value: Any, kind: type | tuple[type, ...], form: str) -> None:
    """Raise `ArgumentError` if an argument is of another type. form : description of the right argument."""
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} wants {form}, got {kind_of(value)}")


def wanted_path(value: Any, form: str) -> None:
    """Raise `ArgumentError` if the argument `path` names no file. form : description of the file."""
    wanted("path", value, (str, os.PathLike), f"the path of {form}")


def kind_of(value: Any) -> str:
    """Short text of a value: the value itself if it is short, else its type."""
    if isinstance(value, (str, int, float, type(None))):
        return shown(value)
    if isinstance(value, type):
        return f"the class {shown(value.__name__)}"
    return f"an object of type {shown(type(value).__name__)}"


#: Most letters of a value, and most names of a list, in a message.
LETTERS, NAMES = 120, 12


def shown(value: Any) -> str:
    """Text of a value for a message: whole, or the beginning of a long one with dots at its end."""
    text = repr(value)
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}..."


def listed(names: Iterable[Any]) -> str:
    """Names separated by commas; of many names the first ones, and the number of the others."""
    every = list(map(str, names))
    more = f" and {len(every) - NAMES:,} more" if len(every) > NAMES + 1 else ""
    return ", ".join(every[:NAMES] if more else every) + more


def called_by_name(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator of a public function: a call with unknown, missing or too many arguments raises `ArgumentError`, one
    sentence, instead of Python's TypeError.
    """
    signature = inspect.signature(function)
    takes = [name for name in signature.parameters if name not in ("self", "cls")]

    @wraps(function)
    def checked(*places: P.args, **names: P.kwargs) -> T:
        try:
            signature.bind(*places, **names)
        except TypeError as error:
            name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
            reason = str(error)
            if unknown := [each for each in names if each not in signature.parameters]:
                reason = (
                    f"{name} has no argument {listed(unknown)}{_SETTINGS.get(unknown[0]) or meant(unknown[0], takes)}"
                )
            elif reason.startswith("too many"):
                reason = f"{name} was given too many arguments by place: write their names"
            else:
                reason = f"{name}: {reason}"
            raise ArgumentError(f"{reason}; it takes {', '.join(takes)}") from None
        return function(*places, **names)

    return checked


#: Hints for arguments that belong to another function.
_SETTINGS = dict.fromkeys(
    ("epochs", "batch_size", "learning_rate", "lr", "seed", "optimizer", "schedule", "momentum", "shuffle"),
    ", which is a setting of wl.TrainConfig(...)",
) | {"device": ", for the rung decides: rung='graph' is a GPU's"}
