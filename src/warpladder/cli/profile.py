"""`warpladder profile`: measures time and memory of the parts of a training step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..results.text.columns import fitting
from ..results.text.words import rest_of_a_step, tensor_share
from .metrics import show_counts
from .shared.console import console
from .shared.files import check_place
from .shared.net_argument import net_argument
from .shared.options import (
    config_options,
    data_options,
    out_option,
    overwrite_option,
    rung_option,
    rung_options,
    split_options,
)
from .shared.request import report_defaults, run_request

if TYPE_CHECKING:
    from rich.table import Table

    from ..rungs.base import Rung
    from ..timing.profile import Part, Profile


@click.command()
@net_argument()
@data_options
@split_options
@rung_option("Rung or peer to profile, or a file with one.", default="numpy")
@rung_options
@config_options
@click.option("--metrics", "counted", is_flag=True, help="Count what each kernel of a step does; for :device=emulated.")
@out_option("FILE", "Write all of it as JSON.")
@overwrite_option
def profile(net_name: str, rung: str, counted: bool, out: Path | None, overwrite: bool, **options: Any) -> None:
    """Show where the time and the memory of one training step of NET go.

    Every part is run alone, many times, and compared with its floor: its floating-point operations at the peak of the
    computing unit, or its bytes at the peak of the memory, whichever takes longer. The compiled program of native has a
    clock around each instruction instead, while whole steps run. Only clocks and events are used, no counters.

    \b
    Examples:
      warpladder profile cnn --data mnist --rung naive
      warpladder profile mlp10 --data mnist --rung numpy --out profile.json
    """
    from ..programs.gpus import find
    from ..timing.profile import profile_run
    from ..timing.profile.counted import count_step
    from ..train.resolve import resolve

    if out is not None:
        check_place(out, overwrite)
    run = resolve(run_request(net_name, options, rung=rung))
    report_defaults(net_name, run, options)
    counts = count_step(run) if counted else []  # first: an error about it comes before the measurement
    found = profile_run(run)
    if out is not None:
        found.save(out)
    _show(found, run.rung, rung)
    if counted:
        show_counts(counts, find("H100"))
    if out is not None:
        click.echo(f"All of it: {out}")


def _show(found: Profile, rung: Rung, rung_name: str) -> None:
    """Print the tables of a profile."""
    from ..ladder import outside

    show = console()
    show.print(
        f"{found.net} on the {found.rung} rung: {duration(found.step_seconds)} a step of {found.samples:,} samples, "
        f"{found.flops / found.step_seconds / 1e9:,.1f} GFLOP/s on {found.device} "
        f"({found.flops / found.step_seconds / found.flops_per_second:.1%} of its {found.flops_per_second / 1e9:,.0f})"
    )
    if found.parts:
        show.print(operations(found, show.width))
        show.print(
            f"Together {duration(found.parts_seconds)}; the step takes {duration(found.step_seconds)}. "
            f"{rest_of_a_step(found)}"
        )
    else:
        show.print(found.reason)
    if any(part.kernels for part in found.parts):
        show.print(launches(found, show.width))
    if found.tensor_share is not None:
        show.print(f"{tensor_share(found)}\n")
    if found.tiles:
        show.print(tiles(found, show.width))
    if found.timeline:
        show.print(
            "\n".join(
                (
                    "Timeline of some steps; each copy and each computation shows the last digit of its step",
                    *chart(found, show.width),
                )
            )
        )
        show.print(f"{found.hidden:.0%} of the copying was hidden by computing\n")
    if found.spans:
        show.print(
            "Besides the steps: "
            + ", ".join(f"{what} {duration(seconds)}" for what, seconds in found.spans.items())
            + "\n"
        )
    show.print(memory(found, show.width))
    if not found.memory:
        show.print("What the trainer holds is not known: its memory() is empty")
    if outside(rung):
        show.print(
            f"Nothing here is proven: 'warpladder climb' with --rungs {rung_name} proves that this rung trains right"
        )


def operations(found: Profile, width: int) -> Table:
    """Table of a step's operations, forward and backward: time, share of the step, and shares of the peaks."""
    rows = []
    for part in found.parts:
        least = part.floor.seconds(found.flops_per_second, found.bytes_per_second)
        flops, size = part.floor.flops, part.floor.bytes
        figures = (
            duration(part.seconds),
            _share(part, found),
            f"{flops / 1e6:,.2f}",
            f"{size / 1e6:,.2f}",
            f"{flops / part.seconds / 1e9:,.1f}",
            f"{size / part.seconds / 1e9:,.1f}",
            f"{least / part.seconds:.0%}",
        )
        rows.append(((part.name, part.phase), figures))
    groups = (("time", "share"), ("MFLOP", "MB"), ("GFLOP/s", "GB/s"), ("of floor",))
    return fitting("Operations", ("operation", "phase"), groups, rows, width)


