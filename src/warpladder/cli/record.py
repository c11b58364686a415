"""What a climb leaves behind: rows as they come, files that are always whole, and a table at the end, however it ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING

import click

from ..errors import ResultsError, Stopped
from .keeping import fresh_folder
from .options import console

if TYPE_CHECKING:
    from ..results import Results, RungResult
    from ..results.sweep import Sweep

FILES = ("results.json", "report.html")


#: The page is drawn anew during a climb when so many times as long has passed as drawing it took: no rung waits for
#: pictures.
PATIENCE = 20


@dataclass
class Record:
    """The files of one climb.

    headings : of its tasks; one, empty, where nothing but rungs is compared.
    tasks : the latest results of each task that was begun. failed : why they could not be written, told once.
    next_page : when the page may be written again, on the clock of `perf_counter`; results.json is written at every
    news.
    """

    folder: Path
    headings: tuple[str, ...] = ("",)
    tasks: list[Results] = field(default_factory=list)
    at: int = -1  # the task under way
    failed: OSError | None = None
    next_page: float = 0.0

    def begin(self, heading: str) -> None:
        """Say that the next task begins."""
        self.at += 1
        if heading:
            print("\n" * (self.at > 0) + heading, flush=True)

    def keep(self, results: Results) -> None:
        """Take the results of the task under way in place of earlier ones."""
        self.tasks[self.at :] = [results]

    def note(self, results: Results, news: RungResult | None) -> None:
        """Write what is known so far, and print a line about a rung that there is news of. A disk that is full stops no
        climb.
        """
        from ..results.text.words import news as told

        self.keep(results)
        if news is not None:
            print(told(news), flush=True)
        try:
            self._write(page=perf_counter() >= self.next_page)
        except OSError as error:
            if self.failed is None:
                click.echo(
                    f"{self.folder} cannot be written ({error.strerror or error}): the climb goes on, and its table comes here",
                    err=True,
                )
            self.failed = error

    def end(self) -> None:
        """Print the tables, and then write the files: what cannot be written has been seen."""
        from ..results.text.sweep import show

        try:
            print()
            show(self._sweep(), console())
        finally:  # also where nobody reads the table any more
            self._write()
        click.echo(f"\nAll of it: {self.folder / FILES[0]}\nOpen this: {self.folder / FILES[1]}")

    def rescue(self, error: BaseException) -> None:
        """Show what there is of a climb that was stopped, and say so to whoever stopped it."""
        if not self.tasks:
            return
        try:
            self.end()
        except BrokenPipeError:
            return
        except OSError as full:
            click.echo(f"{self.folder} cannot be written: {full.strerror or full}", err=True)
        if isinstance(error, KeyboardInterrupt):
            code = error.exit_code if isinstance(error, Stopped) else 130
            timed = sum(len(task.timed()) for task in self.tasks)
            can_train = sum(rung.status != "unsupported" for task in self.tasks for rung in task.rungs)
            found = f"{timed} of {can_train} rungs have a time"
            if len(self.headings) > 1:
                found += f", in {len(self.tasks)} of {len(self.headings)} tasks"
            raise Stopped(f"the climb was stopped: {found}", code) from None

    def _sweep(self) -> Sweep:
        from ..results import SCHEMA
        from ..results.sweep import Sweep

        return Sweep(SCHEMA, self.headings, tuple(self.tasks))

    def _write(self, page: bool = True) -> None:
        from ..report.page import write_page, write_sweep

        sweep, (stored, shown) = self._sweep(), (self.folder / name for name in FILES)
        several = len(self.headings) > 1
        if several:
            sweep.save(stored)
        else:
            self.tasks[0].save(stored)
        if page:
            start = perf_counter()
            if several:
                write_sweep(sweep, shown)
            else:
                write_page(self.tasks[0], shown)
            self.next_page = perf_counter() + PATIENCE * (perf_counter() - start)


@contextmanager
def folder(wanted: Path | None, name: str, overwrite: bool) -> Iterator[Path]:
    """The climb's folder: made before anything is measured, so that a place that cannot be written is an error at once;
    removed if nothing came of it.

    Raises
    ------
    ResultsError
        The folder that is wanted holds another climb, and nobody asked to overwrite that.
    """
    if wanted is None:
        with fresh_folder(name, "name a folder with --out") as path:
            yield path
        return
    there = [file for file in FILES if (wanted / file).exists()]
    if there and not overwrite:
        raise ResultsError(
            f"{wanted} holds another climb ({there[0]}): name another folder with --out, or replace it with --overwrite"
        )
    wanted.mkdir(parents=True, exist_ok=True)
    try:
        yield wanted
    except BaseException:
        with suppress(OSError):
            wanted.rmdir()
        raise


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM, like Ctrl-C, ends a climb with what it has found. Off the main thread Python allows no handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stopped("stopped", 128 + signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def shown(wanted: bool | None) -> Iterator[Callable[[str, int, int, float], None] | None]:
    """A bar on a terminal, lines where progress was asked for and there is none."""
    terminal = sys.stderr.isatty()
    if not (terminal if wanted is None else wanted):
        yield None
    elif not terminal:
        yield lambda what, done, total, left: click.echo(f"{what} ({done} of {total}{_left(left)})", err=True)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        # rows go through the bar's console only where they are for the same terminal
        columns = TextColumn("{task.description:<32}"), BarColumn(), TextColumn("{task.fields[left]}")
        bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
        with bar:
            task = bar.add_task("starting", left="")
            yield lambda what, done, total, left: bar.update(
                task, description=what, completed=done, total=total, left=_left(left)[2:]
            )


def _left(seconds: float) -> str:
    """About how long it still takes, by steps that an estimate is good for."""
    if seconds <= 0:
        return ""
    if seconds < 90:
        return f", about {max(5, round(seconds / 5) * 5)} s left"
    return f", about {round(seconds / 60)} min left"
