"""Options that describe a launch, and the description they define, for commands that run the kernels of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import together

if TYPE_CHECKING:
    from ...checker.description import Description

launch_options = together(
    click.option(
        "--kernel", metavar="NAME", help="Kernel to launch, if the file has several: add, or tiled<16, true>."
    ),
    click.option("--grid", metavar="X,Y,Z", help="Blocks along each axis."),
    click.option("--block", metavar="X,Y,Z", help="Threads of a block along each axis."),
    click.option(
        "--arg",
        "arguments",
        metavar="NAME=WHAT",
        multiple=True,
        help="A number, or an array: x=1000, x=[m,n]:zeros, x=x.npy.",
    ),
    click.option("--shared", metavar="BYTES", help="Dynamic shared memory of a block."),
    click.option(
        "--constant",
        "constants",
        metavar="NAME=WHAT",
        multiple=True,
        help="What a __constant__ variable holds: a number, 1,2,1, random or x.npy.",
    ),
    click.option(
        "--cooperative", is_flag=True, help="Run all blocks at the same time, for kernels that wait for the whole grid."
    ),
)


def described(file: Path, requested: dict[str, Any], context: click.Context) -> Description | None:
    """Description of launches, from a .toml file or the options; None without either."""
    from ...checker.description import read

    if file.suffix == ".toml":
        given = [f"--{name.removesuffix('uments').removesuffix('s')}" for name, value in requested.items() if value]
        if given:
            raise click.UsageError(f"{file.name} states what is launched: leave out {', '.join(given)}", context)
        return read(file)
    return _of_options(file, requested, context) if any(requested.values()) else None


def _of_options(file: Path, requested: dict[str, Any], context: click.Context) -> Description:
    """Description of the single launch that the options define."""
    from ...checker.description import Content, Description, LaunchRequest, content, sizes
    from ...checker.plan import only_kernel
    from ...device.declarations import signature
    from ...device.emulator.hostcode import device_code

    for name in ("grid", "block"):
        if not requested[name]:
            raise click.UsageError(f"--{name} is missing: a launch has a --grid and a --block", context)
    source = device_code(file)
    kernel = signature(source, requested["kernel"] or only_kernel(source))
    pointers = {leaf.name: leaf.pointer for parameter in kernel.parameters for leaf in parameter.leaves}
    values: dict[str, str] = {}
    arrays: dict[str, Content] = {}
    null: dict[str, str] = {}
    for text in requested["arguments"]:
        name, equals, what = (part.strip() for part in text.partition("="))
        if not equals:
            raise click.UsageError(f"--arg wants NAME=WHAT, got '{text}'", context)
        if name in values or name in arrays or name in null:
            raise click.UsageError(f"--arg {name} is given twice", context)
        if not pointers.get(name, False):
            values[name] = what  # perhaps no parameter, but a name used in expressions
        elif what in ("null", "nullptr"):
            null[name] = what
        else:
            arrays[name] = content(what, f"--arg {name}")
    constants: dict[str, Any] = {}
    for text in requested["constants"]:
        name, equals, what = (part.strip() for part in text.partition("="))
        if not equals or name in constants:
            raise click.UsageError(f"--constant wants NAME=WHAT, each name once, got '{text}'", context)
        constants[name] = sizes(what, "--constant") if "," in what and "(" not in what else what
    grid, block = sizes(requested["grid"], "--grid"), sizes(requested["block"], "--block")
    launch = LaunchRequest(kernel.name, grid, block, requested["shared"] or 0, null, requested["cooperative"])
    return Description(file, (launch,), values, arrays, constants=constants)
