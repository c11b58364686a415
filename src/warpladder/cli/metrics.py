"""`warpladder metrics`: counts memory accesses and operations of a kernel without a GPU, by kernel and by line of
source.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import KernelError
from .kernels import has_main, listed, unlaunched
from .shared.console import console
from .shared.files import check_place, write
from .shared.json_errors import json_errors
from .shared.launch import described, launch_options
from .shared.options import overwrite_option, timeout_option

if TYPE_CHECKING:
    from ..device.emulator.counts import KernelCounts
    from ..device.limits import Limits


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@launch_options
@click.option("--gpu", metavar="NAME", default="H100", show_default=True, help="GPU of the occupancy: T4, A100, ...")
@click.option("--registers", metavar="N", type=click.IntRange(1, 255), help="Of a thread, as nvcc -Xptxas -v prints.")
@click.option("--page", metavar="FILE.html", type=click.Path(path_type=Path), help="Write a page with the source.")
@overwrite_option
@timeout_option("How long a launch may run, or a program; 0 for as long as it takes.")
@click.option("--list", "is_list", is_flag=True, help="List the kernels of a program instead of running it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def metrics(
    context: click.Context,
    file: Path,
    gpu: str,
    registers: int | None,
    page: Path | None,
    overwrite: bool,
    timeout: float,
    is_list: bool,
    as_json: bool,
    **requested: Any,
) -> None:
    """Count sectors, bank conflicts, divergence, atomics and FLOPs of the kernels in FILE, without a GPU.

    FILE is a .cu file, or a .toml file that describes launches of one, as for `check`. Without a launch, a program
    with a main() is run. Counts are exact for the described launch, and have Nsight Compute's names.

    \b
    Examples:
      warpladder metrics program.cu
      warpladder metrics copy.cu --grid 4 --block 256 --arg x=n --arg n=1000
      warpladder metrics launches.toml --gpu T4 --page counts.html
    """
    from ..checker.metrics.measure import measure
    from ..checker.metrics.page import page as drawn
    from ..programs.gpus import find

    card = find(gpu)
    if page is not None:
        check_place(page, overwrite, file)
    with json_errors(as_json):
        description = described(file, requested, context)
        runs = description is None and not (is_list or as_json) and has_main(file)
        if description is None and not runs:
            wrong = listed(file, as_json, "metrics") or ("" if is_list or as_json else unlaunched(file, "counted"))
    if description is None and not runs:
        if wrong:
            raise KernelError(wrong)
        return

    with json_errors(as_json):
        counts = (
            measure(description, timeout, ended_early) if description else _of_program(context, file, card, timeout)
        )
    limits = _limits(card)
    if as_json:
        click.echo(json.dumps(tables(counts, gpu, registers or 0), indent=2))
    else:
        for kernel in counts:
            _show(kernel, limits, registers or 0)
    if page is not None:
        facts = [_facts(kernel, limits, registers or 0) for kernel in counts]
        write(page, drawn(description.source.name if description else file.name, counts, facts).encode())
        if not as_json:
            click.echo(f"Open this: {page}")


def _of_program(context: click.Context, file: Path, card: Any, limit: float) -> Sequence[KernelCounts]:
    """Counts of the launches that a program makes; a faulty one ends the command with 1, as `check` does."""
    from ..programs.build import ProgramOptions
    from ..programs.run import run
    from .run import say, show

    outcome = run([file], ProgramOptions(card, "count"), limit=limit, say=say)
    show(outcome, limit)
    if outcome.problems or outcome.is_late:
        context.exit(1)
    return outcome.counts


def ended_early(message: str) -> None:
    """End the process: a counted launch takes too long."""
    click.echo(f"warpladder: {message}", err=True)
    os._exit(2)


def tables(counts: Sequence[KernelCounts], gpu: str, registers: int = 0) -> list[dict[str, Any]]:
    """Counts of launches for JSON, under Nsight Compute's names."""
    from ..programs.gpus import find

    return [_as_json(kernel, _limits(find(gpu)), registers) for kernel in counts]


def show_counts(counts: Sequence[KernelCounts], card: Any, is_error: bool = False) -> None:
    """Print the counts of launches, with the occupancy of a GPU; on stderr after the output of a program."""
    for kernel in counts:
        _show(kernel, _limits(card), 0, is_error)


