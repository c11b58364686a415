"""`warpladder check`: runs the kernels of a .cu file on the CPU, and reports their faults."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..errors import KernelError
from .faults import count, show
from .kernels import has_main, listed, unlaunched
from .metrics import ended_early, show_counts, tables
from .shared.console import console
from .shared.json_errors import json_errors
from .shared.launch import described, launch_options
from .shared.options import timeout_option

if TYPE_CHECKING:
    from ..checker.description import Description
    from ..checker.faults import Outcome, Problem
    from ..device.emulator.counts import KernelCounts

MODES, ORDERS = ("check", "asan", "fast"), ("forward", "reverse", "random")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@launch_options
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
@timeout_option("How long a launch may run in each mode, or a program; 0 for as long as it takes.")
@click.option("--list", "is_list", is_flag=True, help="List the kernels of a program instead of running it.")
@click.option("--toml", "is_toml", is_flag=True, help="Print a TOML file with launches of all kernels, to begin with.")
@click.option("--metrics", "counted", is_flag=True, help="Count what each kernel does too: see `metrics`.")
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
    is_toml: bool,
    counted: bool,
    as_json: bool,
    **requested: Any,
) -> None:
    """Check the kernels in FILE for races, missing barriers and bad memory accesses, without a GPU.

    FILE is a .cu file, or a .toml file that describes launches of one. Without a launch, a program with a main() is run
    and all its launches are checked; for another file the kernels are listed, with commands that check them. Returns 0
    if no fault was found, 1 for a fault, 2 if the file or a kernel was not checked, 130 after Ctrl-C.

    \b
    Examples:
      warpladder check program.cu
      warpladder check relu.cu --grid 4 --block 256 --arg x=1000 --arg n=1000
      warpladder check relu.toml --mode check
    """
    from ..checker.faults import Outcome
    from ..programs.gpus import find

    wrong = ""
    with json_errors(as_json, asdict(Outcome((), (), 0, (), ""))):
        description = described(file, requested, context)
        if description is None:
            if not (is_list or as_json or is_toml) and has_main(file):
                has_limit = context.get_parameter_source("timeout") is not ParameterSource.DEFAULT
                try:
                    context.exit(_run(file, timeout, has_limit, counted))
                except KernelError as error:
                    wrong = str(error)
            wrong = _listed(file, as_json, is_toml, wrong)
            if not (wrong or is_list or as_json or is_toml):
                wrong = unlaunched(file, "checked")
        modes, orders = MODES if mode == "all" else (mode,), ORDERS if order == "all" else (order,)
        outcome = _checked(description, modes, orders, seed, timeout) if description else None
    if outcome is None:
        if wrong:
            raise KernelError(wrong)
        return
    assert description is not None
    counts = _counts(description, seed, timeout) if counted and not (outcome.problems or outcome.refused) else []
    if as_json:
        click.echo(json.dumps(asdict(outcome) | ({"metrics": tables(counts, "H100")} if counted else {}), indent=2))
    else:
        show(outcome)
        show_counts(counts, find("H100"))
    if outcome.stopped:
        raise KeyboardInterrupt
    context.exit(1 if outcome.problems else 2 if outcome.refused else 0)


def _listed(file: Path, as_json: bool, is_toml: bool, refused: str) -> str:
    """Error to end with after the kernels of a file are listed. refused : why its main() cannot run, or ""."""
    try:
        wrong = listed(file, as_json, is_toml=is_toml, can_run=not refused)
    except KernelError:
        if not refused:
            raise
        return refused
    if refused and not wrong:
        return f"{refused}; its kernels, listed here, can be checked without main()"
    return refused or wrong


def _checked(
    description: Description, modes: tuple[str, ...], orders: tuple[str, ...], seed: int, timeout: float
) -> Outcome:
    """Outcome of checking a description's launches. A terminal shows the faults of each mode when the mode ends."""
    from ..checker.check import check as run

    errors = console(stderr=True)

    def ended(mode: str, problems: tuple[Problem, ...]) -> None:
        if errors.is_terminal:  # early report; all faults are printed at the end
            for problem in problems:
                errors.print(
                    f"{mode}: {problem.kind}{f' on {problem.array}' if problem.array else ''}, kernel {problem.kernel}",
                    markup=False,
                )
            errors.print(f"{mode} is done: {count(len(problems), 'problem')}", markup=False)

    with errors.status(f"Running {count(len(description.launches), 'launch')}"):
        return run(description, modes, orders, seed, timeout, ended)


def _counts(description: Description, seed: int, limit: float) -> list[KernelCounts]:
    from ..checker.metrics.measure import measure

    return measure(description, limit, ended_early, seed)


def _run(file: Path, limit: float, is_compilation_limited: bool, counted: bool) -> int:
    """Exit code of a check of the program in a file: 1 if something was found."""
    from ..programs.build import ProgramOptions, program
    from ..programs.gpus import find
    from ..programs.run import run as run_program
    from ..programs.sources import collected
    from .run import say, show

    options = ProgramOptions(find("H100"), "count" if counted else "check")
    if not is_compilation_limited:
        program(collected((file,), ()), options, say)
    outcome = run_program([file], options, (), (), limit, say=say)
    show(outcome, limit)
    show_counts(outcome.counts, options.gpu, is_error=True)
    if outcome.problems or outcome.is_late:
        return 1
    end = f"main() returned {outcome.code}" if outcome.code else "main() ran to its end"
    console(stderr=True).print(f"no problem found: {end}", style="bold green", markup=False, highlight=False)
    return 0
