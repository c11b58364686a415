"""What several commands share: options, what is made of them, and a console."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ..config import RECIPES, TrainConfig
from ..config.spelling import OWN, configured
from ..errors import NetError, RungError
from ..files.python import run_file
from ..nets import ZOO, Net, Shape, named
from ..rungs.options import DEVICES

if TYPE_CHECKING:
    from rich.console import Console

    from ..data.dataset import Dataset
    from ..rungs.base import Rung

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


class BatchSize(click.ParamType):
    """A whole number, or `full` for the whole training set at each step."""

    name = "N|full"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if value == "full" or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"wants a whole number or 'full', got {value!r}", param, ctx)


class ShapeOf(click.ParamType):
    """A shape as 3x32x32."""

    name = "CxHxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shape:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split("x"))
        except ValueError:
            self.fail(f"wants whole numbers with x between them, as 3x32x32, got {value!r}", param, ctx)


NETS: dict[str, Callable[..., Net]] = {make.__name__: make for make in ZOO}


class NetName(click.Choice[str]):
    """The name of a net that there is, or a file with one of the user's own."""

    def __init__(self) -> None:
        super().__init__(tuple(NETS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_net_file(value):
            try:
                return super().convert(value, param, ctx)
            except click.BadParameter as error:
                file = next((name for name in (f"{value}.toml", f"{value}.py") if Path(name).is_file()), None)
                more = (
                    f"did you mean the file, --net {file}?"
                    if file
                    else "a net of your own is a file: --net FILE.toml or FILE.py"
                )
                self.fail(f"{error.message.rstrip('.')}; {more}", param, ctx)
        return str(value)


def is_net_file(name: str) -> bool:
    """Whether a net is named by a file: by an ending that one has, or a folder."""
    return name.endswith((".toml", ".py")) or "/" in name or os.sep in name


def net_argument(required: bool = True) -> Decorator:
    """NET by name, or --net FILE: both reach the command as `net_name`, the name or the file's path; None where neither
    is given or required.
    """

    def keep(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        ctx.meta[_OWN] = value

    def one(ctx: click.Context, argument: click.Parameter, value: str | None) -> str | None:
        own = ctx.meta[_OWN]
        if value is not None and own is not None:
            raise click.UsageError(f"there are two nets, {value} and --net {own}: leave one out", ctx)
        if required and value is None and own is None:
            raise click.MissingParameter(ctx=ctx, param=argument)
        return own if value is None else value

    def checked(command: Command) -> Command:
        """Look for the file before anything is downloaded or computed for its net."""

        @wraps(command)
        def with_file(*arguments: Any, **options: Any) -> Any:
            name = options["net_name"]
            if name is not None and is_net_file(name) and not Path(name).is_file():
                raise NetError(
                    f"{name}: {'is a folder' if Path(name).is_dir() else 'there is no such file'}: --net wants a .toml or .py file"
                )
            bring(name)
            return command(*arguments, **options)

        return cast(Command, with_file)

    return _together(
        click.argument("net_name", metavar="NET" if required else "[NET]", required=False, type=NetName(), callback=one),
        click.option(
            "--net", metavar="FILE", type=NetName(), is_eager=True, expose_value=False, callback=keep,
            help="A net of your own in place of NET: a .toml or .py file.",
        ),
        checked,
    )  # fmt: skip


_OWN = "warpladder.own net"


def bring(net_file: str | None) -> None:
    """Run a net's Python file: layers, optimizers and schedules of the user's own that it imports are known from then
    on, to checkpoints too.
    """
    if net_file is not None and net_file.endswith(".py"):
        run_file(net_file, NetError)


#: The file of a trained net: a checkpoint says which layers the net has, and not how they are computed.
net_file_option = click.option(
    "--net", "net_file", metavar="FILE", help="The .py file of its net, where that has layers of your own."
)


def _together(*options: Decorator) -> Decorator:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


#: Where the data set's files are.
place_options = _together(
    click.option(
        "--data-dir",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Folder with the data set's files; nothing is downloaded. WARPLADDER_DATA names one for all commands.",
    ),
    click.option("--shape", type=ShapeOf(), help="Shape of one sample, for csv only."),
)

#: Which data set, and where its files are.
data_options = _together(
    click.option(
        "--data",
        "data_name",
        metavar="D",
        required=True,
        help="Data set: digits, mnist, fashion, cifar10, csv, or a .py file of your own.",
    ),
    place_options,
)

#: Which of its rows train.
split_options = _together(
    click.option("--limit", metavar="N", type=int, help="Train on a seeded subset of N samples."),
    click.option("--validation", metavar="N", type=int, help="Split N training samples off, to validate with."),
    click.option(
        "--scale-features",
        is_flag=True,
        help="Give features, or channels, mean 0 and deviation 1; cells of a csv may then be any numbers.",
    ),
)

#: Every setting of `TrainConfig`; what is not given is None.
config_options = _together(
    click.option("--epochs", type=int, help="Passes over the training set."),
    click.option("--batch-size", type=BatchSize(), help="Samples in a step, or 'full'."),
    click.option(
        "--optimizer", metavar="NAME", help="sgd, adam or adamw, and settings of it: adam:betas=0.9+0.99:eps=1e-7."
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
        help="How the rate goes: constant, step or cosine, as step:every=5:gamma=0.5, cosine:warmup=1:least=1e-5.",
    ),
    click.option("--clip-value", type=float, help="Clip every gradient element to +-this."),
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


#: Options of rungs that hold for every rung that is named and has them.
SHARED = ("threads", "device", "block_size")


rung_options = _together(
    click.option("--threads", type=int, help="CPU threads of every rung that has the option; every core if not given."),
    click.option(
        "--device", type=click.Choice(DEVICES), help="Run CUDA rungs without a GPU: their kernels on the CPU, slowly."
    ),
    click.option(
        "--block-size", type=int, help="Threads in a block of CUDA kernels, 32 to 1024; each rung's own if not given."
    ),
)


def with_shared(rungs: Sequence[Rung], options: dict[str, Any]) -> list[Rung]:
    """Rungs with `--threads`, `--device` and `--block-size`, each where it has the option and says nothing else itself.

    Raises
    ------
    RungError
        None of the rungs has an option that was given.
    """
    out = list(rungs)
    for name in SHARED:
        value = options.get(name)
        if value is None:
            continue
        if not any(_could(rung, name) for rung in out):
            from ..ladder import LADDER

            having = ", ".join(rung.name for rung in LADDER if _could(rung, name))
            who = f"rung {out[0].name!r} has" if len(out) == 1 else "these rungs have"
            raise RungError(f"{who} no choice of {name}: leave it out, or take one of those that have it, {having}")
        out = [rung.but(**{name: value}) if _follows(rung, name) else rung for rung in out]
    return out


def _could(rung: Rung, name: str) -> bool:
    """Whether an option that all rungs share is one of this rung's; a peer's device is another matter, and on a GPU a
    peer has no threads.
    """
    if name == "threads":
        return rung.threaded
    return rung.has(name) and (name != "device" or rung.has("block_size"))


def _follows(rung: Rung, name: str) -> bool:
    """Whether a shared option is set on this rung: the rung has the option, and its name says nothing of it yet."""
    return _could(rung, name) and name not in rung.options.chosen()


def fitted(name: str, data: Dataset) -> Net:
    """The zoo's net of this name, or the net in this file, for this data set's samples and classes."""
    shape = data.in_shape
    if is_net_file(name):
        from ..nets.file import load_net

        return load_net(name, shape, data.classes or 10)
    return named(name, shape, data.classes or 10)


def chosen_config(net_name: str, options: dict[str, Any], base: TrainConfig | None = None) -> TrainConfig:
    """`base`, or else the net's recipe, with the settings among the options that were given.

    A net from a file has no recipe, and an optimizer that is not the recipe's has a learning rate of its own: what is
    taken unasked is said on stderr.
    """
    names = (*(field.name for field in fields(TrainConfig)), *OWN)
    asked = {name: options[name] for name in names if options.get(name) is not None}
    before = base or (TrainConfig() if is_net_file(net_name) else RECIPES[net_name])
    config = configured(before, asked)
    if base is None:
        _say_unasked(
            net_name,
            config,
            before,
            {*asked, *(options.get("optimizer") or "").replace(":", "=").replace("-", "_").split("=")},
        )
    return config


def _say_unasked(net_name: str, config: TrainConfig, before: TrainConfig, asked: set[str]) -> None:
    """On stderr: what is taken where nothing was said and no report says it."""
    told: dict[str, Any] = {"epochs": config.epochs, "batch_size": config.batch_size} if is_net_file(net_name) else {}
    if told or type(config.optimizer) is not type(before.optimizer):
        told["learning_rate"] = config.learning_rate
    unasked = [f"--{name.replace('_', '-')} {value}" for name, value in told.items() if name not in asked]
    if unasked:
        click.echo(f"{net_name} is trained with {', '.join(unasked)}, as nothing else was said", err=True)


def chosen_data(options: dict[str, Any], **more: Any) -> Dataset:
    """The data set that the options ask for."""
    from ..data import load

    names = ("data_dir", "limit", "shape", "validation")
    asked = {name: options[name] for name in names if options.get(name) is not None}
    if options.get("scale_features"):
        asked["standardize"] = True
    return load(options["data_name"], seed=options.get("seed") or 0, **asked, **more)


def percent(share: float) -> str:
    """A share from 0 to 1 as 97.93 %."""
    return f"{100 * share:.2f} %"


def console(stderr: bool = False) -> Console:
    """Where tables go: colours only on a terminal, 80 columns wide where there is none."""
    from rich.console import Console

    return Console(highlight=False, stderr=stderr)
