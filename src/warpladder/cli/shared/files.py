"""Files and folders that commands write, and the text of a command that repeats one."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import click
from click.core import ParameterSource

from ...errors import WarpladderError
from .types import Widths


def as_file_name(name: str) -> str:
    """Name as a file name: characters that file systems or shells reject become dashes."""
    return re.sub(r"[^\w.+-]+", "-", name).lstrip(".-") or "net"


@contextmanager
def fresh_folder(name: str, remedy: str) -> Iterator[Path]:
    """New folder runs/NAME-TIME. It is created before the work, so that an error is raised early, and removed if it
    stays empty.

    remedy : part of the error's message: how to write to another place.
    """
    path = Path("runs", f"{as_file_name(name)}-{datetime.now():%Y%m%d-%H%M%S}")
    number = 1
    while True:
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            folder.mkdir(parents=True)
            break
        except OSError as error:
            if not (isinstance(error, FileExistsError) and folder.is_dir()):
                raise WarpladderError(f"{folder}: cannot be made ({error.strerror or error}): {remedy}") from None
            number += 1
    try:
        yield folder
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()


def check_place(path: Path, overwrite: bool, *others: Path) -> None:
    """Raise `WarpladderError` if a file cannot be written, exists already, or is one of the command's files
    `others`.
    """
    for other in others:
        if _same(path, other):
            raise WarpladderError(f"{path}: is what the command works with: name another file")
    if path.is_dir():
        raise WarpladderError(f"{path}: is a folder: name a file in it")
    if not path.parent.is_dir():
        raise WarpladderError(f"{path}: there is no folder {path.parent}: make it first")
    if not os.access(path.parent, os.W_OK):
        raise WarpladderError(f"{path}: the folder {path.parent} cannot be written: name a file elsewhere")
    if os.path.lexists(path) and not overwrite:
        raise WarpladderError(f"{path}: is there already: name another file, or insist with --overwrite")


def write(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises `WarpladderError` with its name."""
    from ...files.atomic import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise WarpladderError(f"{path}: could not be written: {error.strerror or error}") from None


def again(ctx: click.Context, *names: str | None) -> list[str]:
    """Words of a command line with these parameters: options with their names, and a net's file instead of its name."""
    words: list[str] = []
    for parameter in (each for each in ctx.command.params if each.name in names):
        value = ctx.params.get(parameter.name or "")
        between = "," if isinstance(parameter.type, Widths) else "x"
        shown = between.join(map(str, value)) if isinstance(value, tuple) else str(value)
        if isinstance(parameter, click.Argument):
            words += [shown] * (value is not None)  # also where --net gave it
        elif parameter.expose_value and ctx.get_parameter_source(parameter.name or "") == ParameterSource.COMMANDLINE:
            assert isinstance(parameter, click.Option)
            flag = parameter.opts[0] if value or not parameter.is_flag else parameter.secondary_opts[0]
            if parameter.multiple:
                words += [word for each in value or () for word in (flag, str(each))]
            else:
                words += [flag] if parameter.is_flag else [flag, shown]
    return words


def command(*words: str) -> str:
    """Command of warpladder as typed in a shell."""
    return shlex.join(["warpladder", *words])


def _same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other) or (
        path.exists() and other.exists() and os.path.samefile(path, other)
    )
