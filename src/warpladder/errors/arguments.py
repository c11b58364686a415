"""Checks of arguments: one sentence for a wrong type, position or name."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from . import ArgumentError


class ByName(type):
    """Metaclass of dataclasses whose settings are keyword-only, except those in their `by_place` (None: all may be
    positional).

    A wrong call raises `ArgumentError` with the right form. Copies and pickles make their objects without a call.
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
                        *(f"{value!r:.40}" for value in places),
                        *(f"{name}={value!r:.40}" for name, value in settings.items()),
                    ]
                )
                takes = f"takes {', '.join(known)} by name" if known else "has no settings"
                raise ArgumentError(f"{cls.__name__}({given}): {cls.__name__} {takes}{_inferred(known)}: {form}")
            takes = [*known, *getattr(cls, "short", ())]
            if beyond := [name for name in settings if name not in takes]:
                sizes = _inferred(known) if any(name.startswith("in_") for name in beyond) else ""
                raise ArgumentError(
                    f"{cls.__name__} has no {', '.join(beyond)}{sizes}; it has {', '.join(takes) or 'no settings'}"
                )
            if lacking := [name for name in needed if name not in settings and name not in by_place[: len(places)]]:
                raise ArgumentError(f"{cls.__name__} wants {' and '.join(lacking)}: {form}")
            return super().__call__(*places, **settings)


def _inferred(known: dict[str, bool]) -> str:
    return ", for input sizes are inferred" if any(name.startswith("out_") for name in known) else ""


def wanted(name: str, value: Any, kind: type | tuple[type, ...], form: str) -> None:
    """Raise `ArgumentError` if an argument is of another type. form : description of the right argument."""
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} wants {form}, got {kind_of(value)}")


def kind_of(value: Any) -> str:
    """Value in a few words: itself if it is short, else its type."""
    if isinstance(value, (str, int, float, type(None))):
        return f"{value!r:.40}"
    if isinstance(value, type):
        return f"the class {value.__name__!r:.60}"
    return f"an object of type {type(value).__name__!r:.60}"