def _limits(card: Any) -> Limits:
    from ..device.limits import SHARED_PER_BLOCK, Limits

    return Limits(
        card.name, shared_opt_in=card.shared_opt_in, threads_per_multiprocessor=card.threads_per_multiprocessor,
        blocks_per_multiprocessor=card.blocks_per_multiprocessor,
        shared_per_multiprocessor=card.shared_per_multiprocessor,
        shared_reserved=SHARED_PER_BLOCK if card.major >= 8 else 0, multiprocessors=card.multiprocessors,
    )  # fmt: skip


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _facts(kernel: KernelCounts, limits: Limits, registers: int) -> list[tuple[str, str]]:
    """Rows (name, value) of the table of a launch."""
    from ..checker.metrics.names import occupancy

    rows = []
    for act in ("global load", "global store"):
        if (count := kernel.total(act)).warps:
            share = 100 * count.wasted / (32 * count.sectors)
            ratio = count.sectors / count.warps
            text = f"{_many(count.warps, 'request')}, {_many(count.sectors, 'sector')}, "
            text += f"{ratio:.3g} a request, {share:.0f} % wasted"
            rows.append((act, text))
    for act in ("shared load", "shared store"):
        if (count := kernel.total(act)).warps:
            text = f"{_many(count.warps, 'request')}, {_many(count.passes, 'wavefront')}, "
            text += _many(count.conflicts, "bank conflict")
            rows.append((act, text))
    for act in ("global atomic", "shared atomic"):
        if (count := kernel.total(act)).warps:
            text = f"{_many(count.warps, 'request')} of {_many(count.lanes, 'lane')}, up to {count.most} at one address"
            rows.append((act, text))
    rows.append(("active lanes of a warp", f"{kernel.total('block').active:.4g} of 32"))
    if kernel.has_flops:
        intensity = "" if kernel.intensity is None else f", {kernel.intensity:.3g} a byte of global sectors"
        rows.append(("FLOPs", f"{kernel.arithmetic.flops:,}{intensity}"))
    share, why = occupancy(kernel, limits, registers)
    unknown = "" if registers else "; registers are not known, --registers gives them"
    rows.append((f"occupancy, {limits.device}", f"{share:.0f} %: {why}{unknown}"))
    return rows


def _show(kernel: KernelCounts, limits: Limits, registers: int, is_error: bool = False) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..checker.metrics.page import described as phrases

    out = console(stderr=is_error)
    several = f", {kernel.launches:,} launches together" if kernel.launches > 1 else ""
    out.print(Text(f"{kernel.name}, grid {kernel.grid}, block {kernel.block}{several}", "bold"))
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, text in _facts(kernel, limits, registers):
        table.add_row(Text(name), Text(text))
    out.print(table)
    lines = Table(box=None, show_header=False, pad_edge=False)
    for line in kernel.lines:
        if words := phrases(line):
            lines.add_row(Text(f"{Path(line.file).name}:{line.number}"), Text("; ".join(words)))
    out.print()
    out.print(lines)
    out.print()


def _as_json(kernel: KernelCounts, limits: Limits, registers: int) -> dict[str, Any]:
    from ..checker.metrics.names import occupancy, of_kernel, of_line

    share, why = occupancy(kernel, limits, registers)
    named = of_kernel(kernel) | {"sm__maximum_warps_per_active_cycle_pct": share}
    lines = [
        {"file": line.file, "line": line.number, "metrics": of_line(line), "flops": line.arithmetic.flops,
         "bytes_wasted": sum(line[f"global {what}"].wasted for what in ("load", "store", "atomic")),
         "lanes_at_one_address": max((count.most for act, count in line.acts.items() if "atomic" in act), default=0)}
        for line in kernel.lines
    ]  # fmt: skip
    return {
        "kernel": kernel.name, "launches": kernel.launches,
        "grid": kernel.grid, "block": kernel.block, "gpu": limits.device, "limited_by": why,
        "metrics": named, "flops": kernel.arithmetic.flops, "intensity": kernel.intensity, "lines": lines,
    }  # fmt: skip
