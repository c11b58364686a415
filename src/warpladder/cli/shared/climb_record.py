"""Output of a climb: a row for each rung when it is timed, result files that are always complete, and a table at the
end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from ...errors import ResultsError, Stopped
from .console import console
from .files import fresh_folder

if TYPE_CHECKING:
    from ...results import Results, RungResult
    from ...results.sweep import Sweep

FILES = ("results.json", "report.html")


#: Pause before the page is drawn again, in multiples of its drawing time, so that no rung waits for pictures.
PATIENCE = 20


@dataclass
class ClimbRecord:
    """Files and printed lines of one climb.

    headings : heading of each task; a single empty text if only rungs are compared.
    tasks : latest results of each task that was begun.
    failed : error that prevented the writing of files, reported once.
    next_page : time of `perf_counter` before which the page is not written again; results.json is written at all news.
    """

    folder: Path
    headings: tuple[str, ...] = ("",)
    tasks: list[Results] = field(default_factory=list)
    at: int = -1  # index of the task in progress
    failed: OSError | None = None
    next_page: float = 0.0

    def begin(self, heading: str) -> None:
        """Print the heading of the next task."""
        self.at += 1
        if heading:
            print("\n" * (self.at > 0) + heading, flush=True)

    def keep(self, results: Results) -> None:
        """Replace the results of the task in progress."""
        self.tasks[self.at :] = [results]

    def note(self, results: Results, news: RungResult | None) -> None:
        """Write the results so far, and print a line about a rung with news. A full disk does not stop the climb."""
        from ...results.text.words import news as line_of

        self.keep(results)
        if news is not None:
            print(line_of(news, results), flush=True)
        try:
            self._write(page=perf_counter() >= self.next_page)
        except OSError as error:
            if self.failed is None:
                click.echo(
                    f"{self.folder} cannot be written ({error.strerror or error}): the climb goes on, and its "
                    "table comes here",
                    err=True,
                )
            self.failed = error

    def end(self) -> None:
        """Print the tables, and then write the files."""
        from ...results.text.sweep import show

        try:
            print()
            show(self._sweep(), console())
        finally:  # even if the reader of a pipe has ended
            self._write()
        click.echo(f"\nAll of it: {self.folder / FILES[0]}\nOpen this: {self.folder / FILES[1]}")

    def rescue(self, error: BaseException) -> None:
        """Show the results of a climb that was ended by an error or Ctrl-C."""
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
        from ...results import SCHEMA
        from ...results.sweep import Sweep

        return Sweep(SCHEMA, self.headings, tuple(self.tasks))

    def _write(self, page: bool = True) -> None:
        from ...results.report.page import write_page, write_sweep

        sweep, (stored, shown) = self._sweep(), (self.folder / name for name in FILES)
        several = len(self.headings) > 1
        self.folder.mkdir(parents=True, exist_ok=True)  # it may have been removed meanwhile
        if several:
            sweep.save(stored)
        else:
            self.tasks[0].save(stored, overwrite=True)
        if page:
            start = perf_counter()
            if several:
                write_sweep(sweep, shown)
            else:
                write_page(self.tasks[0], shown)
            self.next_page = perf_counter() + PATIENCE * (perf_counter() - start)


@contextmanager
def folder(wanted: Path | None, name: str, overwrite: bool) -> Iterator[Path]:
    """Folder of the climb. It is created before the measurements, so that an error is raised early, and removed if it
    stays empty.

    Raises
    ------
    ResultsError
        The folder has another climb, and `overwrite` is False.
    """
    if wanted is None:
        with fresh_folder(name, "name a folder with --out") as path:
            yield path
        return
    if os.path.lexists(wanted) and not wanted.is_dir():
        raise ResultsError(f"{wanted}: is no folder: name a folder with --out")
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
