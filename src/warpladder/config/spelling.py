"""Text form of optimizers, schedules and losses, in the grammar of rungs: "adam:betas=0.9+0.99:eps=1e-7", "l1"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from ..errors import ConfigError
from ..errors.arguments import meant, shown
from ..nets import LOSSES, BCEWithLogitsLoss, Loss
from ..nets.describe import made_loss
from ..optimizers import Optimizer
from ..optimizers.schedules import Schedule
from . import TrainConfig, check_names, named

Kind = TypeVar("Kind", Optimizer, Schedule)

#: Former names of schedules that are still read.
FORMER = {"step": "stepdecay"}

#: Settings of optimizers with their own command-line option.
OWN = ("learning_rate", "momentum", "nesterov", "weight_decay")

_WORDS = {"yes": True, "no": False, "true": True, "false": False, "none": None}


def read(kind: type[Kind], text: str, base: Kind, settings: Mapping[str, Any] | None = None) -> Kind:
    """Optimizer or schedule named by a text.

    Parameters
    ----------
    kind : type
        `Optimizer` or `Schedule`.
    text : str
        Name of its class, in any case, then settings: "sgd:momentum=0.9:nesterov=yes". A pair has a + between its
        numbers.
    base : Optimizer or Schedule
        Source of the other settings, if it is of the same class.
    settings : mapping, optional
        Further settings, as values.

    Raises
    ------
    ConfigError
        A name or setting is unknown, a setting is given twice, or a value is impossible.

    Examples
    --------
    >>> read(Optimizer, "adam:betas=0.9+0.99", SGD())
    Adam(learning_rate=0.001, betas=(0.9, 0.99), eps=1e-08, weight_decay=0.0)
    """
    name, *parts = text.strip().split(":")
    what = kind.__name__.lower()
    form = "adam:betas=0.9+0.99:eps=1e-7" if kind is Optimizer else "cosine:warmup=1:least=1e-5"
    there: Mapping[str, type[Kind]] = kind.known
    found = there.get(FORMER.get(name.lower(), name.lower()))
    if found is None:
        near = meant(name, there, 2, before="", after=" ")
        raise ConfigError(f"there is no {what} {shown(name)}: {near}there are {', '.join(sorted(there))}")
    given = dict(settings or {})
    values = given | _settings(what, form, parts, given)
    if type(base) is not found:
        return named(kind, found.__name__, values)
    check_names(found, values)
    return replace(base, **values)


def _settings(what: str, form: str, parts: list[str], given: Iterable[str] = ()) -> dict[str, Any]:
    """Settings by name from texts like "delta=0.5". Raises `ConfigError` for one that occurs twice or is in `given`."""
    values: dict[str, Any] = {}
    for each in parts:
        setting, equals, value = each.partition("=")
        setting = setting.strip().replace("-", "_")
        if not equals or not value:
            raise ConfigError(f"settings of the {what} are written as in '{form}', got {shown(each)}")
        if setting in values or setting in given:
            raise ConfigError(f"{setting} of the {what} is given twice")
        values[setting] = _value(value.strip())
    return values


def read_loss(text: str) -> Loss:
    """Loss named by a text: "l1", "huber:delta=0.5", "cross_entropy:weight=1+2+5", "BCEWithLogitsLoss".

    Raises ConfigError: the loss or a setting is unknown, or its text is malformed.
    Raises NetError: a setting's value is impossible.
    """
    name, *parts = text.strip().split(":")
    short = {kind.removesuffix("Loss").lower(): kind for kind in LOSSES} | {"bce": BCEWithLogitsLoss.__name__}
    kind = short.get(name.replace("_", "").replace("-", "").lower().removesuffix("loss"))
    if kind is None:
        near = meant(name, short, 2, before="", after=" ")
        raise ConfigError(f"there is no loss {shown(name)}: {near}there are {', '.join(LOSSES)}")
    values = _settings("loss", "huber:delta=0.5", parts)
    if isinstance(values.get("weight"), float):
        values["weight"] = (values["weight"],)
    return made_loss(kind, values)


def configured(before: TrainConfig, requested: Mapping[str, Any]) -> TrainConfig:
    """Copy of settings with the requested ones replaced.

    requested : values by the names of `TrainConfig` and of `OWN`: batch_size may be "full", optimizer and schedule are
    texts for `read`.
    Raises ConfigError: a setting is unknown, or its value is impossible.
    """
    changes = dict(requested)
    if changes.get("batch_size") == "full":
        changes["batch_size"] = None
    if "optimizer" in changes:
        own = {name: changes.pop(name) for name in OWN if name in changes}
        changes["optimizer"] = read(Optimizer, changes["optimizer"], before.optimizer, own)
    if "schedule" in changes:
        changes["schedule"] = read(Schedule, changes["schedule"], before.schedule)
    return before.but(**changes)


def write(thing: Optimizer | Schedule) -> str:
    """Text of an optimizer, schedule or loss for `read`, without settings that have their class's default."""
    changed = [
        f"{field.name}={_text(getattr(thing, field.name))}"
        for field in fields(thing)
        if getattr(thing, field.name) != field.default
    ]
    return ":".join([type(thing).__name__.lower(), *changed])


def changes(thing: Optimizer | Schedule, base: Optimizer | Schedule) -> dict[str, str]:
    """Settings, as text, that differ from those of another object of the class, by name."""
    names: Iterable[str] = (field.name for field in fields(thing))
    return {name: _text(getattr(thing, name)) for name in names if getattr(thing, name) != getattr(base, name)}


def _value(text: str) -> Any:
    """Value of a setting's text: a number, a pair of numbers, yes, no or none; else the text, which the setting's
    check refuses.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return float(text)
    except ValueError:
        pass
    parts = text.split("+")
    try:
        return tuple(map(float, parts)) if len(parts) > 1 else text
    except ValueError:
        return text


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return "+".join(map(repr, value)) if isinstance(value, tuple) else repr(value)
