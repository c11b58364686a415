"""`warpladder reproduce`: runs the experiments of the five reports, and compares their figures."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError, ResultsError, Stopped, WarpladderError
from .shared.climb_record import PATIENCE
from .shared.console import console
from .shared.files import check_place, command, write
from .shared.options import data_dir_option, out_option, progress_option
from .shared.progress import shown, stoppable

if TYPE_CHECKING:
    from ..appendix.reproduce import Definition, Reproducer
    from ..appendix.reproduce.results import Reproduction
    from ..results import RungResult

PAGE, PICTURES = "report.html", "figures"


@click.command()
@click.argument("reports", metavar="REPORT...", nargs=-1)
@click.option(
    "--quick",
    is_flag=True,
    help="A first look: parts of the data, few epochs; CUDA kernels are proven on the emulator where there is no GPU.",
)
@click.option("--only", metavar="A,B", help="Only these experiments of one report; --list names them.")
@click.option("--list", "listed", is_flag=True, help="Say what the reports' experiments are, and measure nothing.")
@data_dir_option("Folder with the data sets' files, or with a folder for each of them; nothing is downloaded.")
@click.option(
    "--template",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Write a small report of your own to begin with, and measure nothing.",
)
@out_option("DIR", "Where results, page and pictures go; runs/reproduce, or runs/reproduce-quick, if not given.")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Begin anew, and throw away what DIR holds of these reports, or of the experiments that --only names.",
)
@progress_option
def reproduce(
    reports: tuple[str, ...],
    quick: bool,
    only: str | None,
    listed: bool,
    data_dir: Path | None,
    template: Path | None,
    out: Path | None,
    overwrite: bool,
    progress: bool | None,
) -> None:
    """Run the experiments of student reports s1 to s5, and show each of their tables and figures next to those measured
    here.

    REPORT is s1, s2, s3, s4, s5, all, or the file of a report of your own. Every figure is stored when it is
    measured: the same command continues a stopped run. Missing packages and devices are reported.

    \b
    Examples:
      warpladder reproduce s5 --quick
      warpladder reproduce s1 --data-dir ~/data
      warpladder reproduce all --out runs/h200
      warpladder reproduce --template mine.toml
      warpladder reproduce mine.toml
    """
    if template is not None:
        _write_template(template, overwrite)
        return
    chosen, made = _chosen(reports, listed, quick)
    if listed:
        _list(made)
        return
    wanted = _wanted(only, made)
    place = out or Path("runs", "reproduce-quick" if quick else "reproduce")
    options = _options(quick, data_dir, out)
    every = ["all"] if "all" in reports else list(chosen)
    again = command("reproduce", *every, *options, *([] if only is None else ["--only", ",".join(wanted)]))
    try:
        with stoppable():
            _all(made, place, quick, wanted, data_dir, overwrite, progress, options)
    except KeyboardInterrupt as stop:
        code = stop.exit_code if isinstance(stop, Stopped) else 130
        raise Stopped(f"stopped: the same command goes on: {again}", code) from None
    except BrokenPipeError:  # the reader has ended
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise ResultsError(
            f"{where}{error.strerror or error}: what was measured before is stored; once it can be written, this "
            f"goes on: {again}"
        ) from None


def _write_template(path: Path, overwrite: bool) -> None:
    from ..appendix.reproduce.definition import template

    check_place(path, overwrite)
    write(path, template().encode())
    click.echo(f"Change it, then run: {command('reproduce', str(path))}")


def _chosen(reports: Sequence[str], listed: bool, quick: bool) -> tuple[tuple[str, ...], list[Definition]]:
    """Names of the requested reports, and their definitions."""
    from ..appendix import reproduce as reproducing

    requested = [name if name.endswith(".toml") else name.lower() for name in reports]
    if not requested and not listed:
        raise click.UsageError("name a report, s1 to s5, or all, or a file of your own", click.get_current_context())
    chosen = reproducing.NAMES if not requested or "all" in requested else tuple(dict.fromkeys(requested))
    made = [reproducing.definition(name, quick=quick) for name in chosen]
    names = [report.name for report in made]
    if len(set(names)) < len(names):
        raise ConfigError(f"two reports are called {max(names, key=names.count)}: give one file another name")
    return chosen, made


def _wanted(only: str | None, made: Sequence[Definition]) -> tuple[str, ...]:
    """Names of the experiments in --only; empty for all."""
    context = click.get_current_context()
    wanted = tuple(part.strip() for part in (only or "").split(",") if part.strip())
    if only is not None and not wanted:
        raise click.UsageError("--only names no experiment: --list shows them", context)
    if only is not None and len(made) > 1:
        raise click.UsageError("--only wants one report, whose experiments it names", context)
    if unknown := [name for name in wanted if name not in made[0].experiments]:
        raise ConfigError(f"{made[0].name} has no experiment {unknown[0]!r}; it has {', '.join(made[0].experiments)}")
    return wanted


def _options(quick: bool, data_dir: Path | None, out: Path | None) -> list[str]:
    """Options of a command that makes a report again, without the report's name."""
    words = ["--quick"] * quick
    for option, value in (("--data-dir", data_dir), ("--out", out)):
        words += [] if value is None else [option, str(value)]
    return words


