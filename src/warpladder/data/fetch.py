"""Downloads from several mirrors, checked by sha256, stored in the user's cache.

pooch writes to a temporary file and renames it after its checksum was verified, so the cache never has partial files.
It verifies the checksum again at every use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import DataError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Rate (bytes per second) below which a mirror is left after PATIENCE seconds, if another mirror remains.
SLOW_RATE = 100_000
PATIENCE = 20.0
_TIMEOUT = (10, 30)  # seconds to connect, seconds of silence
_CHUNK = 2**16


@dataclass(frozen=True)
class Remote:
    """File to download: its name in the cache, its sha256 and its addresses, best first."""

    name: str
    sha256: str
    urls: tuple[str, ...]


class _TooSlow(Exception):
    """Error: a slow mirror was left, because others remain."""


def cache_folder(dataset: str) -> Path:
    """Folder of a data set's downloads in the user's cache."""
    import pooch

    return Path(pooch.os_cache("warpladder")) / dataset


def fetch_all(
    dataset: str, remotes: Sequence[Remote], *, folder: Path | None = None, progress: bool = True
) -> list[Path]:
    """Paths of a data set's files in `folder`, by default in the cache. Missing and damaged files are downloaded."""
    with _display(progress) as display:
        return [_fetch(dataset, remote, folder or cache_folder(dataset), display) for remote in remotes]


def _fetch(dataset: str, remote: Remote, folder: Path, display: Progress | None) -> Path:
    import pooch
    import requests

    troubles = []
    for number, url in enumerate(remote.urls, start=1):
        host = urlsplit(url).hostname or url
        bar = _Bar(display, remote.name, leave_if_slow=number < len(remote.urls))
        try:
            with _quiet(pooch.get_logger()):
                download = pooch.HTTPDownloader(
                    progressbar=bar, chunk_size=_CHUNK, timeout=_TIMEOUT, headers={"Accept-Encoding": "identity"}
                )
                return Path(pooch.retrieve(url, f"sha256:{remote.sha256}", remote.name, folder, downloader=download))
        except requests.RequestException as error:
            troubles.append(f"{host}: {_reason(error)}")
        except _TooSlow:
            troubles.append(f"{host}: too slow")
        except ValueError:  # pooch reports a wrong sum
            troubles.append(f"{host}: sent something else (wrong sha256)")
        except OSError as error:
            raise DataError(
                f"{folder}: cannot be written ({error.strerror or error}): --data-dir names another folder"
            ) from None
        bar.remove()
    with suppress(OSError):
        folder.rmdir()  # the file is empty
    raise DataError(
        f"{dataset}: {remote.name} could not be downloaded ({'; '.join(troubles)}). Three ways out: get online and try "
        f"again; where there is a network, 'warpladder data --fetch {dataset} --data-dir FOLDER', and name a copy of "
        "that folder here with --data-dir or WARPLADDER_DATA; or use --data digits, which is embedded"
    )


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "broke off"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Suppress pooch's messages about a download: the progress bar shows the same."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _display(shown: bool) -> Iterator[Progress | None]:
    """Context with progress bars on stderr, which appear with the first byte; None if they are not wanted."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    # Within 80 columns also for the longest name.
    columns = (TextColumn("{task.description}"), BarColumn(20), DownloadColumn(), TransferSpeedColumn())
    progress = Progress(*columns, console=Console(stderr=True))
    try:
        yield progress
    finally:
        if progress.live.is_started:
            progress.stop()


class _Bar:
    """Progress bar that pooch updates; it raises `_TooSlow` at a slow mirror.

    pooch sets `total` when the answer begins, calls `update` for each chunk, and fills the bar at the end by `reset`,
    `update(total)` and `close`.
    """

    def __init__(self, display: Progress | None, title: str, *, leave_if_slow: bool) -> None:
        self._display = display
        self._title = title
        self._leave_if_slow = leave_if_slow
        self._task: TaskID | None = None
        self._start = time.monotonic()
        self._done = 0
        self._total = 0

    @property
    def total(self) -> int:
        """Size of the download in bytes from the server's header; 0 if unknown."""
        return self._total

    @total.setter
    def total(self, total: int) -> None:
        self._total = total
        self._start = time.monotonic()
        if self._display is not None:
            if not self._display.live.is_started:
                self._display.start()
            self._task = self._display.add_task(self._title, total=total or None)

    def update(self, count: int) -> None:
        """Add `count` received bytes to the bar."""
        self._done += count
        if self._display is not None and self._task is not None:
            self._display.update(self._task, completed=self._done)
        seconds = time.monotonic() - self._start
        if self._leave_if_slow and seconds > PATIENCE and self._done < SLOW_RATE * seconds:
            raise _TooSlow

    def reset(self) -> None:
        """Record that the download is complete: later updates only fill the bar."""
        self._done = 0
        self._leave_if_slow = False

    def close(self) -> None:
        """End a download: pooch calls it before it verifies the checksum."""

    def remove(self) -> None:
        """Remove the bar of a failed mirror."""
        if self._display is not None and self._task is not None:
            self._display.remove_task(self._task)
            self._task = None
