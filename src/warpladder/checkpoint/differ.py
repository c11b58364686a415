"""Differences between a checkpoint and a run that prevent the run from continuing it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..config import TrainConfig
from ..data.labels import ClassValue
from ..errors import NetError
from ..errors.arguments import listed, shown
from ..nets import Net, hidden_option, hidden_widths, with_hidden
from .content import Checkpoint, DataMark

#: Settings that may change when a run continues: they set its length, not its steps.
FREE = ("epochs", "log_every", "early_stopping")


def differences(checkpoint: Checkpoint, net: Net, config: TrainConfig, data: DataMark) -> list[str]:
    """Phrases for the differences between a checkpoint and a run, without names of net and data; empty if it can
    continue.
    """
    return [
        *_net(checkpoint.net, net),
        *_config(checkpoint.config, config, checkpoint.epoch, checkpoint.step),
        *_data(checkpoint.data, data),
    ]


def _net(there: Net, here: Net) -> list[str]:
    out = []
    if there.in_shape != here.in_shape:
        out.append(f"the net takes {there.in_shape} there and {here.in_shape} here")
    for index, (a, b) in enumerate(zip(there.layers, here.layers, strict=False)):
        if a != b:
            out.append(f"layer {index} is {shown(a)} there and {b} here")
            break
    if not out and len(there.layers) != len(here.layers):
        out.append(f"the net has {len(there.layers)} layers there and {len(here.layers)} here")
    if out and _differ_in_widths(there, here):
        out[-1] += f" (here it needs {hidden_option(there)})"
    if there.loss != here.loss:
        out.append(f"the loss is {type(there.loss).__name__} there and {type(here.loss).__name__} here")
    return out


def _differ_in_widths(there: Net, here: Net) -> bool:
    """True if `with_hidden` can make one net's layers from the other's."""
    widths = hidden_widths(there)
    if not widths or there.in_shape != here.in_shape:
        return False
    try:
        return with_hidden(here, widths).layers == there.layers
    except NetError:
        return False


def _config(there: TrainConfig, here: TrainConfig, epoch: int, step: int) -> list[str]:
    names = [field.name for field in fields(TrainConfig) if field.name not in (*FREE, "optimizer", "schedule")]
    out = [*_fields(there.optimizer, here.optimizer, "the optimizer"), *_schedule(there, here)]
    out += [
        f"{name} is {getattr(there, name)} there and {getattr(here, name)} here"
        for name in names
        if getattr(there, name) != getattr(here, name)
    ]
    if (there.early_stopping is None) != (here.early_stopping is None):
        out.append(f"early_stopping is {there.early_stopping} there and {here.early_stopping} here")
    if epoch + (step > 0) > here.epochs:
        out.append(f"it is in epoch {epoch + (step > 0)} there and epochs is {here.epochs} here")
    return out


def _schedule(there: TrainConfig, here: TrainConfig) -> list[str]:
    """Phrases for the differences of two learning-rate schedules. A schedule that ends with the run depends on its
    length.
    """
    a, b = there.schedule, here.schedule
    if a == b and a.by_epochs and there.epochs != here.epochs:
        end, fixed = there.epochs, a.over(there.epochs)
        remedy = (
            ""
            if fixed == a
            else f": {fixed!r}, or --schedule {type(a).__name__.lower()}:epochs={end}, goes on with its last rate"
        )
        return [f"the schedule, {a.described()}, ends after {end} epochs there and {here.epochs} here{remedy}"]
    return _fields(a.over(there.epochs), b.over(here.epochs), "the schedule")


def _fields(a: Any, b: Any, what: str) -> list[str]:
    """Phrases for the differences of two dataclasses: in class, or in some fields."""
    if type(a) is not type(b):
        return [f"{what} is {type(a).__name__} there and {type(b).__name__} here"]
    names = [field.name for field in fields(a) if getattr(a, field.name) != getattr(b, field.name)]
    return [f"{name} is {getattr(a, name)} there and {getattr(b, name)} here" for name in names]


def _data(there: DataMark, here: DataMark) -> list[str]:
    if there.samples != here.samples:
        return [
            f"the training set has {there.samples} samples there ({there.name!r}) "
            f"and {here.samples} here ({here.name!r})"
        ]
    out = []
    if there.scale != here.scale:
        out.append(f"pixels are scaled by {there.scale} there and {here.scale} here")
    if there.class_names != here.class_names:
        out.append(f"classes are {_short(there.class_names)} there and {_short(here.class_names)} here")
    if (there.mean, there.std) != (here.mean, here.std):
        forms = ["standardised by other numbers" if mark.mean else "not standardised" for mark in (there, here)]
        out.append(f"samples are {forms[0]} there and {forms[1]} here")
    if there.table != here.table:
        out.append("columns of the table are encoded by other numbers there and here")
    for part in dict.fromkeys([*there.parts, *here.parts]):
        a, b = there.parts.get(part, "missing"), here.parts.get(part, "missing")
        if a != b:
            out.append(f"{part} is {shown(a)} there ({there.name!r}) and {shown(b)} here ({here.name!r})")
            break
    return out


def _short(names: tuple[ClassValue, ...]) -> str:
    return repr(listed(names)) if names else "numbers"
