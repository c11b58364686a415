"""`warpladder rungs`: lists the ladder and the peers, and states which can run here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..errors import RungError
from .shared.console import console
from .shared.types import NetName

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..config import TrainConfig
    from ..nets import Net
    from ..rungs.base import Rung


@click.command()
@click.argument("names", metavar="[RUNG]...", nargs=-1)
@click.option(
    "--net",
    "net_name",
    type=NetName(),
    metavar="NET",
    default="mlp",
    show_default=True,
    help="Which net to ask each rung about.",
)
def rungs(names: tuple[str, ...], net_name: str) -> None:
    """List the rungs and the peers, and show if each can train here; or show all facts of the named ones.

    \b
    Examples:
      warpladder rungs
      warpladder rungs --net autoencoder
      warpladder rungs graph torch:device=cuda:mode=graph
    """
    from ..ladder import LADDER, PEERS, find
    from ..rungs.options import too_few_cores
    from ..train.resolve import resolve_config, resolve_net

    chosen = [find(name) for name in names]
    net, config = resolve_net(net_name, (1, 28, 28), 10), resolve_config(net_name)
    for rung in chosen:
        if reason := too_few_cores(net, config, rung.options):
            raise RungError(f"rung {rung.name!r}: {reason}")
    out = console()
    if chosen:
        for rung in chosen:
            _details(out, rung, net, config)
        return
    reasons = {rung: rung.unsupported(net, config) for rung in LADDER + PEERS}
    numbers = {
        reason: str(number) for number, reason in enumerate(dict.fromkeys(filter(None, reasons.values())), start=1)
    }
    for title, members in (("Rungs, in order", LADDER), ("Peers: what others offer, timed with the rungs", PEERS)):
        _list(out, title, f"trains\n{net.name}?", [(rung, numbers.get(reasons[rung] or "", "")) for rung in members])
    if numbers:
        out.print(
            _why_not(
                [
                    (number, [rung.name for rung in reasons if reasons[rung] == reason], reason)
                    for reason, number in numbers.items()
                ]
            )
        )
    out.print("The idea of one, and how it differs: warpladder rungs NAME", style="dim")


def _list(out: Console, title: str, question: str, rows: list[tuple[Rung, str]]) -> None:
    """Print a line for each rung: "yes", or the number of the reason why it cannot train."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title, "bold"), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("name", overflow="fold")
    table.add_column("what it is", ratio=1, overflow="fold")
    table.add_column(question, no_wrap=True)
    for rung, number in rows:
        table.add_row(
            "\n:".join(rung.name.split(":")),
            rung.title,
            f"no: {number}" if number else "yes",
            style="dim" if number else "",
        )
    out.print(table)


def _why_not(reasons: list[tuple[str, list[str], str]]) -> Table:
    """Table of reasons with their numbers, and the rungs of each reason below it."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1), pad_edge=True)
    grid.add_column()
    grid.add_column(overflow="fold")
    for number, names, reason in reasons:
        grid.add_row(Text(f"{number}.", "bold"), Text.assemble(reason, "\n", (", ".join(names), "dim"), "\n"))
    return grid


def _details(out: Console, rung: Rung, net: Net, config: TrainConfig) -> None:
    """Print all facts of a rung."""
    from rich.padding import Padding
    from rich.text import Text

    out.print(Text.assemble((rung.name, "bold"), f": {rung.title}"))
    lines = [rung.idea]
    lines += (
        [f"Products in {rung.precision}{f' on {rung.unit}' if rung.unit else ''}."]
        if rung.precision != "fp32" or rung.unit
        else []
    )
    lines += [f"The gradients of a batch's samples are added in {rung.sums}."] if rung.sums != "fp32" else []
    lines += [f"It differs: {deviation}." for deviation in rung.deviations]
    reason = rung.unsupported(net, config)
    lines.append(f"It trains {net.name} here." if reason is None else f"It cannot train {net.name} here: {reason}")
    out.print(Padding(Text("\n".join(lines)), (0, 0, 0, 2)))
    if rung.options.names():
        example = f"{rung.base.name}:{rung.options.names()[-1]}=..."
        out.print(Padding(f"Its options, written as {example}", (0, 0, 0, 2)))
        out.print(Padding(_options(rung), (0, 0, 0, 3)))
    out.print()


def _options(rung: Rung) -> Table:
    """Table of a rung's options, with the values and meaning of each; they are written after the rung's name and a
    colon.
    """
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1), pad_edge=True)
    grid.add_column(overflow="fold")
    for name, kind, help in rung.options.known():
        grid.add_row(Text(f"{name}={kind.form}", "bold"), Text(help))
    return grid
