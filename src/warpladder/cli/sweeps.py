"""`climb --sweep`: rungs once for each value of an option, and tasks once for each value of what is trained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from ..config import TrainConfig
from ..config.spelling import OWN
from ..errors import RungError
from ..nets import Net, with_hidden
from .options import chosen_config, chosen_data, fitted

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..rungs.base import Rung

#: Settings of training that have an option of the command line, by which they can be swept.
SETTINGS = (*(field.name for field in fields(TrainConfig)), *OWN)

#: What else is trained: how many samples there are, and how wide a net's hidden layers.
BESIDES = ("limit", "hidden")

_YES = {"yes": True, "no": False}


@dataclass(frozen=True)
class Asked:
    """One task of a climb: what the sweeps changed, as "batch_size=32, limit=1000", empty without any; and what is
    trained then, on what, and how.
    """

    heading: str
    net: Net
    data: Dataset
    config: TrainConfig


def swept(rungs: list[Rung], sweeps: tuple[str, ...]) -> tuple[list[Rung], dict[str, list[str]]]:
    """Rungs once for each value of the options that they have among those to be swept, and the sweeps of what is
    trained: values by key.

    Raises
    ------
    click.UsageError
        A sweep is none, or a key is swept twice.
    RungError
        A key is neither an option of these rungs nor what is trained.
    """
    tasks: dict[str, list[str]] = {}
    seen = set()
    for sweep in sweeps:
        key, equals, told = sweep.partition("=")
        key, values = key.strip().replace("-", "_"), [value.strip() for value in told.split(",")]
        key = {"lr": "learning_rate"}.get(key, key)
        if not equals or not all(values):
            raise _usage(f"--sweep wants an option and its values, as block_size=128,256,512, got {sweep!r}")
        if key in seen:
            raise _usage(f"{key} is swept twice: write all its values in one --sweep")
        if twice := next((value for value in values if values.count(value) > 1), None):
            raise _usage(f"--sweep {sweep} has the value {twice} twice")
        seen.add(key)
        if any(rung.has(key) for rung in rungs):
            rungs = [
                variant for rung in rungs for variant in (_variants(rung, key, values) if rung.has(key) else [rung])
            ]
        elif key in (*SETTINGS, *BESIDES):
            tasks[key] = values
        else:
            known = ", ".join(dict.fromkeys(option for rung in rungs for option in rung.options.names()))
            raise RungError(
                f"none of these rungs has an option {key!r} to be swept; they have {known or 'none'}; what is trained can be swept by "
                f"{', '.join((*SETTINGS, *BESIDES))}"
            )
    return rungs, tasks


def _variants(rung: Rung, name: str, values: list[str]) -> list[Rung]:
    kind = next(kind for option, kind, _ in rung.options.known() if option == name)
    return [rung.but(**{name: kind.read(value)}) for value in values]


def tasks_of(sweeps: dict[str, list[str]], net_name: str, options: dict[str, Any]) -> list[Asked]:
    """What is to be trained for each combination of the values that are swept; one task where nothing is.

    Raises
    ------
    click.UsageError
        A value is none, or a key has an option beside its sweep.
    NetError, ConfigError, DataError
        A task cannot be.
    """
    for key in sweeps:
        if options.get(key) is not None:
            raise _usage(f"{key} has an option and a --sweep: leave one of them out")
    data: dict[object, Dataset] = {}
    out = []
    for chosen in product(*([(key, value) for value in values] for key, values in sweeps.items())):
        own = options | {key: _value(key, value) for key, value in chosen if key != "hidden"}
        subset = own.get("limit"), own.get("seed")
        if subset not in data:
            data[subset] = chosen_data(own)
        net = fitted(net_name, data[subset])
        for key, value in chosen:
            net = with_hidden(net, _whole(key, value)) if key == "hidden" else net
        out.append(
            Asked(", ".join(f"{key}={value}" for key, value in chosen), net, data[subset], chosen_config(net_name, own))
        )
    return out


def check_trained(rungs: Iterable[Rung], tasks: list[Asked]) -> None:
    """Raise `RungError` where a rung that was named can train none of the tasks here."""
    for rung in rungs:
        reasons = [rung.unsupported(task.net, task.config) for task in tasks]
        if all(reasons):
            raise RungError(f"{rung.name} cannot train {tasks[0].net.name} here: {reasons[0]}")


def _value(key: str, text: str) -> Any:
    """The value of a setting, read as its option of the command line reads it."""
    ctx = click.get_current_context()
    option = next(each for each in ctx.command.params if each.name == key)
    if isinstance(option, click.Option) and option.is_flag:
        if text not in _YES:
            raise _usage(f"--sweep {key} wants yes or no, got {text!r:.40}")
        return _YES[text]
    try:
        return option.type.convert(text, option, ctx)
    except click.BadParameter as error:
        raise _usage(f"--sweep {key}: {error.message}") from None


def _whole(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise _usage(f"--sweep {key} wants whole numbers of at least 1, got {text!r:.40}")
    return int(text)


def _usage(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context())
