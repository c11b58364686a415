"""Command that repeats a climb which was begun from Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from ..config import TrainConfig, initial_for, recipe
from ..config.spelling import OWN, changes, write
from ..ladder import outside
from ..nets import is_named
from ..optimizers import Optimizer
from ..optimizers.schedules import Schedule
from ..rungs.base import Rung
from .task import ClimbTask, outsiders

#: Training samples of the data sets with a name. The arrays of a part do not show how it was chosen.
WHOLE = {"digits": 1437, "mnist": 60_000, "fashion": 60_000, "cifar10": 50_000}


def repeat_command(task: ClimbTask, rungs: Sequence[Rung], *, quick: bool = False, standardize: bool = False) -> str:
    """Command that repeats the climb; empty if data, rungs, net or optimizer are from the user's program.

    standardize : True if the task's data were standardised for the climb.
    """
    stored = standardize or task.data.train_x.dtype == np.uint8  # all named data sets are bytes
    foreign = bool(outsiders(task.net, task.config)) or any(map(outside, rungs))
    shape = task.net.in_shape
    defaults = recipe(task.net.name, task.data.name, shape).but(initial=task.config.initial and initial_for(shape))
    is_unclipped = (
        defaults.clip_value is not None and task.config.clip_value is task.config.clip_norm is None
    )  # no option unsets it
    if WHOLE.get(task.data.name) != task.n or not stored or foreign or is_unclipped or not is_named(task.net):
        return ""
    names = [rung.name for rung in rungs]
    words = ["warpladder", "climb", task.net.name, "--data", task.data.name, "--rungs", ",".join(names)]
    words += [
        "--repeats",
        str(task.repeats),
        "--budget",
        f"{task.budget:g}",
        "--epochs",
        str(task.epochs),
        *["--quick"] * quick,
        *["--scale-features"] * standardize,
    ]
    return shlex.join([*words, *_settings(task.config, defaults)])


def _settings(config: TrainConfig, defaults: TrainConfig) -> list[str]:
    """Command options for settings that differ from the net's recipe, without epochs."""
    words = []
    for name in (field.name for field in fields(TrainConfig) if field.name != "epochs"):
        value = getattr(config, name)
        if value == getattr(defaults, name):
            continue
        option = name.replace("_", "-")
        if name in ("optimizer", "schedule"):
            words += _changed(option, value, getattr(defaults, name))
            continue
        if name == "drop_last":
            words.append("--drop-last" if value else "--keep-last")
        elif isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{option}")
        elif name == "batch_size":
            words += ["--batch-size", "full" if value is None else str(value)]
        elif value is not None:
            words += [f"--{option}", str(value)]
    return words


def _changed(option: str, thing: Optimizer | Schedule, base: Optimizer | Schedule) -> list[str]:
    """Command options for an optimizer or a schedule that differs from the recipe's."""
    if type(thing) is not type(base):
        return [f"--{option}", write(thing)]
    left = changes(thing, base)
    words = []
    for name in OWN:
        if option == "optimizer" and name in left:
            value = left.pop(name)
            flag = name.replace("_", "-")
            words += (
                [f"--{flag}" if value == "yes" else f"--no-{flag}"] if value in ("yes", "no") else [f"--{flag}", value]
            )
    more = ":".join([type(thing).__name__.lower(), *(f"{name}={value}" for name, value in left.items())])
    return [*words, *([f"--{option}", more] if left else [])]