def launches(found: Profile, width: int) -> Table:
    """Table of kernels: launch, resources of a multiprocessor, and share of the step; or of the instructions of a
    compiled program.
    """
    rows: list[tuple[tuple[str, ...], list[str]]] = []
    for part in found.parts:
        for kernel in part.kernels:
            figures = [f"{kernel.launches:,}", duration(kernel.seconds), f"{kernel.seconds / found.parts_seconds:.1%}"]
            if found.inside:
                rows.append(((kernel.name, part.name), figures))
                continue
            shape = kernel.shape
            if shape is None:
                figures += ["(a library's)", *[""] * 5]
            else:
                figures += [
                    *("x".join(map(str, _trimmed(size))) for size in (shape.grid, shape.block)),
                    str(shape.registers),
                    str(shape.spilled),
                    f"{shape.shared + shape.static_shared:,}",
                    f"{shape.occupancy:.0%}",
                ]
            rows.append(
                (
                    (kernel.name,),
                    [*figures, *(["yes" if kernel.tensor else ""] if found.tensor_share is not None else [])],
                )
            )
    if found.inside:
        return fitting(
            "Instructions of the program, on each thread",
            ("instruction", "of"),
            (("times",), ("time", "share")),
            rows,
            width,
        )
    unit = (("tensor cores",),) if found.tensor_share is not None else ()
    groups = (
        ("times",),
        ("time", "share"),
        ("blocks", "threads"),
        ("registers", "spilled"),
        ("shared", "occupancy"),
        *unit,
    )
    return fitting("Kernels", ("kernel",), groups, rows, width)


def tiles(found: Profile, width: int) -> Table:
    """Table of the tiles and split-K parts of each matrix product, chosen by a tuner or the model."""
    rows = []
    for each in found.tiles:
        texts = ", ".join(map(str, each.layers)), each.product
        figures = (
            f"{each.samples:,}",
            each.tile,
            f"{each.depth:,}",
            str(each.parts),
            "timing" if each.timed else "the model",
        )
        rows.append((texts, figures))
    groups = (("samples", "tile"), ("terms", "parts"), ("chosen by",))
    return fitting("Products of matrices", ("layers", "product"), groups, rows, width)


def chart(found: Profile, width: int) -> list[str]:
    """Timeline as text: a line for each stream, with time to the right."""
    begin = min(first for lane in found.timeline for _, first, _ in lane.spans)
    end = max(last for lane in found.timeline for _, _, last in lane.spans)
    columns = max(20, width - 10)
    lines = []
    for lane in found.timeline:
        cells = [" "] * columns
        for step, first, last in lane.spans:
            a, b = (min(columns - 1, int((at - begin) / (end - begin) * columns)) for at in (first, last))
            cells[a : b + 1] = str(step % 10) * (b + 1 - a)
        lines.append(f"{lane.name:<9}{''.join(cells).rstrip()}")
    return [*lines, f"{'':9}{duration(end - begin)} in all"]


def memory(found: Profile, width: int) -> Table:
    """Table of memory by component, and of bytes that a step copies between host and device."""
    rows = [((what,), (f"{size / 1e6:,.3f}",)) for what, size in found.memory.items()]
    rows.append((("this process in all (host)",), (f"{found.host_bytes / 1e6:,.1f}",)))
    rows += [((f"{what}, each step",), (f"{size / 1e6:,.4f}",)) for what, size in found.transfers.items()]
    return fitting("Memory", ("component",), (("MB",),), rows, width)


def _share(part: Part, found: Profile) -> str:
    return f"{part.seconds / found.parts_seconds:.1%}"


def _trimmed(size: tuple[int, int, int]) -> tuple[int, ...]:
    """Size of a grid or block without trailing ones: (8, 4) for (8, 4, 1)."""
    return size[:1] if size[1:] == (1, 1) else size[:2] if size[2] == 1 else size


def duration(seconds: float) -> str:
    """Time with three digits and its unit, as 1.23 ms."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.2g} us"
