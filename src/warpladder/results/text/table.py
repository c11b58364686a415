"""Results as a table for a terminal; below 60 columns it has only time and score."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from .. import Results, RungResult
from . import notes, words
from .columns import add_columns, cells

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

#: Fewest columns of a terminal for the idea and all figures, and for all figures.
WIDE, TINY = 80, 60
NAME = 13  # most letters of a rung's name on a line


def table(results: Results, width: int = WIDE) -> Table:
    """Table for a terminal of this width, by rich: a row for each rung and peer that can train here, with remarks and
    the closing sentence below.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    net, data, narrow = results.net, results.data, width < WIDE
    batch = results.config.get("batch_size") or "full"
    trained = f"batch {batch}, {words.optimizer(results)}{words.losses(results)}"
    title = f"{net.name} on {data.name}: {data.train:,} samples, {trained}, tested after {words.epochs(results.epochs)}"
    out = Table(
        title=Text(title, "bold"),
        title_justify="left",
        caption=_caption(results),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,  # the box puts a space between columns, and 80 columns are too few for more
    )
    out.add_column("rung", no_wrap=not narrow, overflow="fold", ratio=1 if narrow else None)
    if not narrow:
        out.add_column("idea", ratio=1, min_width=12, overflow="fold")
    score = f"test\n{words.score_name(results.net.loss)}"
    times = ("time per\nepoch", "images\nper s")
    gains = () if results.emulated else (("over\nfirst", "over\nbelow"),)
    middle = () if width < TINY else (*gains, ("error",))
    groups = (times, *middle, (score, "peak\nMB"))
    add_columns(out, groups, narrow)
    fastest = results.leader
    rungs = words.shown(results)
    for at, rung in enumerate(rungs):
        style = "" if rung.timing else "dim" if rung.status == "missing" else "red"
        style = "green" if rung is fastest else style
        name = Text(_folded(rung.name), "bold")
        about = [name.append(f"\n{rung.title}", "not bold")] if narrow else [name, Text(rung.title)]
        figures = _figures(results, rung)
        if width < TINY:
            figures = [*figures[:2], *figures[-2:]]
        out.add_row(*about, *map(Text, cells(groups, figures, narrow)), style=style)
        following = rungs[at + 1 : at + 2]
        if following and following[0].peer and not rung.peer:
            out.add_section()
    return out


def _caption(results: Results) -> Text:
    from rich.text import Text

    out = Text(style="not italic not dim")
    for name, note in notes.notes(results):
        out.append(f"{name}: ", "bold").append(f"{note}\n")
    for warning in notes.warnings(results):
        out.append(f"{warning}\n", "bold yellow")
    return out.append(words.conclusion(results), "bold")


def _folded(name: str) -> str:
    """Long name on several lines, to leave columns for figures: one for each option, and broken after hyphens,
    underscores, dots and equals signs.
    """
    rung, options = words.parts_of(name)
    lines = [""]
    for part in re.findall(r"[^_.=-]*[_.=-]|[^_.=-]+", rung):
        if lines[-1] and len(lines[-1]) + len(part) > NAME:
            lines.append("")
        lines[-1] += part
    lines = [piece for line in lines for piece in textwrap.wrap(line, NAME, break_on_hyphens=False)]
    return "\n".join([*lines, *(f":{option}" for option in options)])


def _figures(results: Results, rung: RungResult) -> list[str]:
    """Cells of a row after the rung's idea."""
    time, rate = "\n".join(textwrap.wrap(words.epoch_time(rung), 8)), ""
    if rung.timing is not None:
        time = words.epoch_time(rung) + "\ndisturbed" * results.is_disturbed(rung)
        rate = words.count(rung.timing.samples_per_second)
    gains = [words.times(results.over_first(rung)), words.times(results.over_below(rung))] * (not results.emulated)
    return [time, rate, *gains, words.error(rung), words.score(rung), words.megabytes(rung.peak_rss_bytes)]
