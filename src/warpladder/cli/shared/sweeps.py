"""Sweeps of `climb --sweep`: rungs once for each value of an option, and tasks once for each value of a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...errors import RungError
from ...errors.arguments import shown
from .request import SETTINGS, report_defaults, run_request

if TYPE_CHECKING:
    from ...rungs.base import Rung
    from ...train.resolve import ResolvedTask

#: Parameters that a sweep can vary: settings, the number of samples, and the widths of a net's hidden layers.
TASKS = (*(name for name in SETTINGS if name != "early_stopping"), "limit", "hidden")

_YES = {"yes": True, "no": False}


class SweepTask(NamedTuple):
    """Task of a climb, with its heading: the swept values, as "batch_size=32, limit=1000"."""

    heading: str
    task: ResolvedTask


def swept(rungs: list[Rung], sweeps: tuple[str, ...]) -> tuple[list[Rung], dict[str, list[str]]]:
    """Rungs once for each value of their swept options, and the sweeps of settings: values by key.

    Raises
    ------
    click.UsageError
        A sweep is malformed, or a key is swept twice.
    RungError
        A key is neither an option of these rungs nor a setting.
    """
    tasks: dict[str, list[str]] = {}
    seen = set()
    for sweep in sweeps:
        key, equals, text = sweep.partition("=")
        key, values = key.strip().replace("-", "_"), [value.strip() for value in text.split(",")]
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
        elif key in TASKS:
            tasks[key] = values
        else:
            known = ", ".join(dict.fromkeys(option for rung in rungs for option in rung.options.names()))
            raise RungError(
                f"none of these rungs has an option {key!r} to be swept; they have {known or 'none'}; what is "
                "trained can be swept by "
                f"{', '.join(TASKS)}"
            )
    return rungs, tasks


def _variants(rung: Rung, name: str, values: list[str]) -> list[Rung]:
    kind = next(kind for option, kind, _ in rung.options.known() if option == name)
    return [rung.but(**{name: kind.read(value)}) for value in values]


def tasks_of(sweeps: dict[str, list[str]], net_name: str, options: dict[str, Any]) -> list[SweepTask]:
    """Resolved task for each combination of the swept values; one task without a sweep.

    Raises
    ------
    click.UsageError
        A value is impossible, or a key has an option and a sweep.
    NetError, ConfigError, DataError
        A task is impossible.
    """
    from ...train.resolve import resolve_task

    for key in sweeps:
        if options.get(key) is not None:
            raise _usage(f"{key} has an option and a --sweep: leave one of them out")
    loaded: dict[object, Any] = {}  # data sets by the options that choose their samples
    out = []
    for chosen in product(*([(key, value) for value in values] for key, values in sweeps.items())):
        own = options | {key: _value(key, value) for key, value in chosen if key != "hidden"}
        hidden = next((_widths(key, value) for key, value in chosen if key == "hidden"), own.get("hidden"))
        request = run_request(net_name, own, hidden=hidden)
        subset = own.get("limit"), own.get("seed")
        task = resolve_task(replace(request, data=loaded.get(subset, request.data)))
        loaded[subset] = task.data
        report_defaults(net_name, task, own)
        out.append(SweepTask(", ".join(f"{key}={value}" for key, value in chosen), task))
    return out


def check_trained(rungs: Sequence[Rung], tasks: list[SweepTask]) -> None:
    """Raise `RungError` if a named rung can train none of the tasks here. One of several that ends its process when
    asked is left to the climb, which lists it with the reason.
    """
    from ...timing.foreign.rung import BrokenFile

    for rung in rungs:
        try:
            reasons = [rung.unsupported(task.net, task.config) for _, task in tasks]
        except BrokenFile:
            if len(rungs) == 1:
                raise
            continue
        if all(reasons):
            raise RungError(f"{rung.name} cannot train {tasks[0].task.net.name} here: {reasons[0]}")


def _value(key: str, text: str) -> Any:
    """Value of a setting, converted as its command-line option does."""
    ctx = click.get_current_context()
    option = next(each for each in ctx.command.params if each.name == key)
    if isinstance(option, click.Option) and option.is_flag:
        if text not in _YES:
            raise _usage(f"--sweep {key} wants yes or no, got {shown(text)}")
        return _YES[text]
    try:
        return option.type.convert(text, option, ctx)
    except click.BadParameter as error:
        raise _usage(f"--sweep {key}: {error.message}") from None


def _widths(key: str, text: str) -> tuple[int, ...]:
    """Widths of hidden layers from text with + between them, since the values of a sweep have commas."""
    if not all(part.isdecimal() and int(part) > 0 for part in text.split("+")):
        raise _usage(f"--sweep {key} wants whole numbers of at least 1, as 256 or 512+256, got {shown(text)}")
    return tuple(map(int, text.split("+")))


def _usage(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context())
