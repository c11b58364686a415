"""Options that describe a launch, and the description they define, for commands that run the kernels of a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import together

if TYPE_CHECKING:
    from ...checker.description import Content, Description

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
        help="A number, or an array: x=1000, x=[m,n]:zeros, x=x.npy, x=x+3.",
    ),
    click.option(
        "--expect", "expected", metavar="NAME=FILE.npy", multiple=True, help="What an array must hold in the end."
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


_OPTIONS = {"arguments": "arg", "constants": "constant", "expected": "expect"}


def described(file: Path, requested: dict[str, Any], context: click.Context) -> Description | None:
    """Description of launches, from a .toml file or the options; None without either."""
    from ...checker.description import read

    if file.suffix == ".toml":
        given = [f"--{_OPTIONS.get(name, name)}" for name, value in requested.items() if value]
        if given:
            raise click.UsageError(f"{file.name} states what is launched: leave out {', '.join(given)}", context)
        return read(file)
    return _of_options(file, requested, context) if any(requested.values()) else None


def _of_options(file: Path, requested: dict[str, Any], context: click.Context) -> Description:
    """Description of the single launch that the options request."""
    from ...checker.description import Description, LaunchRequest, sizes
    from ...checker.plan import only_kernel
    from ...device.declarations import signature
    from ...device.emulator.hostcode import device_code

    for name in ("grid", "block"):
        if not requested[name]:
            raise click.UsageError(f"--{name} is missing: a launch has a --grid and a --block", context)
    source = device_code(file)
    kernel = signature(source, requested["kernel"] or only_kernel(source))
    pointers = {leaf.name: leaf.pointer for parameter in kernel.parameters for leaf in parameter.leaves}
    values, arrays, others = _arguments(requested["arguments"], pointers, context)
    expect = {}
    for name, held in (_split(text, "--expect", "NAME=FILE.npy", context) for text in requested["expected"]):
        if name not in arrays or not held.endswith(".npy"):
            there = ", ".join(arrays) or "none"
            raise click.UsageError(f"--expect wants ARRAY=FILE.npy, got '{name}={held}'; arrays are {there}", context)
        expect[name] = Path(held)
    constants: dict[str, Any] = {}
    for text in requested["constants"]:
        name, what = _split(text, "--constant", "NAME=WHAT", context)
        if name in constants:
            raise click.UsageError(f"--constant {name} is given twice", context)
        constants[name] = sizes(what, "--constant") if "," in what and "(" not in what else what
    grid, block = sizes(requested["grid"], "--grid"), sizes(requested["block"], "--block")
    launch = LaunchRequest(kernel.name, grid, block, requested["shared"] or 0, others, requested["cooperative"])
    return Description(file, (launch,), values, arrays, expect, constants)


def _arguments(
    texts: tuple[str, ...], pointers: dict[str, bool], context: click.Context
) -> tuple[dict[str, str], dict[str, Content], dict[str, str]]:
    """Numbers, contents of arrays, and arguments that are null or a pointer into an array, by name.

    pointers : by parameter, True for a pointer. Any other name stands for an array if what it holds is described, and
    for a number to calculate with otherwise.
    """
    from ...checker.description import content
    from ...checker.plan import within

    values: dict[str, str] = {}
    arrays: dict[str, Content] = {}
    others: dict[str, str] = {}
    seen = set()
    given = [_split(text, "--arg", "NAME=WHAT", context) for text in texts]
    named = {name for name, what in given if pointers.get(name, bool(re.search(r"[:\[]|\.npy$", what)))}
    for name, what in given:
        is_pointer = bool(pointers.get(name) and within(what, named))
        if (name, is_pointer) in seen:
            raise click.UsageError(f"--arg {name} is given twice", context)
        seen.add((name, is_pointer))
        if is_pointer or (pointers.get(name) and what in ("null", "nullptr")):
            others[name] = what
        elif name in named:
            arrays[name] = content(what, f"--arg {name}")
        else:
            values[name] = what
    return values, arrays, others


def _split(text: str, option: str, form: str, context: click.Context) -> tuple[str, str]:
    name, equals, what = (part.strip() for part in text.partition("="))
    if not equals:
        raise click.UsageError(f"{option} wants {form}, got '{text}'", context)
    return name, what
