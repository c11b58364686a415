"""NET argument of commands, or --net FILE or --hidden instead; and the .py file of a trained net."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any, cast

import click

from ...errors import NetError
from ...files.python import run_file
from ...nets import is_net_file
from .options import Command, Decorator, together
from .types import NetName, Widths


def net_argument(required: bool = True) -> Decorator:
    """Decorator for NET by name, or --net FILE. Both become the parameter `net_name`: a name, a file's path, or None.

    --hidden becomes the parameter `hidden`: widths of hidden layers, or None; without a net the net is mlp.
    """

    def keep(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        ctx.meta[_NET_FILE] = value

    def one(ctx: click.Context, argument: click.Parameter, value: str | None) -> str | None:
        own = ctx.meta[_NET_FILE]
        if value is not None and own is not None:
            raise click.UsageError(f"there are two nets, {value} and --net {own}: leave one out", ctx)
        if value is None and own is None and ctx.params.get("hidden"):
            return "mlp"
        if required and value is None and own is None:
            if (resumed := ctx.params.get("resume")) is not None:
                raise click.UsageError(_resuming(resumed), ctx)
            more = "Name a net, or the widths of a perceptron, --hidden 512,256"
            raise click.MissingParameter(more, ctx=ctx, param=argument)
        return own if value is None else value

    def checked(command: Command) -> Command:
        """Command that checks the net's file before anything is downloaded or computed."""

        @wraps(command)
        def with_file(*arguments: Any, **options: Any) -> Any:
            name = options["net_name"]
            if name is not None and is_net_file(name) and not Path(name).is_file():
                raise NetError(
                    f"{name}: {'is a folder' if Path(name).is_dir() else 'there is no such file'}: --net wants "
                    "a .toml or .py file"
                )
            bring(name)
            return command(*arguments, **options)

        return cast(Command, with_file)

    metavar = "NET" if required else "[NET]"
    return together(
        click.argument("net_name", metavar=metavar, required=False, type=NetName(), callback=one),
        click.option(
            "--net",
            metavar="FILE",
            type=NetName(),
            is_eager=True,
            expose_value=False,
            callback=keep,
            help="A net of your own in place of NET: a .toml or .py file.",
        ),
        click.option(
            "--hidden",
            type=Widths(),
            is_eager=True,
            help="Widths of hidden layers, in place of NET or of those that NET has: 512,256.",
        ),
        checked,
    )


_NET_FILE = "warpladder.own net"


def _resuming(path: Path) -> str:
    """Message to a user who resumes a run without its net. Raises CheckpointError if there is no checkpoint."""
    from ...checkpoint import load

    trained = load(path)
    return f"{path} holds a run of {trained.net.name} on {trained.data.name}: --resume wants both again, NET and --data"


def bring(net_file: str | None) -> None:
    """Run a net's Python file. Afterwards its layers, optimizers and schedules are known, to checkpoints too."""
    if net_file is not None and net_file.endswith(".py"):
        run_file(net_file, NetError)


#: Option for the .py file of a trained net. A checkpoint names the net's layers, but does not have their code.
net_file_option = click.option(
    "--net", "net_file", metavar="FILE", help="The .py file of its net, where that has layers of your own."
)
