"""Text of a climb of several tasks: a table for each under its heading, and one of all times."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from .. import Results, RungResult
from ..sweep import Sweep
from . import words
from .columns import fitting
from .plain import LEAST_WIDTH
from .table import table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show(sweep: Sweep, console: Console) -> None:
    """Print a table for each begun task, below its heading, and for several tasks one of all times."""
    from rich.text import Text

    for at, (heading, results) in enumerate(sweep.items()):
        if heading:
            console.print(Text("\n" * (at > 0) + heading, "bold"))
        console.print(table(results, console.width))
    if len(sweep.headings) > 1:
        console.print(times(sweep, console.width))
        for heading in sweep.missing:
            console.print(f"{heading}: not reached", markup=False)


def as_plain(sweep: Sweep) -> str:
    """Tables of a sweep as plain text, as wide as the terminal, or 80 columns without one."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, color_system=None, highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    show(sweep, console)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines())


def rows(sweep: Sweep) -> list[tuple[str, str, list[str]]]:
    """Rung, task, and figures of each rung with a time in any task: time per epoch, samples per second and test
    score; rung after rung, in order.
    """
    names = dict.fromkeys(rung.name for results in sweep.tasks for rung in results.timed())
    return [
        (name, heading, _figures(results, rung))
        for name in names
        for heading, results in sweep.items()
        for rung in results.rungs
        if rung.name == name
    ]


def _figures(results: Results, rung: RungResult) -> list[str]:
    rate = "" if rung.timing is None else words.count(rung.timing.samples_per_second)
    return [words.epoch_time(rung) + "\ndisturbed" * results.is_disturbed(rung), rate, words.score(rung)]


def score_name(results: Results) -> str:
    """Name of the test score of a task: "test MSE" or "test acc."."""
    return f"test {words.score_name(results.net.loss)}"


def times(sweep: Sweep, width: int) -> Table:
    """Table of all times, with a row for each rung and task."""
    groups = (("time per epoch", "samples per s"), (score_name(sweep.tasks[0]),))
    return fitting(
        "All tasks",
        ["rung", "task"],
        groups,
        [((name, heading), figures) for name, heading, figures in rows(sweep)],
        width,
    )
