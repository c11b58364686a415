"""Progress of long commands, and their reaction to SIGTERM and to Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from ...errors import Stopped

#: Seconds after which a signal is sent again that was lost where Python ignores exceptions.
AGAIN = 0.05


@contextmanager
def stoppable() -> Iterator[None]:
    """Context in which SIGTERM ends a command as Ctrl-C does, and neither is lost. Python allows handlers only in the
    main thread, and ignores what they raise in a destructor or a weak reference's callback: the signal is sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stopped("stopped", 128 + signum)

    def again(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            return hook(lost)
        signum = lost.exc_value.exit_code - 128 if isinstance(lost.exc_value, Stopped) else signal.SIGINT
        threading.Timer(AGAIN, os.kill, (os.getpid(), signum)).start()

    before, hook = signal.signal(signal.SIGTERM, stop), sys.unraisablehook
    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


@contextmanager
def shown(wanted: bool | None) -> Iterator[Callable[[str, int, int, float], None] | None]:
    """Context with a function that shows progress: a bar on a terminal, lines elsewhere if requested; None to show
    nothing.
    """
    terminal = sys.stderr.isatty()
    if not (terminal if wanted is None else wanted):
        yield None
    elif not terminal:
        yield lambda what, done, total, left: click.echo(f"{what} ({done} of {total}{_left(left)})", err=True)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description:<32}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            BarColumn(max(4, min(40, console.width - 54))),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
        )
        # rows are printed through the bar's console only if both use the same terminal
        bar = Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())
        with bar:
            task = bar.add_task("starting", left="")
            yield lambda what, done, total, left: bar.update(
                task, description=what, completed=done, total=total, left=_left(left)[2:]
            )


def _left(seconds: float) -> str:
    """Estimated time left as text, rounded coarsely."""
    if seconds <= 0:
        return ""
    if seconds < 90:
        return f", about {max(5, round(seconds / 5) * 5)} s left"
    return f", about {round(seconds / 60)} min left"
