"""The command that repeats a climb which was started from Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from ..config import RECIPES, TrainConfig
from ..config.spelling import OWN, changes, write
from ..ladder import outside
from ..nets import is_named
from ..optimizers import Optimizer
from ..optimizers.schedules import Schedule
from ..rungs.base import Rung
from .task import Task, outsiders

#: Training samples of the data sets that have a name: of a part of one, its arrays do not say how it was chosen.
WHOLE = {"digits": 1437, "mnist": 60_000, "fashion": 60_000, "cifar10": 50_000}


def again(task: Task, rungs: Sequence[Rung], *, quick: bool = False, standardize: bool = False) -> str:
    """A command that repeats the climb, or an empty text where none can: data, rungs, layers or an optimizer that are
    the program's own have no name.

    standardize : whether the task's data were standardised for the climb.
    """
    stored = standardize or task.data.train_x.dtype == np.uint8  # all data sets that have a name are bytes
    foreign = bool(outsiders(task.net, task.config)) or any(map(outside, rungs))
    if WHOLE.get(task.data.name) != task.n or not stored or foreign:
        return ""
    names = [rung.name for rung in rungs]
    recipe = RECIPES.get(task.net.name)
    clipped = (
        recipe is not None and recipe.clip_value is not None and task.config.clip_value is None
    )  # no option unsets it
    if recipe is None or clipped or not is_named(task.net):
        return shlex.join(("python", "-c", _program(task, names, quick, standardize)))
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
    return shlex.join([*words, *_settings(task.config, recipe)])


def _settings(config: TrainConfig, recipe: TrainConfig) -> list[str]:
    """The options for what differs from the net's recipe; epochs apart."""
    words = []
    for name in (field.name for field in fields(TrainConfig) if field.name != "epochs"):
        value = getattr(config, name)
        if value == getattr(recipe, name):
            continue
        option = name.replace("_", "-")
        if name in ("optimizer", "schedule"):
            words += _changed(option, value, getattr(recipe, name))
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
    """The options for an optimizer or a schedule that is not the recipe's."""
    if type(thing) is not type(base):
        return [f"--{option}", write(thing)]
    told = changes(thing, base)
    words = []
    for name in OWN:
        if option == "optimizer" and name in told:
            value = told.pop(name)
            flag = name.replace("_", "-")
            words += (
                [f"--{flag}" if value == "yes" else f"--no-{flag}"] if value in ("yes", "no") else [f"--{flag}", value]
            )
    more = ":".join([type(thing).__name__.lower(), *(f"{name}={value}" for name, value in told.items())])
    return [*words, *([f"--{option}", more] if told else [])]


def _program(task: Task, names: list[str], quick: bool, standardize: bool) -> str:
    net = task.net
    layers = "".join(f"wl.{layer!r}, " for layer in net.layers)
    settings = ", ".join(
        f"{field.name}={'wl.' * (field.name in ('optimizer', 'schedule'))}{getattr(task.config, field.name)!r}"
        for field in fields(TrainConfig)
        if getattr(task.config, field.name) != getattr(TrainConfig(), field.name)
    )
    loaded = ", standardize=True" if standardize else ""
    how = f"epochs={task.epochs}, repeats={task.repeats}, budget={task.budget!r}, quick={quick}"
    return (
        f"import warpladder as wl; net = wl.Net({net.name!r}, {net.in_shape!r}, ({layers}), wl.{type(net.loss).__name__}()); "
        f"rungs = [wl.ladder.find(name) for name in {names!r}]; data = wl.data.load({task.data.name!r}{loaded}); "
        f"results = wl.climb(net, data, wl.TrainConfig({settings}), rungs, {how}); results.save('results.json')"
    )
