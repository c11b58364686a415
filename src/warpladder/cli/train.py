"""`warpladder train`: trains one net on one rung."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Stopped, UnsavedError
from ..results.report.terminal import curve
from ..show import percent
from .shared.console import console
from .shared.events import event_log
from .shared.files import again, as_file_name, command, fresh_folder
from .shared.net_argument import net_argument
from .shared.options import (
    config_options,
    data_options,
    overwrite_option,
    progress_option,
    rung_option,
    rung_options,
    split_options,
)
from .shared.repeats import seeded, train_seeds
from .shared.request import DATA, SHARED, report_defaults, run_request

if TYPE_CHECKING:
    from rich.table import Table

    from ..train import Run
    from ..train.resolve import ResolvedRun

SECONDS = 30.0  # seconds between two checkpoints in a folder below runs/
ROWS = 25  # most rows of a table of epochs; further epochs are left out
NARROW = 66  # columns of a terminal for which figures of validation next to those of training are too wide


@click.command()
@net_argument()
@data_options
@split_options
@rung_option("Rung or peer that trains, as native or naive:block_size=512; the checkpoint's if not given, or auto.")
@rung_options
@config_options
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep weights and progress in this file, after every epoch; in runs/NET-D-TIME, every half minute "
    "and at the end, if not given.",
)
@click.option(
    "--early-stopping",
    metavar="N",
    type=int,
    help="End after N epochs in a row without a lower validation loss, and keep the best weights; needs --validation.",
)
@click.option("--checkpoint-every", metavar="N", type=int, help="Keep them every N steps too.")
@click.option(
    "--keep-epochs",
    is_flag=True,
    help="Keep the weights of every epoch too, in files next to that one: NAME-epoch-001.safetensors, ...",
)
@click.option("--no-checkpoint", is_flag=True, help="Keep nothing.")
@overwrite_option
@click.option(
    "--resume",
    metavar="FILE",
    type=click.Path(path_type=Path),
    is_eager=True,
    help="Go on in this checkpoint, with its settings.",
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
@click.option(
    "--repeat",
    metavar="N",
    type=int,
    help="Train N times, with the seeds from --seed on, and show mean and spread; each run has a file of its own, "
    "NAME-seed-0.safetensors, ...",
)
@progress_option
@click.pass_context
def train(
    ctx: click.Context,
    net_name: str,
    rung: str | None,
    resume: Path | None,
    weights: Path | None,
    log_dir: Path | None,
    progress: bool | None,
    **options: Any,
) -> int:
    """Train NET, and score it on the test samples.

    Default settings are those of the net's report. Ctrl-C leaves a checkpoint, which --resume continues, bit for bit,
    and then replaces.

    \b
    Examples:
      warpladder train mlp --data mnist --rung native
      warpladder train cnn --data digits --epochs 20 --checkpoint cnn.safetensors
      warpladder train cnn --data digits --resume cnn.safetensors --epochs 30
      warpladder train cnn --data digits --from cnn.safetensors --lr 0.001
      warpladder train mlp --data mnist --optimizer adam --schedule cosine
      warpladder train mlp --data bank.csv --label answer
      warpladder train --hidden 512,256 --data mnist
      warpladder train cnn --data mnist --validation 5000 --early-stopping 5
      warpladder train mlp --data mnist --repeat 5
    """
    from ..train.resolve import resolve

    request, count = run_request(net_name, options, rung=rung, resume=resume, weights=weights), options["repeat"]
    if count is not None and (count < 2 or resume is not None):
        why = (
            "repeats new runs: leave out --resume" if count > 1 else f"wants a whole number of at least 2, got {count}"
        )
        raise click.UsageError(f"--repeat {why}", ctx)
    run = resolve(request)
    if resume is None:
        report_defaults(net_name, run, options)
    for sentence in run.advice:
        warnings.warn(sentence, stacklevel=1)
    if count is not None:
        _check_places(options, range(run.config.seed, run.config.seed + count))
        _show_choice(run)
        return train_seeds(request, run, count, partial(_once, ctx, log_dir, progress))
    trained, place = _once(ctx, log_dir, progress, run)
    _show(trained, len(run.data.test_x))
    _show_files(trained, place, options["keep_epochs"])
    return 0


def _show_choice(run: ResolvedRun) -> None:
    if run.reason.startswith("auto"):
        click.echo(f"Rung: {run.rung.name}, by {run.reason}")


def _check_places(options: dict[str, Any], seeds: Iterable[int]) -> None:
    """Check the files of every seed before the first is trained."""
    from ..train.saving import Saving

    if options["checkpoint"] is not None:
        for seed in seeds:
            Saving(seeded(options["checkpoint"], seed), overwrite=options["overwrite"]).check()


def _once(ctx: click.Context, log_dir: Path | None, progress: bool | None, run: ResolvedRun) -> tuple[Run, Path | None]:
    """Train a run; return it, and the file of its weights."""
    from ..ops.jit.compile_time import compiling
    from ..train.loop import train_run
    from ..train.saving import Saving

    options = ctx.params
    resume, keep_epochs, is_one = options["resume"], options["keep_epochs"], options["repeat"] is None
    seconds = None if options["checkpoint"] or keep_epochs else SECONDS
    say = None if progress is False else partial(click.echo, err=True)
    logs = log_dir if log_dir is None or is_one else log_dir / f"seed-{run.config.seed}"
    with event_log(logs) as each_epoch, _place(ctx, run) as place, compiling.announced(say):
        saving = Saving(place, options["checkpoint_every"], seconds, keep_epochs, options["overwrite"], resume)
        saving.check()
        if is_one:
            _show_choice(run)
        try:
            trained = train_run(run, saving, sys.stderr.isatty() if progress is None else progress, each_epoch)
        except Stopped as stop:
            if place is None or not place.exists():  # an endless launch was stopped before the first checkpoint
                raise
            words = again(ctx, "hidden", *DATA, "rung", "keep_epochs", *SHARED)
            raise Stopped(
                f"{stop}: {command('train', options['net_name'], *words, '--resume', str(place))}", stop.exit_code
            ) from None
        except UnsavedError as error:
            _show(error.run, len(run.data.test_x))
            raise
    return trained, place


def _show_files(run: Run, place: Path | None, keep_epochs: bool) -> None:
    from ..train.epoch_files import epoch_path

    click.echo("Weights: not saved" if place is None else f"Weights: {place}")
    if keep_epochs and place is not None and run.history:
        first, last = epoch_path(place, 1), epoch_path(place, len(run.history))
        click.echo(f"Of every epoch: {first} to {last.name}")


def _show(run: Run, samples: int) -> None:
    if run.history:
        show = console()
        show.print(_epochs(run, show.width))
        lines = curve("Loss by epoch", [log.train_loss for log in run.history], min(80, show.width))
        click.echo("".join(f"{line}\n" for line in lines), nl=bool(lines))
    if run.best_epoch is not None:
        epoch, epochs = len(run.history), run.config.epochs
        waited = epoch - run.best_epoch
        end = f"{waited} epoch{'s' * (waited != 1)} without a lower validation loss" if epoch < epochs else "the last"
        click.echo(f"Ended after epoch {epoch} of {epochs}, {end}; the weights are those of epoch {run.best_epoch}")
    drawn = "" if run.config.initial is None else f"; initial weights: {run.config.initial}"
    rate = run.config.schedule.described()
    click.echo(f"Optimizer: {run.config.optimizer.described()}; learning rate: {rate}{drawn}")
    if (test := run.checkpoint.test) is not None:
        click.echo(f"Test: {test.described()}, {samples:,} samples")


@contextmanager
def _place(ctx: click.Context, run: ResolvedRun) -> Iterator[Path | None]:
    """Path of the run's checkpoint: the named one, the resumed one, or a new one below runs/."""
    named = ctx.params["checkpoint"]
    own = partial(seeded, seed=run.config.seed) if ctx.params["repeat"] else Path
    if ctx.params["no_checkpoint"]:
        if named or ctx.params["checkpoint_every"] or ctx.params["keep_epochs"]:
            raise click.UsageError(
                "--no-checkpoint keeps nothing: leave out --checkpoint, --checkpoint-every and --keep-epochs, or it",
                ctx,
            )
        yield None
    elif named or ctx.params["resume"]:
        yield own(named or ctx.params["resume"])
    else:
        with fresh_folder(
            f"{run.net.name}-{run.data.name}" + f"-seed-{run.config.seed}" * (ctx.params["repeat"] is not None),
            "name a file with --checkpoint, or keep nothing with --no-checkpoint",
        ) as folder:
            yield own(folder / f"{as_file_name(run.net.name)}.safetensors")


