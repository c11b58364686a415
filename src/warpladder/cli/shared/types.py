"""Types of command-line values: a batch size, a shape, a net's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ...nets import ZOO, Net, Shape, is_net_file

NETS: dict[str, Callable[..., Net]] = {make.__name__: make for make in ZOO}


class BatchSize(click.ParamType):
    """Type of a batch size: a whole number, or `full` for the whole training set at each step."""

    name = "N|full"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        if value == "full" or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"wants a whole number or 'full', got {value!r}", param, ctx)


class ShapeOf(click.ParamType):
    """Type of a shape, as 3x32x32."""

    name = "CxHxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shape:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split("x"))
        except ValueError:
            self.fail(f"wants whole numbers with x between them, as 3x32x32, got {value!r}", param, ctx)


class Widths(click.ParamType):
    """Type of widths of hidden layers, as 512,256."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in value.split(",")]
        if not all(part.isdecimal() and int(part) > 0 for part in parts):
            self.fail(
                f"wants whole numbers of at least 1 with commas between them, as 512,256, got {value!r}", param, ctx
            )
        return tuple(map(int, parts))


class NetName(click.Choice[str]):
    """Type of a net: the name of a known net, or the user's file with one."""

    def __init__(self) -> None:
        super().__init__(tuple(NETS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_net_file(value):
            try:
                return super().convert(value, param, ctx)
            except click.BadParameter as error:
                from ...data import NAMES

                file = next((name for name in (f"{value}.toml", f"{value}.py") if Path(name).is_file()), None)
                if file:
                    more = f"did you mean the file, --net {file}?"
                elif Path(value).exists() or value in NAMES:
                    more = f"if {value} holds the data, write a net before it: mlp --data {value}"
                else:
                    more = "a net of your own is a file: --net FILE.toml or FILE.py"
                self.fail(f"{error.message.rstrip('.')}; {more}", param, ctx)
        return str(value)
