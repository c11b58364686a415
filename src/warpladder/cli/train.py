"""`warpladder train`: one net on one rung."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Stopped, UnsavedError
from ..report.terminal import curve
from .events import event_log
from .keeping import again, as_file_name, command, fresh_folder, overwrite_option
from .options import (
    SHARED,
    chosen_config,
    chosen_data,
    config_options,
    console,
    data_options,
    fitted,
    net_argument,
    percent,
    rung_options,
    split_options,
    with_shared,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ..checkpoint import Checkpoint
    from ..rungs.base import Rung
    from ..train import Run

SECONDS = 30.0  # between two checkpoints that nobody asked for
ROWS = 25  # of a table of epochs; where there are more, some are left out


@click.command()
@net_argument()
@data_options
@split_options
@click.option(
    "--rung",
    metavar="R",
    help="Rung or peer that trains, as native or naive:block_size=512; numpy if not given, or that of the checkpoint.",
)
@rung_options
@config_options
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep weights and progress in this file, after every epoch; in runs/NET-D-TIME, every half minute and at the end, if not given.",
)
@click.option("--checkpoint-every", metavar="N", type=int, help="Keep them every N steps too.")
@click.option(
    "--keep-epochs",
    is_flag=True,
    help="Keep the weights of every epoch too, in files beside that one: NAME-epoch-001.safetensors, ...",
)
@click.option("--no-checkpoint", is_flag=True, help="Keep nothing.")
@overwrite_option
@click.option(
    "--resume", metavar="FILE", type=click.Path(path_type=Path), help="Go on in this checkpoint, with its settings."
)
@click.option(
    "--from",
    "weights",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Begin with the weights of this checkpoint or safetensors state_dict of PyTorch, with new settings.",
)
@click.option(
    "--log-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write each epoch's figures as event files for TensorBoard into this folder.",
)
@click.option("--progress/--no-progress", default=None, help="A bar on stderr; on a terminal if not given.")
@click.pass_context
def train(
    ctx: click.Context,
    net_name: str,
    rung: str | None,
    checkpoint: Path | None,
    checkpoint_every: int | None,
    keep_epochs: bool,
    no_checkpoint: bool,
    overwrite: bool,
    resume: Path | None,
    weights: Path | None,
    log_dir: Path | None,
    progress: bool | None,
    **options: Any,
) -> None:
    """Train NET, and score it on the test samples.

    Settings that are not given are those of the net's report. Ctrl-C leaves a checkpoint, from which --resume goes on,
    bit for bit, and which it then replaces.

    \b
    Examples:
      warpladder train mlp --data mnist --rung native
      warpladder train cnn --data digits --epochs 20 --checkpoint cnn.safetensors
      warpladder train cnn --data digits --resume cnn.safetensors --epochs 30
      warpladder train cnn --data digits --from cnn.safetensors --lr 0.001
      warpladder train mlp --data mnist --optimizer adam --schedule cosine
    """
    from ..checkpoint import load
    from ..ops.jit.compile_time import compiling
    from ..train import train as run_training
    from ..train.kept_epochs import epoch_path

    before = None if resume is None else load(resume)
    config = chosen_config(net_name, options, None if before is None else before.config)
    scaled = options["scale_features"] or (before is not None and bool(before.data.mean))
    data = chosen_data(options | {"seed": config.seed, "scale_features": scaled})
    net = fitted(net_name, data)
    say = None if progress is False else partial(click.echo, err=True)
    with event_log(log_dir) as each_epoch, _place(ctx, net.name, data.name) as place, compiling.told(say):
        try:
            run = run_training(
                net,
                data,
                config,
                rung=_rung(rung, before, options),
                checkpoint=place,
                checkpoint_every=checkpoint_every,
                checkpoint_seconds=None if checkpoint or keep_epochs else SECONDS,
                keep_epochs=keep_epochs,
                overwrite=overwrite,
                resume=resume,
                weights=weights,
                progress=sys.stderr.isatty() if progress is None else progress,
                each_epoch=each_epoch,
            )
        except Stopped as stop:
            if place is None:
                raise
            words = again(ctx, "data_name", "data_dir", "shape", "limit", "validation", "rung", "keep_epochs", *SHARED)
            raise Stopped(
                f"{stop}: {command('train', net_name, *words, '--resume', str(place))}", stop.exit_code
            ) from None
        except UnsavedError as error:
            _show(error.run, len(data.test_x))
            raise
    _show(run, len(data.test_x))
    click.echo("Weights: not kept" if place is None else f"Weights: {place}")
    if keep_epochs and place is not None and run.history:
        first, last = epoch_path(place, 1), epoch_path(place, len(run.history))
        click.echo(f"Of every epoch: {first} to {last.name}")


def _rung(name: str | None, before: Checkpoint | None, options: dict[str, Any]) -> str | Rung | None:
    """The rung that is asked for, with the options that all rungs share; None for the one that goes without saying."""
    from ..ladder import find
    from ..train.beginning import DEFAULT_RUNG

    if all(options.get(option) is None for option in SHARED):
        return name
    return with_shared([find(name or (DEFAULT_RUNG if before is None else before.rung))], options)[0]


def _show(run: Run, samples: int) -> None:
    if run.history:
        show = console()
        show.print(_epochs(run))
        lines = curve("Loss by epoch", [log.train_loss for log in run.history], min(80, show.width))
        click.echo("".join(f"{line}\n" for line in lines), nl=bool(lines))
    click.echo(f"Optimizer: {run.config.optimizer.described()}; learning rate: {run.config.schedule.described()}")
    if run.test_loss is not None:
        accuracy = "" if run.test_accuracy is None else f", accuracy {percent(run.test_accuracy)}"
        click.echo(f"Test: loss {run.test_loss:.4g}{accuracy}, {samples:,} samples")


@contextmanager
def _place(ctx: click.Context, net: str, data: str) -> Iterator[Path | None]:
    """The file that keeps the run: the one that is named, the one that is resumed, or a new one below runs/."""
    named = ctx.params["checkpoint"]
    if ctx.params["no_checkpoint"]:
        if named or ctx.params["checkpoint_every"] or ctx.params["keep_epochs"]:
            raise click.UsageError(
                "--no-checkpoint keeps nothing: leave out --checkpoint, --checkpoint-every and --keep-epochs, or it",
                ctx,
            )
        yield None
    elif named or ctx.params["resume"]:
        yield named or ctx.params["resume"]
    else:
        with fresh_folder(
            f"{net}-{data}", "name a file with --checkpoint, or keep nothing with --no-checkpoint"
        ) as folder:
            yield folder / f"{as_file_name(net)}.safetensors"


def _epochs(run: Run) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..nets import CrossEntropyLoss

    history = run.history
    stride = -(-len(history) // ROWS)
    shown = [log for log in history if log.epoch % stride == 0 or log in (history[0], history[-1])]
    with_valid = history[0].valid_loss is not None
    with_accuracy = isinstance(run.net.loss, CrossEntropyLoss)
    heads = ["epoch", "loss", *(["accuracy"] * with_accuracy)]
    heads += ["valid. loss", *(["valid. accuracy"] * with_accuracy)] if with_valid else []
    table = Table(title=f"{run.net.name} on the {run.rung} rung", box=SIMPLE_HEAD)
    for head in (*heads, "seconds"):
        table.add_column(head, justify="right")
    for log in shown:
        cells = [str(log.epoch), "-" if log.train_loss is None else f"{log.train_loss:.4g}"]
        cells += ["-" if log.train_accuracy is None else percent(log.train_accuracy)] if with_accuracy else []
        cells += [] if log.valid_loss is None else [f"{log.valid_loss:.4g}"]
        cells += [] if log.valid_accuracy is None else [percent(log.valid_accuracy)]
        table.add_row(*cells, f"{log.seconds:.3g}")
    return table
