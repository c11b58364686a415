"""Tables of whole numbers 0 to 255 in CSV, with an optional header.

Clean text is parsed block by block as arrays; a block with anything unusual in it is read again
line by line, which accepts what is harmless (spaces, quotes, "7.0") and names the line otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .reader import Reader
from .sniff import looks_like

_BLOCK = 2**20
_LONGEST_LINE = 2**20
_NUMBER = re.compile(rb"\+?([0-9]{1,20})(?:\.0*)?")


@dataclass(frozen=True)
class Table:
    """header : names of the columns, or None. cells : (rows, columns) uint8."""

    header: tuple[str, ...] | None
    cells: np.ndarray


def read_table(reader: Reader) -> Table:
    """Read a whole table; `DataError` names the line of the first cell that is no whole number 0 to 255."""
    rows = _Rows(reader)
    text = reader.read(_BLOCK).removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        reader.fail("is empty where a CSV table is wanted")
    kind = looks_like(text[:300])
    if b"\0" in text[:300] or (kind not in ("plain text", "JSON text") and not kind.startswith("unknown")):
        reader.fail(f"looks like {kind} where a CSV table is wanted")
    while text:
        end = text.rfind(b"\n") + 1
        if end:
            rows.parse(text[:end])
        elif len(text) > _LONGEST_LINE:
            reader.fail(f"line {rows.line} is longer than {_LONGEST_LINE:,} bytes: this is no CSV table")
        more = reader.read(_BLOCK)
        if not more and end < len(text):
            rows.parse(text[end:] + b"\n")
            break
        text = text[end:] + more
    if not rows.blocks:
        reader.fail("has a header but no rows")
    return Table(rows.header, np.concatenate(rows.blocks))


class _Rows:
    """Collects rows. `line` is the number, from 1, of the next line to come."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.header: tuple[str, ...] | None = None
        self.columns = 0
        self.blocks: list[np.ndarray] = []
        self.line = 1

    def parse(self, text: bytes) -> None:
        """Parse whole lines; the last byte is a newline."""
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        if not self.columns:
            text = self._start(text)
        if not text:
            return
        block = self._fast(text)
        if block is None:
            block = self._slow(text)
        else:
            self.line += len(block)
        if len(block):
            self.blocks.append(block)

    def _start(self, text: bytes) -> bytes:
        """Count the columns of the first line that is not blank; take it away where it is a header."""
        blank = text[: len(text) - len(text.lstrip())]
        self.line += blank.count(b"\n")
        first, _, after = text[len(blank) :].partition(b"\n")
        if not first:
            return b""
        other = next((mark for mark in (b";", b"\t") if mark in first and b"," not in first), None)
        if other is not None:
            self.reader.fail(f"line {self.line} has {other.decode()!r} where commas are wanted between the cells")
        cells = [_bare(cell) for cell in first.split(b",")]
        self.columns = len(cells)
        if not cells[0] or _NUMBER.fullmatch(cells[0]):
            return text[len(blank) :]
        self.header = tuple(cell.decode("utf-8", "replace") for cell in cells)
        self.line += 1
        return after

    def _fast(self, text: bytes) -> np.ndarray | None:
        """(lines, columns) uint8 where every cell is one to three digits, at most 255; None otherwise."""
        chars = np.frombuffer(text, np.uint8)
        newline = chars == 10
        ends = np.flatnonzero(newline | (chars == 44))
        if len(ends) % self.columns:
            return None
        lines = len(ends) // self.columns
        digits = chars - np.uint8(48)  # separators wrap round to 250 and above
        if np.count_nonzero(newline) != lines or not newline[ends[self.columns - 1 :: self.columns]].all():
            return None
        if np.count_nonzero(digits < 10) + len(ends) != len(text):
            return None
        length = np.diff(ends, prepend=-1) - 1
        if not (length.min() >= 1 and length.max() <= 3):
            return None
        # The places before a short cell belong to its neighbour: they count times 0.
        value = digits[ends - 1].astype(np.uint16)
        value += digits[ends - 2] * (length > 1) * np.uint16(10)
        value += digits[ends - 3] * (length > 2) * np.uint16(100)
        if value.max() > 255:
            return None
        return value.astype(np.uint8).reshape(lines, self.columns)

    def _slow(self, text: bytes) -> np.ndarray:
        rows: list[list[int]] = []
        for line in text[:-1].split(b"\n"):
            if line.strip():
                rows.append(self._row(line.split(b",")))
            self.line += 1
        return np.array(rows, np.uint8).reshape(-1, self.columns)

    def _row(self, cells: list[bytes]) -> list[int]:
        where = f"line {self.line}"
        if len(cells) != self.columns:
            self.reader.fail(f"{where} has {len(cells)} cells where the lines before it have {self.columns}")
        values = []
        for number, cell in enumerate(map(_bare, cells)):
            match = _NUMBER.fullmatch(cell)
            if match and int(match[1]) <= 255:
                values.append(int(match[1]))
                continue
            column = f"column {number + 1}" + (f" ({self.header[number][:40]!r})" if self.header else "")
            if not cell:
                self.reader.fail(f"{where}, {column}: the cell is empty where a whole number 0 to 255 is wanted")
            shown = cell[:40].decode("utf-8", "replace")
            self.reader.fail(f"{where}, {column}: {shown!r} is not a whole number 0 to 255")
        return values


def _bare(cell: bytes) -> bytes:
    """A cell without the spaces and quotes around it."""
    cell = cell.strip()
    return cell[1:-1].strip() if len(cell) > 1 and cell[:1] == cell[-1:] == b'"' else cell
