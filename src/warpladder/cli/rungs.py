"""`warpladder rungs`: the ladder, the peers beside it, and what can run here."""

from __future__ import annotations

import click

from ..config import RECIPES
from .options import NETS, console


@click.command()
@click.option(
    "--net",
    "net_name",
    type=click.Choice(tuple(NETS)),
    metavar="NET",
    default="mlp",
    show_default=True,
    help="Which net to ask each rung about.",
)
def rungs(net_name: str) -> None:
    """Show the rungs and the peers, the idea of each, and whether it can train here.

    \b
    Examples:
      warpladder rungs
      warpladder rungs --net autoencoder
    """
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from ..ladder import LADDER, PEERS
    from ..rungs.base import Rung

    net = NETS[net_name]()
    config = RECIPES[net_name]

    def show(title: str, members: tuple[Rung, ...]) -> Table:
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
        table.add_column("name", no_wrap=True)
        table.add_column("idea", ratio=3, overflow="fold")
        table.add_column(f"trains {net.name} here", ratio=2, overflow="fold")
        for rung in members:
            table.add_row(rung.name, rung.idea, escape(rung.unsupported(net, config) or "yes"))
        return table

    out = console()
    out.print(show("Rungs, in order", LADDER))
    out.print(show("Peers: what others offer, timed beside the rungs", PEERS))
