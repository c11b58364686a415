"""The progress bar of a training run. Nothing here is imported where none is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..checkpoint import Sums
from .interrupt import Interrupt

#: Called with the number of the epoch (from 1), the steps done in it, and its sums so far.
Show = Callable[[int, int, Sums], None]


class _Stopping(ProgressColumn):
    """Says that Ctrl-C was heard: the bar is redrawn while a long step still runs."""

    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__()
        self.interrupt = interrupt

    def render(self, task: Task) -> Text:
        return Text("stopping (again: at once)" if self.interrupt.signum else "", style="yellow")


@contextmanager
def bar(progress: Progress | bool, interrupt: Interrupt, epochs: int, steps: int, *, accuracy: bool) -> Iterator[Show]:
    """A bar over all steps of all epochs: a task of the given `Progress`, or with True a bar of its own on stderr."""
    if isinstance(progress, Progress):
        with _task(progress, epochs, steps, accuracy) as show:
            yield show
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), _Stopping(interrupt))
    with Progress(*columns, console=Console(stderr=True)) as own, _task(own, epochs, steps, accuracy) as show:
        yield show


@contextmanager
def _task(progress: Progress, epochs: int, steps: int, accuracy: bool) -> Iterator[Show]:
    task = progress.add_task(f"epoch 1/{epochs}", total=epochs * steps)

    def show(epoch: int, step: int, sums: Sums) -> None:
        words = [f"epoch {epoch}/{epochs}"]
        if sums.samples:
            words.append(f"loss {sums.loss / sums.samples:.4f}")
            words += [f"accuracy {sums.correct / sums.samples:.2%}"] if accuracy else []
            words += [f"{sums.samples / sums.seconds:,.0f} images/s"] if sums.seconds else []
        progress.update(task, description="  ".join(words), completed=(epoch - 1) * steps + step)

    try:
        yield show
    finally:
        progress.stop_task(task)
