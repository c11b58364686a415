"""`warpladder climb`: every rung proven, timed beside the others, and written down."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..errors import RungError
from .options import chosen_config, chosen_data, config_options, console, data_options, fitted, net_argument, split_options

if TYPE_CHECKING:
    from ..rungs.base import Rung

#: These name places on this machine and do not belong to a command that repeats the climb.
_PLACES = ("data_dir", "out", "progress")


@click.command()
@net_argument()
@data_options
@split_options
@click.option("--rungs", "rung_names", metavar="A,B,C", help="Rungs and peers to climb; all if not given.")
@click.option("--peers/--no-peers", default=True, help="Time the programs of others too, where --rungs does not say.")
@click.option("--repeats", type=int, default=5, show_default=True, help="Timed repetitions of each rung.")
@click.option(
    "--budget", type=float, default=20.0, show_default=True, help="Seconds that one repetition may take; of longer epochs a part is timed."
)
@config_options
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), help="Where results.json and report.html go; runs/NET-D-TIME if not given."
)
@click.option("--progress/--no-progress", default=None, help="Say on stderr what is being done; on a terminal if not given.")
@click.pass_context
def climb(
    ctx: click.Context,
    net_name: str,
    rung_names: str | None,
    peers: bool,
    repeats: int,
    budget: float,
    out: Path | None,
    progress: bool | None,
    **options: Any,
) -> int:
    """Prove that every rung trains NET right, time the rungs beside each other, and say which is fastest and why.

    A rung that fails the proof is not timed, and the exit code is 1. Settings that are not given are those of the net's report.

    \b
    Examples:
      warpladder climb mlp --data digits
      warpladder climb cnn --data mnist --rungs numpy,native,torch --epochs 1
    """
    data = chosen_data(options)
    net = fitted(net_name, data)
    config = chosen_config(net_name, options)
    from ..bench import climb as measure

    rungs = _chosen(rung_names, peers)
    if rung_names is not None:
        for rung in rungs:
            if reason := rung.unsupported(net, config):
                raise RungError(f"{rung.name} cannot train {net.name} here: {reason}")
    with _folder(out or Path("runs", f"{net.name}-{data.name}-{datetime.now():%Y%m%d-%H%M%S}")) as folder:
        with _progress(progress) as told:
            results = measure(net, data, config, rungs, epochs=config.epochs, repeats=repeats, budget=budget, progress=told)
        results = replace(results, command=_again(ctx))
        from ..report.page import write_page
        from ..report.table import table

        results.save(folder / "results.json")
        write_page(results, folder / "report.html")
    console().print(table(results))
    click.echo(f"\nAll of it: {folder / 'results.json'}\nOpen this: {folder / 'report.html'}")
    return 1 if any(rung.status in ("failed", "refused") for rung in results.rungs) else 0


def _chosen(names: str | None, peers: bool) -> list[Rung]:
    from ..ladder import LADDER, PEERS, find

    if names is None:
        return [*LADDER, *(PEERS if peers else ())]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise click.UsageError("--rungs wants names with commas between them; 'warpladder rungs' lists them", click.get_current_context())
    return [find(name) for name in wanted]


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """Made before anything is measured, so that a place that cannot be written is an error at once; removed again if nothing came of it."""
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise


@contextmanager
def _progress(wanted: bool | None) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on a terminal, lines where progress was asked for and there is none."""
    terminal = sys.stderr.isatty()
    if not (terminal if wanted is None else wanted):
        yield None
    elif not terminal:
        yield lambda what, done, total: click.echo(f"{what} ({done} of {total})", err=True)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        bar = Progress(TextColumn("{task.description:<32}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True)
        with bar:
            task = bar.add_task("starting")
            yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _again(ctx: click.Context) -> str:
    """The command that repeats this climb, less what names places on this machine."""
    words = ["warpladder", "climb", str(ctx.params["net_name"])]
    for parameter in ctx.command.params:
        name, value = parameter.name, ctx.params.get(parameter.name or "")
        given = name is not None and ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if not isinstance(parameter, click.Option) or not parameter.expose_value or not given or name in _PLACES:
            continue
        if parameter.is_flag:
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            words += [parameter.opts[0], "x".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)
