"""`warpladder run`: runs a whole CUDA program on the CPU, passes on its output and exit code, and reports faults on
stderr.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .faults import count, show_problem
from .metrics import show_counts
from .shared.console import console
from .shared.options import Seconds

if TYPE_CHECKING:
    from ..programs.run import ProgramOutcome

#: Exit codes of a program with faults, and of a program that reached the time limit.
FAULTS, LATE = 99, 124
#: Most remarks of one kind that are shown.
SHOWN = 3


ARGUMENTS = "warpladder.arguments"


class _ProgramCommand(click.Command):
    """Command with arguments of the user's program after --."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[ARGUMENTS] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


@click.command(cls=_ProgramCommand)
@click.argument("files", metavar="FILE...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--command", metavar="'nvcc ...'", help="Files and options as a Makefile or CMake gives them to the compiler."
)
@click.option(
    "-I",
    "folders",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder of headers; repeatable.",
)
@click.option("-D", "defines", metavar="NAME[=VALUE]", multiple=True, help="Macro to define; repeatable.")
@click.option("-l", "libraries", metavar="NAME", multiple=True, help="Library to link with, as nvcc's -l; repeatable.")
@click.option(
    "--gpu", metavar="NAME", default="H100", show_default=True, help="GPU that the program finds: T4, A100, ..."
)
@click.option(
    "--check", "checked", is_flag=True, help="Watch every access of the kernels as `warpladder check` does; slow."
)
@click.option("--metrics", "counted", is_flag=True, help="Check, and count what each kernel does.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(min=0),
    default=0,
    help="End the program after so long, compilation included.",
)
@click.pass_context
def run(
    context: click.Context, files: tuple[str, ...], command: str | None, folders: tuple[Path, ...],
    defines: tuple[str, ...], libraries: tuple[str, ...], gpu: str, checked: bool, counted: bool, timeout: float,
) -> None:  # fmt: skip
    """Run the CUDA program in FILE, host code and kernels, without a GPU.

    FILE is a .cu file, or several .cu and .cpp files of one program. Arguments after -- are passed to main(). Output
    and exit code are the program's own; faults in its use of CUDA are reported on stderr, and the exit code is then 99.

    \b
    Examples:
      warpladder run vector_add.cu
      warpladder run main.cu image.cpp -I include -D N=64 --gpu T4 -- input.ppm
      warpladder run --command "nvcc -O3 -arch=sm_80 -Iinclude main.cu -o main"
    """
    from ..programs.build import ProgramOptions
    from ..programs.command import read
    from ..programs.gpus import find
    from ..programs.run import run as run_program

    if command is not None:
        given = read(command)
        files, folders = (*given.files, *files), (*given.folders, *folders)
        defines, libraries = (*given.defines, *defines), (*given.libraries, *libraries)
    if not files:
        raise click.UsageError("name the files of the program, or give its compile line by --command", context)
    sources = _sources(files, context)
    card = find(gpu)
    options = ProgramOptions(card, "count" if counted else "check" if checked else "fast", defines, libraries)
    outcome = run_program(sources, options, context.meta[ARGUMENTS], folders, timeout, say=say)
    show(outcome, timeout)
    show_counts(outcome.counts, card, is_error=True)
    context.exit(LATE if outcome.is_late else outcome.code if outcome.code > 128 or not outcome.problems else FAULTS)


def _sources(files: tuple[str, ...], context: click.Context) -> list[Path]:
    from ..programs.sources import SOURCES

    for word in files:
        if not word.endswith(SOURCES):
            raise click.UsageError(
                f"'{word}' is no .cu or .cpp file; arguments of the program come after its files and --", context
            )
    return [Path(word) for word in files]


def say(line: str) -> None:
    """Print a line of progress on stderr."""
    click.echo(line, err=True)


def show(outcome: ProgramOutcome, limit: float) -> None:
    """Print the faults of a program on stderr; nothing without faults."""
    out = console(stderr=True)
    for number, problem in enumerate(outcome.problems, 1):
        show_problem(number, problem, out)
    kinds = dict.fromkeys(remark.kind for remark in outcome.remarks)
    for kind in kinds:
        alike = [remark for remark in outcome.remarks if remark.kind == kind]
        for remark in alike[:SHOWN]:
            place = f"{Path(remark.places[0][0]).name}:{remark.places[0][1]}: " if remark.places else ""
            out.print(f"remark: {place}{remark.message}", markup=False, soft_wrap=True, style="dim")
        if len(alike) > SHOWN:
            out.print(f"remark: {count(len(alike) - SHOWN, 'more ' + kind)}", markup=False, style="dim")
    if outcome.is_late:
        where = "" if outcome.is_compiled else ": it was still being compiled"
        out.print(f"warpladder: the program did not end within {limit:g} s{where}", markup=False, soft_wrap=True)
    if outcome.problems:
        out.print(f"{count(len(outcome.problems), 'problem')} in the program", style="bold red")