def _all(
    made: list[Definition],
    place: Path,
    quick: bool,
    only: tuple[str, ...],
    data_dir: Path | None,
    overwrite: bool,
    progress: bool | None,
    options: list[str],
) -> None:
    """Reproduce reports in turn. A report that cannot begin, for example without its data, does not stop the others."""
    failed: list[str] = []
    for report in made:
        try:
            _one(
                report,
                place / report.name,
                quick,
                only,
                data_dir,
                overwrite,
                progress,
                command("reproduce", report.source, *options),
            )
        except WarpladderError as error:
            if len(made) == 1:
                raise
            failed.append(report.name)
            click.echo(f"warpladder: {report.name}: {error}", err=True)
        except BaseException:
            with suppress(OSError):  # the first error is reported, not the page's
                _index(made, place)
            raise
        _index(made, place)
    if len(made) > 1:
        click.echo(f"\nAll reports: {place / PAGE}")
    if failed:
        raise ResultsError(
            f"{len(failed)} of {len(made)} reports could not be reproduced, for the reasons above: {', '.join(failed)}"
        )


def _index(made: list[Definition], place: Path) -> None:
    """Write the page of all reports in the folder, finished and waiting ones, if the folder exists."""
    from ..appendix.reproduce import NAMES, RESULTS
    from ..appendix.reproduce.report.index import Entry, write_index
    from ..appendix.reproduce.results import Reproduction

    titles = {report.name: report.title for report in made}
    entries = []
    for name in dict.fromkeys((*NAMES, *titles)):
        stored, link = place / name / RESULTS, f"{name}/{PAGE}"
        if stored.exists():
            try:
                found = Reproduction.load(stored)
                entries.append(Entry(name, found.title, link, found))
            except ResultsError as error:
                entries.append(Entry(name, titles.get(name, ""), link, reason=f"{error}"))
        elif name in titles:
            entries.append(Entry(name, titles[name], link))
    if place.is_dir():
        write_index(entries, place / PAGE)


def _list(made: list[Definition]) -> None:
    for report in made:
        click.echo(f"{report.name}: {report.title}")
        for name, experiment in report.experiments.items():
            click.echo(f"  {name:<20} {experiment.summary()}")


@dataclass
class _Record:
    """Page of a reproduction in progress, written again at intervals."""

    course: Reproducer
    next_page: float = 0.0

    def written(self, found: Reproduction) -> None:
        if perf_counter() >= self.next_page:
            start = perf_counter()
            self.page(found)
            self.next_page = perf_counter() + PATIENCE * (perf_counter() - start)

    def page(self, found: Reproduction) -> None:
        from ..appendix.reproduce.report.page import write_page

        write_page(found, self.course.folder / PAGE)

    def end(self) -> None:
        """Show the tables, and write the page and the pictures."""
        from ..appendix.reproduce.report.files import write_pictures
        from ..appendix.reproduce.report.terminal import show
        from ..appendix.reproduce.resolve import FAULTS

        found, folder = self.course.results(), self.course.folder
        drawn = 0
        try:
            show(found, console())
        finally:  # even if the reader has ended
            try:
                self.page(found)
                drawn = write_pictures(found, folder / PICTURES)
            except FAULTS as error:  # the results are on the disk already
                click.echo(f"warpladder: the page could not be drawn: {type(error).__name__}: {error}", err=True)
        click.echo(
            f"\nAll of it: {folder / 'results.json'}"
            + (f"\nPictures: {folder / PICTURES}, {drawn} as SVG and PNG" if drawn else "")
        )
        click.echo(f"Open this: {folder / PAGE}")


def _one(
    report: Definition,
    folder: Path,
    quick: bool,
    only: tuple[str, ...],
    data_dir: Path | None,
    overwrite: bool,
    progress: bool | None,
    again: str,
) -> None:
    """Reproduce one report in its folder."""
    from ..appendix.reproduce import MEASURED, RESULTS, Reproducer, Watcher
    from ..appendix.reproduce.provenance import RECORD
    from ..results import RungResult
    from ..results.text.words import news as line_of

    if overwrite and only:
        _remove(
            folder / MEASURED,
            (),
            [path.name for name in only for path in (folder / MEASURED).glob(f"{name}.*") if path.is_file()],
        )
    elif overwrite:
        _remove(folder, (MEASURED, PICTURES), (RESULTS, RECORD, PAGE))

    def news(item: RungResult | str) -> None:
        click.echo(f"  {line_of(item) if isinstance(item, RungResult) else item}")

    click.echo(f"\n{report.name.upper()}: {report.title}")
    watcher = Watcher(begin=lambda name, at, of: click.echo(f"{report.name} {at} of {of}: {name}"), news=news)
    course = Reproducer(report, folder, quick, data_dir, watcher, again)
    record = _Record(course)
    watcher.written = record.written
    try:
        with shown(progress) as bar:
            watcher.progress = bar
            course.run(only)
    except KeyboardInterrupt:
        if course.begun:
            with suppress(OSError, WarpladderError):
                record.end()
        raise
    record.end()


def _remove(folder: Path, folders: Sequence[str], files: Sequence[str]) -> None:
    """Remove the files that a reproduction wrote, and no others."""
    for name in folders:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
    for name in files:
        with suppress(FileNotFoundError):
            (folder / name).unlink()
