"""`warpladder nets`: lists the nets, or the layers of one."""

from __future__ import annotations

import math

import click

from ..nets import Flatten, Layer, Net, Shape, is_net_file, with_hidden
from ..show import dims
from .shared.console import console
from .shared.net_argument import net_argument
from .shared.types import NETS, ShapeOf


@click.command()
@net_argument(required=False)
@click.option(
    "--shape",
    type=ShapeOf(),
    help="Shape of one sample; that of the net's report if not given, or what its file states.",
)
def nets(net_name: str | None, shape: Shape | None, hidden: tuple[int, ...] | None) -> None:
    """Show the networks, or one of them layer by layer.

    \b
    Examples:
      warpladder nets
      warpladder nets cnn
      warpladder nets --net mine.toml --shape 1x8x8
      warpladder nets --hidden 512,256
    """
    if net_name is None:
        _overview()
        return
    if is_net_file(net_name):
        from ..nets.file import load_net

        net = load_net(net_name, shape)
    else:
        net = NETS[net_name](*([] if shape is None else [shape]))
    _details(net if hidden is None else with_hidden(net, hidden))


def short(count: int) -> str:
    """Number with a suffix, as 48.2 k, 1.3 M or 0.35 G."""
    for size, unit in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _overview() -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        box=SIMPLE_HEAD,
        caption="FLOPs of one sample: forward, and a whole training step. A net adapts to other image sizes.",
    )
    table.add_column("net", no_wrap=True)
    table.add_column("layers", ratio=1, overflow="fold")
    for head in ("parameters", "FLOPs", "training"):
        table.add_column(head, justify="right", no_wrap=True)
    for name in NETS:
        net = NETS[name]()
        layers = ", ".join(_brief(layer) for layer in net.layers if not isinstance(layer, Flatten))
        table.add_row(
            name, f"{dims(net.in_shape)}: {layers}", f"{net.param_count:,}", short(net.flops), short(net.train_flops)
        )
    console().print(table)


def _brief(layer: Layer) -> str:
    size = next(iter(vars(layer).values()), "")
    return f"{type(layer).__name__.removesuffix('2d').lower()} {size}".strip()


def _details(net: Net) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=f"{net.name}: {dims(net.in_shape)} to {dims(net.out_shape)}, {type(net.loss).__name__}",
        box=SIMPLE_HEAD,
        show_footer=True,
    )
    table.add_column("#", justify="right")
    table.add_column("layer", "total", ratio=1, overflow="fold")
    table.add_column("output", no_wrap=True)
    table.add_column("parameters", f"{net.param_count:,}", justify="right", no_wrap=True)
    table.add_column("FLOPs", short(net.flops), justify="right", no_wrap=True)
    for index, layer in enumerate(net.layers):
        in_shape, out_shape = net.shapes[index : index + 2]
        count = sum(math.prod(shape) for shape in layer.param_shapes(in_shape).values())
        cells = (f"{count:,}" if count else "", short(layer.flops(in_shape)) if layer.flops(in_shape) else "")
        table.add_row(str(index), str(layer), dims(out_shape), *cells)
    console().print(table)
