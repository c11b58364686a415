"""`warpladder climb`: every rung proven, timed beside the others, and written down."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .keeping import again, command
from .options import config_options, data_options, net_argument, rung_options, split_options, with_shared
from .record import Record, folder, shown, stoppable
from .sweeps import check_trained, swept, tasks_of

if TYPE_CHECKING:
    from ..rungs.base import Rung

#: These say where results go and what is shown meanwhile: a command that repeats the climb leaves them out.
_ASIDE = ("out", "overwrite", "progress")


@click.command()
@net_argument()
@data_options
@split_options
@click.option("--rungs", "rung_names", metavar="A,B,C", help="Rungs and peers to climb; all if not given.")
@click.option("--peers/--no-peers", default=True, help="Time the programs of others too, where --rungs does not say.")
@click.option("--repeats", type=int, help="Timed repetitions of each rung; 5 if not given.")
@click.option(
    "--budget",
    type=float,
    help="Seconds that one repetition may take; of longer epochs a part is timed. 2 if not given.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="A first look within a minute: 2 repetitions of half a second, no accuracy, no peak memory.",
)
@click.option(
    "--kept/--no-kept",
    default=True,
    help="Take proofs of identical code from earlier climbs, or prove all of it again.",
)
@rung_options
@click.option(
    "--sweep",
    "asked",
    metavar="KEY=A,B,C",
    multiple=True,
    help="Time every named rung that has the option once for each value, or train once with each: batch_size, learning_rate, limit, hidden, "
    "and whatever else is trained; may be given again.",
)
@config_options
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where results.json and report.html go; runs/NET-D-TIME if not given.",
)
@click.option("--overwrite", is_flag=True, help="Replace the climb that DIR holds.")
@click.option(
    "--progress/--no-progress", default=None, help="Say on stderr what is being done; on a terminal if not given."
)
@click.pass_context
def climb(
    ctx: click.Context,
    net_name: str,
    rung_names: str | None,
    peers: bool,
    asked: tuple[str, ...],
    repeats: int | None,
    budget: float | None,
    quick: bool,
    kept: bool,
    out: Path | None,
    overwrite: bool,
    progress: bool | None,
    **options: Any,
) -> int:
    """Prove that every rung trains NET right, time the rungs beside each other, and say which is fastest and why.

    A rung that fails the proof is not timed, and the exit code is 1. Settings that are not given are those of the net's
    report. Ctrl-C ends with what was found so far.

    \b
    Examples:
      warpladder climb mlp --data digits
      warpladder climb cnn --data mnist --quick
      warpladder climb cnn --data mnist --rungs numpy,native,torch --epochs 1
      warpladder climb mlp --data mnist --rungs naive --sweep block_size=64,256
      warpladder climb mlp --data mnist --rungs native --sweep batch_size=64,full
    """
    rungs, sweeps = swept(with_shared(_chosen(rung_names, peers), options), asked)
    tasks = tasks_of(sweeps, net_name, options)
    from ..timing import climb as measure

    if rung_names is not None:
        check_trained(rungs, tasks)
    repeats = (2 if quick else 5) if repeats is None else repeats
    budget = (0.5 if quick else 2.0) if budget is None else budget
    net, data = tasks[0].net, tasks[0].data
    with stoppable(), folder(out, f"{net.name}-{data.name}", overwrite) as place:
        record = Record(place, tuple(task.heading for task in tasks))
        how: dict[str, Any] = {
            "repeats": repeats,
            "budget": budget,
            "quick": quick,
            "kept": kept,
            "command": _again(ctx),
        }
        try:
            for task in tasks:
                record.begin(task.heading)
                with shown(progress) as told:
                    record.keep(
                        measure(
                            task.net,
                            task.data,
                            task.config,
                            rungs,
                            epochs=task.config.epochs,
                            progress=told,
                            found=record.note,
                            **how,
                        )
                    )
        except BaseException as error:
            record.rescue(error)
            raise
        record.end()
    return (
        1
        if any(rung.status in ("failed", "refused", "unjudged") for results in record.tasks for rung in results.rungs)
        else 0
    )


def _chosen(names: str | None, peers: bool) -> list[Rung]:
    from ..ladder import LADDER, PEERS, find

    if names is None:
        return [*LADDER, *(PEERS if peers else ())]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise click.UsageError(
            "--rungs wants names with commas between them; 'warpladder rungs' lists them", click.get_current_context()
        )
    return [find(name) for name in wanted]


def _again(ctx: click.Context) -> str:
    """The command that repeats this climb, from the same folder on this machine."""
    words = again(ctx, *(parameter.name for parameter in ctx.command.params if parameter.name not in _ASIDE))
    if ctx.params.get("data_name") == "csv" and "--data-dir" not in words:  # a table of one's own is nowhere else
        words += ["--data-dir", os.environ.get("WARPLADDER_DATA", "")]
    return command("climb", *words)
