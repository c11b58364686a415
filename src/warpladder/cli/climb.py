"""`warpladder climb`: proves every rung, times it, and writes results and a page."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .shared.climb_record import ClimbRecord, folder
from .shared.files import again, command
from .shared.net_argument import net_argument
from .shared.options import (
    Seconds,
    config_options,
    data_options,
    out_option,
    overwrite_option,
    progress_option,
    rung_options,
    split_options,
)
from .shared.own_ops import with_ops
from .shared.progress import shown, stoppable
from .shared.request import SHARED
from .shared.sweeps import check_trained, swept, tasks_of

if TYPE_CHECKING:
    from ..rungs.base import Rung

#: Parameters of the output, omitted from a command that repeats the climb.
_OUTPUT = ("out", "overwrite", "progress")


@click.command()
@net_argument()
@data_options
@split_options
@click.option(
    "--rungs", "rung_names", metavar="A,B,C", help="Rungs and peers to climb; the ladder and --peers if not given."
)
@click.option(
    "--peers",
    type=click.Choice(("best", "none", "all")),
    default="best",
    show_default=True,
    help="Programs of others that are timed too, if --rungs is not given: of each the strongest variant here in the "
    "ladder's precision, none, or every variant.",
)
@click.option("--no-peers", is_flag=True, help="As --peers none.")
@click.option(
    "--op",
    "ops",
    metavar="OP=FILE",
    multiple=True,
    help="Your kernel in place of ours, linear.forward=mine.cu, next to the rung without it; may be given again.",
)
@click.option("--repeats", type=int, help="Timed repetitions of each rung; 5 if not given.")
@click.option(
    "--budget",
    type=float,
    help="Seconds that one repetition may take; of longer epochs a part is timed. 1 if not given.",
)
@click.option(
    "--seconds",
    metavar="SECONDS",
    type=Seconds(min=0, min_open=True),
    help="Seconds in which the climb is to end: peers that have no time left are given up, never a rung. 140 with a "
    "GPU and 82 without one, if --rungs, --repeats and --budget are not given.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="A first look within a minute, from the fastest rung down, peers last: 2 repetitions of half a second, no "
    "accuracy, no peak memory.",
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
    ops: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
    progress: bool | None,
    **options: Any,
) -> int:
    """Prove that every rung trains NET right, time the rungs in turns, and show which is fastest and why.

    A rung that fails the proof is not timed, and the exit code is 1. Default settings are those of the net's
    report. Ctrl-C ends the climb with the results so far.

    \b
    Examples:
      warpladder climb mlp --data digits
      warpladder climb cnn --data mnist --quick
      warpladder climb cnn --data mnist --rungs numpy,native,torch --epochs 1
      warpladder climb mlp --data digits --op linear.forward=mine.cu
      warpladder climb mlp --data mnist --rungs naive --sweep block_size=64,256
      warpladder climb mlp --data mnist --rungs native --sweep batch_size=64,full
    """
    from ..ladder import LADDER, PEERS
    from ..timing import ClimbSettings, contenders, run_climb
    from ..timing.climb_limit import usual_limit
    from ..train.rung_choice import with_shared

    shared, quick, peers = {name: options.get(name) for name in SHARED}, options["quick"], _peers(ctx, options)
    named, shared = with_ops(None if rung_names is None else _named(rung_names), ops, shared)
    rungs, swept_settings = swept(with_shared(named or [*LADDER, *PEERS], shared), sweeps)
    tasks = tasks_of(swept_settings, net_name, options)
    first = tasks[0].task
    if named is None:
        chosen = contenders(first.net, first.config, peers, quick)
        rungs, _ = swept(with_shared(chosen, shared), sweeps)
    else:
        check_trained(rungs, tasks)
    is_usual = named is None and peers != "all" and options["repeats"] is options["budget"] is None
    repeats, budget = (2, 0.5) if quick else (5, 1.0)
    given = options["repeats"], options["budget"]
    repeats, budget = (repeats if given[0] is None else given[0]), (budget if given[1] is None else given[1])
    seconds = options["seconds"] or (usual_limit() if is_usual else math.inf)
    settings = ClimbSettings(None, repeats, budget, quick, options["kept"], _again(ctx), seconds)
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


def _peers(ctx: click.Context, options: Mapping[str, Any]) -> str:
    """Value of --peers, with --no-peers for "none"."""
    if options["no_peers"] and ctx.get_parameter_source("peers") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--no-peers contradicts --peers {options['peers']}: leave one of them out", ctx)
    return "none" if options["no_peers"] else str(options["peers"])


def _named(names: str) -> list[Rung]:
    from ..timing.foreign.rung import find_all

    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise click.UsageError(
            "--rungs wants names with commas between them; 'warpladder rungs' lists them", click.get_current_context()
        )
    return find_all(wanted)


def _again(ctx: click.Context) -> str:
    """Command line that repeats this climb, from the same folder on this machine."""
    words = again(ctx, *(parameter.name for parameter in ctx.command.params if parameter.name not in _OUTPUT))
    if ctx.params.get("data_name") == "csv" and "--data-dir" not in words:  # a user's table has no default folder
        words += ["--data-dir", os.environ.get("WARPLADDER_DATA", "")]
    return command("climb", *words)
