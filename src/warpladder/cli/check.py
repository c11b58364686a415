"""`warpladder check`: kernels of a .cu file run on the CPU and watched, and what is wrong with them said in words."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..device.signature import Signature
    from ..device.source import Source
    from ..emulator.check import Outcome, Problem
    from ..emulator.describe import Description

ARRAYS = """\
An array is described by its length or shape, 1000 or [m,n], and what it holds:
:random (if nothing is said), :random(0,10), :zeros, :ones, :iota, :uninitialised;
or by a file, x.npy. Several launches are described in a TOML file (docs/check.md)."""
#: Lines that kernels print and that are shown.
PRINTED = 20
MODES, ORDERS = ("check", "asan", "fast"), ("forward", "reverse", "random")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Kernel to launch, if the file has several: add, or tiled<16, true>.")
@click.option("--grid", metavar="X,Y,Z", help="Blocks along each axis.")
@click.option("--block", metavar="X,Y,Z", help="Threads of a block along each axis.")
@click.option("--arg", "arguments", metavar="NAME=WHAT", multiple=True, help="A number, or an array: x=1000, x=[m,n]:zeros, x=x.npy.")
@click.option("--shared", metavar="BYTES", help="Dynamic shared memory of a block.")
@click.option("--mode", type=click.Choice((*MODES, "all")), default="all", show_default=True, help="How the kernels are watched.")
@click.option("--order", type=click.Choice((*ORDERS, "all")), default="all", show_default=True, help="Order of threads in the fast mode.")
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Seed of random arrays and of the random order.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(context: click.Context, file: Path, mode: str, order: str, seed: int, as_json: bool, **asked: Any) -> None:
    """Check the kernels in FILE for races, missing barriers and bad memory accesses, without a GPU.

    FILE is a .cu file, or a .toml file that describes launches of one. Without a launch the kernels of the file are listed.
    Returns 0 if nothing was found, 1 if something was, 2 if it could not be checked.

    \b
    Examples:
      warpladder check relu.cu
      warpladder check relu.cu --grid 4 --block 256 --arg x=1000 --arg n=1000
      warpladder check relu.toml --mode check
    """
    from ..emulator.describe import read

    if file.suffix == ".toml":
        given = [f"--{name.removesuffix('uments')}" for name, value in asked.items() if value]
        if given:
            raise click.UsageError(f"{file.name} says what is launched: {', '.join(given)} would say it twice", context)
        description = read(file)
    elif not any(asked.values()):
        _list(file, as_json)
        return
    else:
        description = _described(file, asked, context)
    from ..emulator.check import check as run

    modes, orders = MODES if mode == "all" else (mode,), ORDERS if order == "all" else (order,)
    with console(stderr=True).status(f"Running {_count(len(description.launches), 'launch')}"):
        outcome = run(description, modes, orders, seed)
    if as_json:
        click.echo(json.dumps(asdict(outcome), indent=2))
    else:
        _show(outcome)
    context.exit(1 if outcome.problems else 0)


def _list(file: Path, as_json: bool) -> None:
    """The kernels of a file, and how one of them is checked."""
    from ..device.signature import names, signature, templates
    from ..emulator.hostcode import device_code, host_code
    from ..errors import KernelError

    source = device_code(file)
    found, instances = names(source), templates(source)
    if not found:
        raise KernelError(f"{file} has no kernels: no function in it is __global__")
    plain = [signature(source, name) for name in found if name not in instances]
    if as_json:
        kernels = [{"name": s.name, "parameters": [str(p) for p in s.parameters]} for s in plain]
        click.echo(json.dumps({"kernels": kernels, "templates": instances}, indent=2))
        return
    click.echo(f"{file} has {_count(len(found), 'kernel')}:\n")
    for kernel in plain:
        click.echo(f"  {kernel}")
    for name in found:
        if name in instances:
            click.echo(f"  {name}<{instances[name]}>, a template: --kernel '{name}<...>' names an instance")
    launched = re.findall(r"[\w:]+\s*(?:<[^<>;]*>)?\s*<<\s*<[^;]*?>>\s*>\s*\([^;]*?\)(?=\s*;)", host_code(file))
    if launched:
        click.echo("\nThe file launches:\n")
        for launch in dict.fromkeys(" ".join(text.split()) for text in launched):
            click.echo(f"  {launch}")
    click.echo("\nTo check one, say how it is launched and what it is given:\n")
    click.echo(_example(file, source, plain, found))
    click.echo(f"\n{ARRAYS}")
    if file.with_suffix(".toml").is_file():
        click.echo(f"There is one beside it: warpladder check {file.with_suffix('.toml')}")


def _example(file: Path, source: Source, plain: list[Signature], found: list[str]) -> str:
    """A command line to begin with, in lines of 80 columns."""
    words = [f"warpladder check {file}"]
    if len(found) > 1 or not plain:
        words.append(f"--kernel {plain[0].name if plain else repr(found[0] + '<...>')}")
    words += ["--grid 4", "--block 256", *(["--shared 1024"] if "extern __shared__" in source.text else [])]
    for parameter in plain[0].parameters if plain else ():
        words.append(f"--arg {parameter.name}={1000 if parameter.pointer or parameter.dtype.kind in 'iu' else 1}")
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > 76:
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _described(file: Path, asked: dict[str, Any], context: click.Context) -> Description:
    """The single launch that the options describe."""
    from ..device.signature import signature
    from ..emulator.describe import Asked, Content, Description, content, sizes
    from ..emulator.hostcode import device_code
    from ..emulator.plan import only_kernel

    for name in ("grid", "block"):
        if not asked[name]:
            raise click.UsageError(f"--{name} is missing: a launch has a --grid and a --block", context)
    source = device_code(file)
    kernel = signature(source, asked["kernel"] or only_kernel(source))
    pointers = {parameter.name: parameter.pointer for parameter in kernel.parameters}
    values: dict[str, str] = {}
    arrays: dict[str, Content] = {}
    null: dict[str, str] = {}
    for text in asked["arguments"]:
        name, equals, what = (part.strip() for part in text.partition("="))
        if not equals:
            raise click.UsageError(f"--arg wants NAME=WHAT, got '{text}'", context)
        if name in values or name in arrays or name in null:
            raise click.UsageError(f"--arg {name} is given twice", context)
        if not pointers.get(name, False):
            values[name] = what  # perhaps no parameter, but a name to calculate with
        elif what in ("null", "nullptr"):
            null[name] = what
        else:
            arrays[name] = content(what, f"--arg {name}")
    grid, block = sizes(asked["grid"], "--grid"), sizes(asked["block"], "--block")
    return Description(file, (Asked(kernel.name, grid, block, asked["shared"] or 0, null),), values, arrays)


def _show(outcome: Outcome) -> None:
    from rich.text import Text

    out = console()
    for number, problem in enumerate(outcome.problems, 1):
        _show_problem(number, problem, out)
    if outcome.printed:
        lines = outcome.printed.splitlines()
        more = f"\n... and {len(lines) - PRINTED:,} more lines" if len(lines) > PRINTED else ""
        out.print(Text("Printed by the kernels:\n" + "\n".join(lines[:PRINTED]) + more + "\n"))
    for remark in outcome.remarks:
        out.print(_wrapped(f"Remark: {remark}.", out, ""))
        out.print()
    modes = [mode for mode in outcome.ran if not mode.endswith("order")]
    orders = len(outcome.ran) - len(modes)
    ran = " + ".join([*modes, *([_count(orders, "order")] if orders else [])])
    launches = _count(outcome.launches, "launch")
    if outcome.problems:
        out.print(f"{_count(len(outcome.problems), 'problem')} in {launches}: {ran}", style="bold red")
    else:
        out.print(f"no problem found: {launches}, {ran}", style="bold green")


def _show_problem(number: int, problem: Problem, out: Console) -> None:
    """A heading, what happened, the lines of source that it took, and how it is usually mended."""
    from rich.text import Text

    from ..emulator.hints import HINTS

    on = f" on {problem.array}" if problem.array else ""
    out.print(Text(f"{number}. ").append(problem.kind + on, "bold red").append(f", kernel {problem.kernel}"))
    out.print(_wrapped(problem.message, out))
    shown = _source(problem, out.width)
    for line in [Text(), *shown, Text()] if shown else []:
        out.print(line, no_wrap=True, crop=False)
    if problem.kind in HINTS:
        out.print(_wrapped(f"Usually: {HINTS[problem.kind]}", out), style="cyan")
    if problem.places:
        times = f"{problem.count:,} times, " if problem.count > 1 else ""
        out.print(_wrapped(f"Seen {times}by {_together(problem.seen)}.", out), style="dim")
    out.print()


def _wrapped(text: str, out: Console, indent: str = "   ") -> Text:
    from rich.text import Text

    return Text(textwrap.fill(text, min(out.width, 120) - 1, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


def _source(problem: Problem, width: int) -> list[Text]:
    """The lines of source under their places, and below each marks where it touches the array."""
    from rich.text import Text

    places = list(dict.fromkeys(problem.places))
    names = [f"{Path(file).name}:{line}" for file, line in places]
    margin = max(map(len, names), default=0) + 5
    shown = []
    for (file, line), name in zip(places, names, strict=True):
        text = _line(file, line)
        marks = _marks(text, problem.array)
        room = width - margin - 4
        beyond = min(len(marks.rstrip()) - room + 1, marks.find("^"))
        if beyond > 0:  # what matters stands on the right
            text, marks = "\N{HORIZONTAL ELLIPSIS}" + text[beyond + 1 :], " " + marks[beyond + 1 :]
        if len(text) > room:
            text, marks = text[: room - 1] + "\N{HORIZONTAL ELLIPSIS}", marks[: room - 1]
        shown.append(Text(f"{name:>{margin}} | ", "dim").append(text, "not dim"))
        if marks.strip():
            shown.append(Text(" " * margin + " | ", "dim").append(marks.rstrip(), "red not dim"))
    return shown


def _line(file: str, line: int) -> str:
    """A line of a file, without the blanks around it; "" where it cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()[line - 1].expandtabs(4).strip()
    except (OSError, UnicodeDecodeError, IndexError):
        return ""


def _marks(text: str, array: str) -> str:
    """^ under every place of a line that names the array, with the index behind it; a blank elsewhere."""
    marks = [" "] * len(text)
    for match in re.finditer(rf"\b{re.escape(array)}\b(?:\s*\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])*", text) if array else ():
        marks[match.start() : match.end()] = "^" * len(match[0])
    return "".join(marks)


def _together(words: tuple[str, ...]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _count(number: int, what: str) -> str:
    """1 launch, 3 launches."""
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('ch') else 's'}"
