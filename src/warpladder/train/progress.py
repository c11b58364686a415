"""Progress bar of a training run. It is imported only if a bar is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from ..checkpoint import EpochSums
from .interrupt import Interrupt

#: Fewest columns of a terminal for a bar with all of its parts.
WIDE = 110


class _Description(ProgressColumn):
    """Column with the figures of a run. After Ctrl-C it shows that training will stop; it is redrawn while a long
    step runs.
    """

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__(Column(no_wrap=True))
        self.interrupt = interrupt

    def render(self, task: Task) -> Text:
        if self.interrupt.signum:
            return Text("stopping (again: at once)", style="yellow")
        return Text(task.description)


@dataclass(frozen=True)
class Show:
    """Progress bar of a run: one task of a `Progress` for all steps of all epochs."""

    progress: Progress
    task: TaskID
    epochs: int
    steps_each: int
    accuracy: bool

    def steps(self, epoch: int, step: int, sums: EpochSums) -> None:
        """Show an epoch's number (from 1), the steps done in it, and its sums."""
        words = [f"epoch {epoch}/{self.epochs}"]
        if sums.samples:
            words += ["no loss"] if sums.loss is None else [f"loss {sums.loss / sums.samples:.4f}"]
            width = self.progress.console.width
            if self.accuracy and sums.correct is not None and width >= 72:
                words.append(f"accuracy {sums.correct / sums.samples:.2%}")
            if sums.seconds and width >= WIDE:
                words.append(f"{sums.samples / sums.seconds:,.0f} samples/s")
        self.progress.update(self.task, description="  ".join(words), completed=(epoch - 1) * self.steps_each + step)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.progress.console.print(line, markup=False, highlight=False)


@contextmanager
def bar(progress: Progress | bool, interrupt: Interrupt, epochs: int, steps: int, *, accuracy: bool) -> Iterator[Show]:
    """Context with a bar over all steps of all epochs: a task of the passed `Progress`, or for True a new bar on
    stderr.
    """
    if isinstance(progress, Progress):
        with _task(progress, epochs, steps, accuracy) as show:
            yield show
        return
    console = Console(stderr=True)
    is_wide = console.width >= WIDE
    columns = (
        _Description(interrupt),
        BarColumn(40 if is_wide else max(4, min(20, console.width - 50))),
        *([MofNCompleteColumn(table_column=Column(no_wrap=True))] if is_wide else []),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console) as own, _task(own, epochs, steps, accuracy) as show:
        yield show


@contextmanager
def _task(progress: Progress, epochs: int, steps: int, accuracy: bool) -> Iterator[Show]:
    task = progress.add_task(f"epoch 1/{epochs}", total=epochs * steps)
    try:
        yield Show(progress, task, epochs, steps, accuracy)
    finally:
        progress.stop_task(task)
