"""The results as a table for a terminal of 80 columns or more."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ..results import Results, RungResult
from . import words

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def table(results: Results) -> Table:
    """A rich table: a row for each rung and peer, remarks and the closing sentence below it."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    net, data = results.net, results.data
    batch = results.config.get("batch_size") or "full"
    title = f"{net.name} on {data.name}: {data.train:,} samples, batch {batch}, tested after {words.epochs(results.epochs)}"
    out = Table(
        title=Text(title, "bold"),
        title_justify="left",
        caption=_caption(results),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,  # the box puts a space between columns, and 80 columns have no room for more
    )
    out.add_column("rung", no_wrap=True)
    out.add_column("idea", ratio=1, min_width=12, overflow="fold")
    for head in ("time per\nepoch", "images\nper s", "over\nfirst", "over\nbelow", "error", "test\n" + _score_name(results), "peak\nMB"):
        out.add_column(head, justify="right", no_wrap=True)
    fastest = results.fastest(peers=True)
    for at, rung in enumerate(results.rungs):
        style = "" if rung.timing else "red" if rung.status in ("failed", "refused") else "dim"
        style = "green" if rung is fastest else style
        out.add_row(Text(_folded(rung.name), "bold"), Text(rung.title), *map(Text, _figures(results, rung)), style=style)
        following = results.rungs[at + 1 : at + 2]
        if following and following[0].peer and not rung.peer:
            out.add_section()
    return out


def _caption(results: Results) -> Text:
    from rich.text import Text

    out = Text(style="not italic not dim")
    for name, remark in words.remarks(results):
        out.append(f"{name}: ", "bold").append(f"{remark}\n")
    return out.append(words.conclusion(results), "bold")


def _folded(name: str) -> str:
    """A long name on several lines, broken at its hyphens, so that it leaves room for figures."""
    return "\n".join(textwrap.wrap(name, 13))


def _score_name(results: Results) -> str:
    return "MSE" if results.net.loss == "MSELoss" else "acc."


def _figures(results: Results, rung: RungResult) -> list[str]:
    """The cells behind the idea."""
    time, rate = words.STATUS.get(rung.status, ""), ""
    if rung.timing is not None:
        time = words.seconds(rung.timing.seconds_per_epoch) + ("*" if rung.timing.scaled else "")
        rate = words.count(rung.timing.samples_per_second)
    speedups = words.times(results.over_first(rung)), words.times(results.over_below(rung))
    return [time, rate, *speedups, words.error(rung), words.score(rung), words.megabytes(rung.peak_rss_bytes)]
