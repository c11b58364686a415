"""`Reader`: stream of the bytes of one file, unpacked if its content (not its name) is gzip."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from ..errors import DataError
from ..files.whole import ADDRESS, is_address

#: Most bytes of one unpacked file, against gzip bombs: several times the largest set.
LIMIT = 2**30
_BLOCK = 2**20


class Reader:
    """Stream of a file's bytes that turns every failure into a `DataError` with the file's name.

    Parameters
    ----------
    raw : BinaryIO
        Seekable file; read from its start.
    name : str
        Name of the file in error messages.
    limit : int
        Most unpacked bytes; a larger file is an error.
    """

    def __init__(self, raw: BinaryIO, name: str, limit: int = LIMIT) -> None:
        self.name = name
        self._limit = limit
        self._left = limit
        self._ahead = b""
        self._stream: BinaryIO | gzip.GzipFile = raw
        try:
            self.gzipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
        except OSError as error:
            self.fail(f"cannot be read ({error.strerror or error})")
        if self.gzipped:
            self._stream = gzip.GzipFile(fileobj=raw, mode="rb")

    def fail(self, what: str) -> NoReturn:
        """Raise `DataError` with the file's name and this message."""
        raise DataError(f"{self.name}: {what}")

    def peek(self, count: int) -> bytes:
        """Next `count` bytes, without consuming them."""
        self._ahead = self.read(count)
        return self._ahead

    def read(self, count: int) -> bytes:
        """Next `count` bytes; fewer only at the end of the file."""
        ahead, self._ahead = self._ahead[:count], self._ahead[count:]
        return ahead + self._pull(count - len(ahead)) if ahead else self._pull(count)

    def _pull(self, count: int) -> bytes:
        try:
            block = self._stream.read(count)
        except EOFError:
            self.fail("truncated gzip, the data end too early: fetch the file again")
        except (gzip.BadGzipFile, zlib.error) as error:
            self.fail(f"damaged gzip ({error}): fetch the file again")
        except OSError as error:
            self.fail(f"cannot be read ({error.strerror or error})")
        self._left -= len(block)
        if self._left < 0:
            self.fail(f"unpacks to more than {self._limit:,} bytes, which no data set here does: fetch the file again")
        return block

    def take(self, count: int) -> np.ndarray:
        """Up to `count` bytes as uint8, read block by block: a false count takes no memory.

        NumPy puts a large array on large pages, which makes shuffled access faster (docs/notes/native.md).
        """
        blocks: deque[bytes] = deque()
        size = 0
        while size < count and (block := self.read(min(_BLOCK, count - size))):
            blocks.append(block)
            size += len(block)
        out = np.empty(size, np.uint8)
        start = 0
        while blocks:  # each block is freed after it was copied, so memory never has two whole copies
            block = blocks.popleft()
            out[start : start + len(block)] = np.frombuffer(block, np.uint8)
            start += len(block)
        return out

    def rest(self) -> memoryview:
        """Bytes of the file that are left."""
        return self.take(self._left + len(self._ahead) + 1).data


def from_bytes(content: bytes, name: str = "input", limit: int = LIMIT) -> Reader:
    """Reader of bytes in memory."""
    return Reader(io.BytesIO(content), name, limit)


def path_of(name: str | os.PathLike[str]) -> Path:
    """Path of a file. Raises `DataError` for an address, as https://..., which nothing here fetches."""
    if is_address(name):
        raise DataError(f"{os.fspath(name)}: {ADDRESS}")
    return Path(name).expanduser()


@contextmanager
def opened(path: Path, limit: int = LIMIT) -> Iterator[Reader]:
    """Open a file for reading. Raises `DataError` if it is no regular file or not readable."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise DataError(f"{path}: is a directory where a file is wanted")
        if not stat.S_ISREG(mode):
            raise DataError(f"{path}: is not a regular file")
        raw = open(path, "rb")  # noqa: SIM115 (closed below; only its opening is guarded here)
    except OSError as error:
        path_of(path)  # which says more of an address
        raise DataError(
            f"{path}: cannot be opened ({error.strerror or error}): check the path and its permissions"
        ) from None
    with raw:
        yield Reader(raw, str(path), limit)
