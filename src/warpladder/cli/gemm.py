"""`warpladder gemm`: times the levels of one matrix product, compared with cuBLAS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError, DeviceError
from ..rungs.options import DEVICES
from .shared.console import console
from .shared.files import again, check_place, command
from .shared.options import out_option, overwrite_option

if TYPE_CHECKING:
    from ..appendix.gemm.climb import Timed

#: Title of the table of each precision's levels.
TITLES = {
    "fp32": "C = A B, N x N, in fp32: by multiply-adds, then on tensor cores",
    "tf32": "C = A B, N x N, in tf32 on tensor cores: factors of 11 bits, sums in fp32",
    "bf16": "C = A B, N x N, in bf16 on tensor cores: factors of 8 bits, sums in fp32",
}


@click.command()
@click.option(
    "--size",
    "sizes",
    metavar="N",
    type=int,
    multiple=True,
    default=(1024, 4096),
    show_default=True,
    help="C, A and B are N x N.",
)
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(list(TITLES)),
    multiple=True,
    help="Only the levels in these precisions. Not given: all.",
)
@click.option(
    "--device",
    type=click.Choice(DEVICES),
    help="Run the kernels on the CPU: that shows that they are right, not how fast they are.",
)
@out_option("FILE", "Write all samples as JSON.")
@overwrite_option
@click.pass_context
def gemm(
    ctx: click.Context,
    sizes: tuple[int, ...],
    precisions: tuple[str, ...],
    device: str | None,
    out: Path | None,
    overwrite: bool,
) -> None:
    """Prove and time the ladder of matrix products: each level is a kernel with one more idea, compared with the limit
    of its loads.

    \b
    Examples:
      warpladder gemm
      warpladder gemm --precision tf32 --precision bf16
      warpladder gemm --size 64 --device emulated
    """
    from ..appendix.gemm.climb import Skipped, Timed, climb
    from ..trainers.kernelwise.where import open_device, why_not

    if out is not None:
        check_place(out, overwrite)
    if wrong := [size for size in sizes if size < 1]:
        raise ConfigError(f"--size wants whole numbers from 1, got {wrong[0]}")
    if reason := why_not(device):
        raise DeviceError(reason)
    found = climb(open_device(device), tuple(sizes), precisions or tuple(TITLES))
    timed = [row for row in found if isinstance(row, Timed)]
    for name in dict.fromkeys(row.precision for row in timed):
        _show(TITLES[name], [row for row in timed if row.precision == name])
    if device is not None:
        click.echo("The kernels ran on the CPU: their errors hold on a GPU too, their times do not.")
    for row in found:
        if isinstance(row, Skipped):
            click.echo(f"Left out: {row.level} in {row.precision} at {row.size}, which {row.reason}")
    if out is not None:
        _write(out, timed, again(ctx, "sizes", "precisions", "device"))
        click.echo(f"All samples: {out}")


def _show(title: str, rows: list[Timed]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..appendix.gemm.tensor import BY_PRECISION

    ideas = {level.name: level.idea for levels in BY_PRECISION.values() for level in levels}
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("level", no_wrap=True)
    is_emulated = not any(_share(row.measured) for row in rows)
    columns = {
        "N": [str(row.size) for row in rows],
        "ms": [f"{row.seconds * 1e3:.3f}" for row in rows],
        "TFLOP/s": ["" if is_emulated else f"{row.flops_per_second / 1e12:.2f}" for row in rows],
        "predicted": [_share(row.predicted) for row in rows],
        "of peak": [_share(row.measured) for row in rows],
        "of cuBLAS": [_share(row.of_cublas) for row in rows],
        "error": ["" if row.error != row.error else f"{row.error:.1e}" for row in rows],
    }
    columns = {head: cells for head, cells in columns.items() if any(cells)}
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for row, *cells in zip(rows, *columns.values(), strict=True):
        table.add_row(row.level, *cells)
    console().print(table)
    for level in dict.fromkeys(row.level for row in rows if row.level in ideas):
        click.echo(f"  {level:17} {ideas[level]}")
    click.echo()


def _write(out: Path, rows: list[Timed], words: list[str]) -> None:
    import json
    import time
    from dataclasses import asdict

    from ..device.gpu.support import found_gpu
    from ..files.atomic import write_atomically
    from ..machine.facts import facts
    from ..results import Machine

    found = {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command("gemm", *words),
        "machine": asdict(Machine(**facts(), gpu=found_gpu())),
        "levels": [{key: None if value != value else value for key, value in asdict(row).items()} for row in rows],
    }
    write_atomically(out, json.dumps(found, indent=1) + "\n")


def _share(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.1%}"
