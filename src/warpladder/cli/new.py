"""`warpladder new kernel`: writes a file as the start of a user's own kernel."""

from __future__ import annotations

from pathlib import Path

import click

from .shared.files import check_place, write
from .shared.options import out_option, overwrite_option

#: Nets that have a layer, and train on digits.
_NETS = {"linear": "mlp", "relu": "mlp", "conv2d": "cnn", "maxpool2d": "cnn"}


def _only_kernel(context: click.Context, parameter: click.Parameter, kind: str) -> str:
    if kind != "kernel":
        raise click.UsageError(f"a new file is a kernel: write 'kernel' before the operation, got {kind!r}", context)
    return kind


def _is_named(context: click.Context, parameter: click.Parameter, op: str) -> str:
    from ..ops.own.roles import operations

    if not op:
        raise click.UsageError(f"name the operation, as warpladder new kernel linear.forward: {operations()}", context)
    return op


@click.command()
@click.argument("kind", metavar="kernel", default="kernel", callback=_only_kernel)
@click.argument("op", metavar="OP", default="", callback=_is_named)
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
    from ..ops.own.roles import LAYERS
    from ..ops.own.start import start

    op = op.lower()
    text = start(op)
    place = out or Path(f"{op.replace('.', '_')}.cu")
    check_place(place, overwrite)
    write(place, text.encode())
    layer = op.partition(".")[0]
    net = _NETS.get(layer, "--net NET.toml")
    if op.endswith("update"):
        net = "mlp" if layer in ("update", "sgd") else f"mlp --optimizer {layer}"
    click.echo(f"{place}: change it, and climb with it:\n\n  warpladder climb {net} --data digits --op {op}={place}")
    if net.startswith("--"):
        click.echo(f"\nNET.toml is a net of your own that has a {LAYERS[layer].__name__} (docs/own-net.md).")
