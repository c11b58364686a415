"""`warpladder climb`: proves every rung, times it, and writes results and a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .shared.climb_record import ClimbRecord, folder
from .shared.files import again, command
from .shared.net_argument import net_argument
from .shared.options import (
    config_options,
    data_options,
    out_option,
    overwrite_option,
    progress_option,
    rung_options,
    split_options,
)
from .shared.progress import shown, stoppable
from .shared.request import SHARED
from .shared.sweeps import check_trained, swept, tasks_of

if TYPE_CHECKING:
    from ..rungs.base import Rung

#: Parameters for output, which a command that repeats the climb leaves out.
_OUTPUT = ("out", "overwrite", "progress")


@click.command()
@net_argument()
@data_options
@split_options
@click.option("--rungs", "rung_names", metavar="A,B,C", help="Rungs and peers to climb; all if not given.")
@click.option("--peers/--no-peers", default=True, help="Time the programs of others too, if --rungs is not given.")
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
    "sweeps",
    metavar="KEY=A,B,C",
    multiple=True,
    help="Time every named rung that has the option once for each value, or train once with each: "
    "batch_size, learning_rate, limit, hidden, "
    "and whatever else is trained; may be given again.",
)
@config_options
@out_option("DIR", "Where results.json and report.html go; runs/NET-D-TIME if not given.")
@overwrite_option
@progress_option
@click.pass_context
def climb(
    ctx: click.Context,
    net_name: str,
    rung_names: str | None,
    sweeps: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
    progress: bool | None,
    **options: Any,
) -> int:
    """Prove that every rung trains NET right, time the rungs in turns, and show which is fastest and why.

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
    from ..timing import ClimbSettings, run_climb
    from ..train.rung_choice import with_shared

    shared = {name: options.get(name) for name in SHARED}
    rungs, swept_settings = swept(with_shared(_chosen(rung_names, options["peers"]), shared), sweeps)
    tasks = tasks_of(swept_settings, net_name, options)
    if rung_names is not None:
        check_trained(rungs, tasks)
    repeats, budget = (2, 0.5) if options["quick"] else (5, 2.0)
    repeats = repeats if options["repeats"] is None else options["repeats"]
    budget = budget if options["budget"] is None else options["budget"]
    settings = ClimbSettings(None, repeats, budget, options["quick"], options["kept"], _again(ctx))
    first = tasks[0].task
    with stoppable(), folder(out, f"{first.net.name}-{first.data.name}", overwrite) as place:
        record = ClimbRecord(place, tuple(each.heading for each in tasks))
        try:
            for heading, task in tasks:
                record.begin(heading)
                with shown(progress) as report:
                    record.keep(run_climb(task, rungs, settings, progress=report, found=record.note))
        except BaseException as error:
            record.rescue(error)
            raise
        record.end()
    statuses = {rung.status for results in record.tasks for rung in results.rungs}
    return 1 if statuses & {"failed", "refused", "unjudged"} else 0


def _chosen(names: str | None, peers: bool) -> list[Rung]:
    from ..ladder import LADDER, PEERS
    from ..timing.foreign.rung import find

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
    words = again(ctx, *(parameter.name for parameter in ctx.command.params if parameter.name not in _OUTPUT))
    if ctx.params.get("data_name") == "csv" and "--data-dir" not in words:  # a table of one's own is nowhere else
        words += ["--data-dir", os.environ.get("WARPLADDER_DATA", "")]
    return command("climb", *words)
