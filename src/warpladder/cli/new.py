"""`warpladder new kernel`: writes a file as the start of a user's own kernel."""

from __future__ import annotations

from pathlib import Path

import click

from .shared.files import check_place, write
from .shared.options import out_option, overwrite_option


@click.command()
@click.argument("kind", metavar="kernel", type=click.Choice(("kernel",)))
@click.argument("op", metavar="OP")
@out_option("FILE.cu", "Where it goes; linear_forward.cu for linear.forward if not given.")
@overwrite_option
def new(kind: str, op: str, out: Path | None, overwrite: bool) -> None:
    """Write a simple, right kernel of the operation OP to start from: `climb --op` takes it unchanged.

    OP is a layer and a pass, linear.forward or conv2d.backward, a layer with both, relu, or an optimizer's step,
    sgd.update.

    \b
    Examples:
      warpladder new kernel linear.forward
      warpladder climb mlp --data digits --op linear.forward=linear_forward.cu
    """
    from ..ops.own.start import start

    op = op.lower()
    text = start(op)
    place = out or Path(f"{op.replace('.', '_')}.cu")
    check_place(place, overwrite)
    write(place, text.encode())
    net = "cnn" if op.startswith(("conv2d", "maxpool2d")) else "mlp"
    click.echo(f"{place}: change it, and climb with it:\n\n  warpladder climb {net} --data digits --op {op}={place}")