def _epochs(run: Run, width: int) -> Table:
    """Table of the epochs; in a narrow terminal each figure of validation is below that of training."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..nets import CrossEntropyLoss

    history = run.history
    stride = -(-len(history) // ROWS)
    always = (1, run.best_epoch, len(history))
    shown = [log for log in history if log.epoch % stride == 0 or log.epoch in always]
    with_accuracy = isinstance(run.net.loss, CrossEntropyLoss)
    heads = ["loss", *(["accuracy"] * with_accuracy)]
    rows = [[_figures(log.train_loss, log.train_accuracy)[: len(heads)] for log in shown]]
    if history[0].valid_loss is not None:
        rows.append([_figures(log.valid_loss, log.valid_accuracy)[: len(heads)] for log in shown])
    parts = [heads, [f"valid. {head}" for head in heads]][: len(rows)]
    is_narrow = width < NARROW
    table = Table(title=f"{run.net.name} on the {run.rung} rung", box=SIMPLE_HEAD)
    for head in ("epoch", *_joined(parts, is_narrow), "seconds"):
        table.add_column(head, justify="right")
    for log, *figures in zip(shown, *rows, strict=True):
        table.add_row(str(log.epoch), *_joined(figures, is_narrow), f"{log.seconds:.3g}")
    return table


def _joined(parts: list[list[str]], is_narrow: bool) -> list[str]:
    """Texts of all parts next to each other, or below each other."""
    return ["\n".join(texts) for texts in zip(*parts, strict=True)] if is_narrow else [*chain(*parts)]


def _figures(loss: float | None, accuracy: float | None) -> list[str]:
    return ["-" if loss is None else f"{loss:.4g}", "-" if accuracy is None else percent(accuracy)]
