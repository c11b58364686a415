"""Options that several commands share, as decorators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ...rungs.options import DEVICES
from .types import BatchSize, ShapeOf

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


def together(*options: Decorator) -> Decorator:
    """Decorator that applies several, in the order in which --help lists their options."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def data_dir_option(help: str) -> Decorator:
    """Option --data-dir DIR, with the command's line of help."""
    return click.option("--data-dir", metavar="DIR", type=click.Path(path_type=Path), help=help)


#: Options for the folder of a data set's files, and its shape.
place_options = together(
    data_dir_option(
        "Folder with the data set's files; nothing is downloaded. WARPLADDER_DATA names one for all commands."
    ),
    click.option("--shape", type=ShapeOf(), help="Shape of one sample, for csv only."),
)

#: Options that select a data set and its files.
data_options = together(
    click.option(
        "--data",
        "data_name",
        metavar="D",
        required=True,
        help="Data set: digits, mnist, fashion, cifar10, csv; a table, FILE.csv; FILE.npz; a folder of images by "
        "class; or a .py file of your own.",
    ),
    click.option("--label", metavar="NAME", help="Column of a table with the labels."),
    click.option(
        "--target", metavar="NAME", multiple=True, help="Column of numbers of a table to predict; may be repeated."
    ),
    place_options,
)

#: Options that select its training rows.
split_options = together(
    click.option("--limit", metavar="N", type=int, help="Train on a seeded subset of N samples."),
    click.option("--validation", metavar="N", type=int, help="Split N training samples off, to validate with."),
    click.option(
        "--scale-features",
        is_flag=True,
        help="Give features, or channels, mean 0 and deviation 1; cells of a csv may then be any numbers.",
    ),
    click.option("--test", metavar="FILE.csv", help="Table to test with; a fifth of the rows if not given."),
    click.option("--drop", metavar="NAME", multiple=True, help="Column of a table to leave out; may be repeated."),
    click.option(
        "--category",
        metavar="NAME",
        multiple=True,
        help="Column of numbers that stand for categories; may be repeated.",
    ),
)

#: Options for every setting of `TrainConfig`; None by default.
config_options = together(
    click.option("--epochs", type=int, help="Passes over the training set."),
    click.option("--batch-size", type=BatchSize(), help="Samples in a step, or 'full'."),
    click.option(
        "--optimizer",
        metavar="NAME",
        help="sgd, adam, adamw or rmsprop, and settings of it: adam:betas=0.9+0.99:eps=1e-7.",
    ),
    click.option("--learning-rate", "--lr", type=float, help="Step size of the optimizer."),
    click.option("--momentum", type=float, help="Momentum of sgd, 0 for none."),
    click.option("--nesterov/--no-nesterov", default=None, help="Nesterov's form of the momentum."),
    click.option(
        "--weight-decay", type=float, help="Pull of the weights towards 0: an L2 penalty, or adamw's own; 0 for none."
    ),
    click.option(
        "--schedule",
        metavar="NAME",
        help="How the rate goes: constant, stepdecay, cosine or onecycle, as stepdecay:every=5:gamma=0.5, "
        "cosine:warmup=1:least=1e-5.",
    ),
    click.option(
        "--loss",
        metavar="NAME",
        help="Loss in place of the net's: cross_entropy:label_smoothing=0.1:weight=1+2, mse, l1, huber:delta=0.5, "
        "bce:pos_weight=3.",
    ),
    click.option(
        "--initial",
        metavar="RULE",
        help="Rule of the initial weights: he, pytorch or glorot; pytorch for features, he for images if not given.",
    ),
    click.option("--clip-value", type=float, help="Clip every gradient element to +-this."),
    click.option("--clip-norm", type=float, help="Scale all gradients of a step to an L2 norm of at most this."),
    click.option("--seed", type=int, help="Seed of initial weights, order and splits."),
    click.option("--shuffle/--no-shuffle", default=None, help="A new order every epoch, or the stored one."),
    click.option("--drop-last/--keep-last", default=None, help="Leave out a partial last batch, or train it."),
    click.option(
        "--log-every", type=int, help="Steps after which the host reads their losses; as seldom as it can if not given."
    ),
    click.option(
        "--loss-every",
        type=int,
        help="Epochs of which one computes loss and accuracy of its batches: every one if not given.",
    ),
)


#: Options of rungs that apply to all named rungs that have them.
SHARED = ("threads", "device", "block_size")


rung_options = together(
    click.option("--threads", type=int, help="CPU threads of every rung that has the option; every core if not given."),
    click.option(
        "--device", type=click.Choice(DEVICES), help="Run CUDA rungs without a GPU: their kernels on the CPU, slowly."
    ),
    click.option(
        "--block-size", type=int, help="Threads in a block of CUDA kernels, 32 to 1024; each rung's own if not given."
    ),
)


def rung_option(help: str, default: str | None = None) -> Decorator:
    """Option --rung, with the command's line of help."""
    return click.option("--rung", metavar="R", default=default, show_default=default is not None, help=help)


#: Option --rung of commands that compute with a trained net.
computing_rung_option = rung_option("Rung or peer that computes; the one that trained if not given.")


def limit_options(help: str, default: int | None = None) -> Decorator:
    """Options --limit and --seed of commands without training settings."""
    return together(
        click.option("--limit", metavar="N", type=int, help=help),
        click.option(
            "--seed", type=int, default=default, show_default=True, help="Seed of that subset; 0 if not given."
        ),
    )


def out_option(kind: str, help: str, *short: str) -> Decorator:
    """Option --out FILE or --out DIR, with the command's line of help."""
    return click.option(*short, "--out", metavar=kind, type=click.Path(path_type=Path), help=help)


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace files that are there already.")


class Seconds(click.FloatRange):
    """Number of seconds on the command line; NaN is none."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if seconds != seconds:
            self.fail("wants a number of seconds, got nan", param, ctx)
        return seconds


def timeout_option(text: str) -> Decorator:
    """Option --timeout: most seconds of a launch, 60 by default; 0 sets no limit."""
    return click.option("--timeout", metavar="SECONDS", type=Seconds(min=0), default=60, show_default=True, help=text)


progress_option = click.option(
    "--progress/--no-progress", default=None, help="Show progress on stderr; on a terminal if not given."
)
