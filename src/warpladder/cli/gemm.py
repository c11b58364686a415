"""`warpladder gemm`: one matrix product, level by level, beside cuBLAS."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import ConfigError, DeviceError
from ..rungs.options import DEVICES
from .keeping import check_place, overwrite_option
from .options import console


@click.command()
@click.option(
    "--size", "sizes", metavar="N", type=int, multiple=True, default=(1024, 4096), show_default=True, help="C, A and B are N x N."
)
@click.option(
    "--device", type=click.Choice(DEVICES), help="Run the kernels on the CPU: that shows that they are right, not how fast they are."
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write all samples as JSON.")
@overwrite_option
def gemm(sizes: tuple[int, ...], device: str | None, out: Path | None, overwrite: bool) -> None:
    """Climb the ladder of matrix products: each level a kernel with one more idea, proven, timed, and set against what its loads allow.

    \b
    Examples:
      warpladder gemm
      warpladder gemm --size 64 --device emulated
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ..gemm.climb import climb
    from ..gemm.levels import LEVELS
    from ..trainers.kernelwise.where import open_device, why_not

    if out is not None:
        check_place(out, overwrite)
    if wrong := [size for size in sizes if size < 4 or size % 4]:
        raise ConfigError(f"--size wants multiples of 4, got {wrong[0]}")
    if reason := why_not(device):
        raise DeviceError(reason)
    found = climb(open_device(device), tuple(sizes))
    ideas = {level.name: level.idea for level in LEVELS}
    table = Table(title="C = A B in float32, N x N", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("level", no_wrap=True)
    for head in ("N", "ms", "TFLOP/s", "predicted", "of peak", "of cuBLAS"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("idea")
    for row in found:
        table.add_row(
            row.level, str(row.size), f"{row.seconds * 1e3:.3f}", f"{row.flops_per_second / 1e12:.2f}", _share(row.predicted),
            _share(row.measured), _share(row.of_cublas), ideas.get(row.level, ""),
        )  # fmt: skip
    console().print(table)
    if out is not None:
        import json
        from dataclasses import asdict

        from ..results.files import write_whole

        write_whole(out, json.dumps([{k: None if v != v else v for k, v in asdict(row).items()} for row in found], indent=1))
        click.echo(f"All samples: {out}")


def _share(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.1%}"
