"""`warpladder check`: runs the kernels of a .cu file on the CPU, and reports their faults in words."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .faults import count, show
from .kernels import has_main, listed
from .shared.console import console

if TYPE_CHECKING:
    from ..checker.description import Description
    from ..checker.faults import Problem

MODES, ORDERS = ("check", "asan", "fast"), ("forward", "reverse", "random")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Kernel to launch, if the file has several: add, or tiled<16, true>.")
@click.option("--grid", metavar="X,Y,Z", help="Blocks along each axis.")
@click.option("--block", metavar="X,Y,Z", help="Threads of a block along each axis.")
@click.option(
    "--arg",
    "arguments",
    metavar="NAME=WHAT",
    multiple=True,
    help="A number, or an array: x=1000, x=[m,n]:zeros, x=x.npy.",
)
@click.option("--shared", metavar="BYTES", help="Dynamic shared memory of a block.")
@click.option(
    "--constant",
    "constants",
    metavar="NAME=WHAT",
    multiple=True,
    help="What a __constant__ variable holds: a number, 1,2,1, random or x.npy.",
)
@click.option(
    "--cooperative", is_flag=True, help="Run all blocks at the same time, for kernels that wait for the whole grid."
)
@click.option(
    "--mode", type=click.Choice((*MODES, "all")), default="all", show_default=True, help="How the kernels are watched."
)
@click.option(
    "--order",
    type=click.Choice((*ORDERS, "all")),
    default="all",
    show_default=True,
    help="Order of threads in the fast mode.",
)
@click.option(
    "--seed", metavar="N", type=int, default=0, show_default=True, help="Seed of random arrays and of the random order."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    help="How long a launch may run in each mode; 0 for as long as it takes.",
)
@click.option("--list", "is_list", is_flag=True, help="List the kernels of a program instead of running it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(
    context: click.Context,
    file: Path,
    mode: str,
    order: str,
    seed: int,
    timeout: float,
    is_list: bool,
    as_json: bool,
    **requested: Any,
) -> None:
    """Check the kernels in FILE for races, missing barriers and bad memory accesses, without a GPU.

    FILE is a .cu file, or a .toml file that describes launches of one. Without a launch a program with a main() is run,
    with all its launches checked, and of another file the kernels are listed. Returns 0 if nothing was found, 1 if
    something was, 2 if it or one of its kernels could not be checked, 130 if Ctrl-C ended it.

    \b
    Examples:
      warpladder check program.cu
      warpladder check relu.cu --grid 4 --block 256 --arg x=1000 --arg n=1000
      warpladder check relu.toml --mode check
    """
    from ..checker.description import read

    if file.suffix == ".toml":
        given = [f"--{name.removesuffix('uments').removesuffix('s')}" for name, value in requested.items() if value]
        if given:
            raise click.UsageError(f"{file.name} states what is launched: leave out {', '.join(given)}", context)
        description = read(file)
    elif not any(requested.values()):
        if not (is_list or as_json) and has_main(file):
            context.exit(_run(file, timeout))
        listed(file, as_json)
        return
    else:
        description = _described(file, requested, context)
    from ..checker.check import check as run

    modes, orders = MODES if mode == "all" else (mode,), ORDERS if order == "all" else (order,)
    errors = console(stderr=True)

    def ended(mode: str, problems: tuple[Problem, ...]) -> None:
        if errors.is_terminal:  # early news; everything is printed at the end
            for problem in problems:
                errors.print(
                    f"{mode}: {problem.kind}{f' on {problem.array}' if problem.array else ''}, kernel {problem.kernel}",
                    markup=False,
                )
            errors.print(f"{mode} is done: {count(len(problems), 'problem')}", markup=False)

    with errors.status(f"Running {count(len(description.launches), 'launch')}"):
        outcome = run(description, modes, orders, seed, timeout, ended)
    if as_json:
        click.echo(json.dumps(asdict(outcome), indent=2))
    else:
        show(outcome)
    if outcome.stopped:
        raise KeyboardInterrupt
    context.exit(1 if outcome.problems else 2 if outcome.refused else 0)


def _run(file: Path, limit: float) -> int:
    """Exit code of a check of the program in a file: 1 if something was found."""
    from ..programs.build import ProgramOptions
    from ..programs.gpus import find
    from ..programs.run import run as run_program
    from .run import show

    outcome = run_program([file], ProgramOptions(find("H100"), "check"), (), (), limit)
    show(outcome, limit)
    if outcome.problems or outcome.is_late:
        return 1
    end = f"main() returned {outcome.code}" if outcome.code else "main() ran to its end"
    console(stderr=True).print(f"no problem found: {end}", style="bold green", markup=False, highlight=False)
    return 0


def _described(file: Path, requested: dict[str, Any], context: click.Context) -> Description:
    """The single launch that the options describe."""
    from ..checker.description import Content, Description, LaunchRequest, content, sizes
    from ..checker.plan import only_kernel
    from ..device.declarations import signature
    from ..device.emulator.hostcode import device_code

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
            values[name] = what  # perhaps no parameter, but a name to calculate with
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
