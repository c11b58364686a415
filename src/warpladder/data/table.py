"""Tables in CSV with an optional header: whole numbers 0 to 255 or any finite numbers, and names of classes.

Clean text is parsed block by block as arrays. A block with anything unusual is read again line by line, which accepts
harmless forms (spaces, quotes, "7.0") and names the line of any other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .reader import Reader
from .sniff import looks_like

_BLOCK = 2**20
_LONGEST_LINE = 2**20
_LARGEST = float(np.finfo(np.float32).max)
_WHOLE = re.compile(rb"\+?([0-9]{1,20})(?:\.0*)?")
#: A finite number in a table of features.
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True)
class CsvTable:
    """Content of a file.

    header : names of the columns, or None.
    cells : (rows, columns) uint8, or float32 for any numbers.
    names : (rows,) str: the first column if it holds text, which is then not among the cells; None if it holds numbers.
    """

    header: tuple[str, ...] | None
    cells: np.ndarray
    names: np.ndarray | None = None

    @property
    def columns(self) -> int:
        """Number of columns of the file."""
        return self.cells.shape[1] + (self.names is not None)


def read_table(reader: Reader, *, names: bool = False, numbers: bool = False) -> CsvTable:
    """Read a whole table; `DataError` names the line of the first wrong cell.

    Parameters
    ----------
    reader : Reader
    names : bool
        True if the first column may hold names of classes: text in every row.
    numbers : bool
        True if cells may be any finite numbers, not only whole numbers from 0 to 255.
    """
    rows = _Rows(reader, names, numbers)
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
    rows.finish()
    if not rows.blocks:
        reader.fail("has a header but no rows")
    return CsvTable(rows.header, np.concatenate(rows.blocks), np.array(rows.names) if rows.named else None)


class _Rows:
    """Rows of a table, collected block by block. line : number, from 1, of the next line."""

    def __init__(self, reader: Reader, may_name: bool, numbers: bool) -> None:
        self.reader, self.may_name, self.numbers = reader, may_name, numbers
        self.header: tuple[str, ...] | None = None
        self.columns = 0  # of numbers: a column of names is not counted
        self.blocks: list[np.ndarray] = []
        self.names: list[str] = []
        self.named = False
        self.doubtful: tuple[str, ...] | None = None  # first row, a header unless its name occurs again
        self.held = b""  # first line, until the second one decides whether it is a header
        self.line = 1

    def parse(self, text: bytes) -> None:
        """Parse whole lines; the last byte is a newline."""
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        if not self.columns:
            text = self._start(self.held + text, last=False)
        self._add(text)

    def _add(self, text: bytes) -> None:
        """Store the rows of whole lines, if they hold any: blank lines do not."""
        if text and len(block := self._block(text)):
            self.blocks.append(block)

    def finish(self) -> None:
        """End the table after its last line."""
        if self.held:
            self._add(self._start(self.held, last=True))
        if self.doubtful and len(self.names) > 1 and self.names[0] not in self.names[1:]:
            self.header, self.names, self.blocks[0] = self.doubtful, self.names[1:], self.blocks[0][1:]

    def _start(self, text: bytes, last: bool) -> bytes:
        """Count the columns of the first line that is not blank; return the text without it if it is a header."""
        blank = text[: len(text) - len(text.lstrip())]
        self.line += blank.count(b"\n")
        first, _, after = text[len(blank) :].partition(b"\n")
        self.held = b""
        if not first:
            return b""
        other = next((mark for mark in (b";", b"\t") if mark in first and b"," not in first), None)
        if other is not None:
            self.reader.fail(f"line {self.line} has {other.decode()!r} where commas are wanted between the cells")
        cells = [_bare(cell) for cell in first.split(b",")]
        whole = NUMBER if self.numbers else _WHOLE
        if not cells[0] or whole.fullmatch(cells[0]):
            self.columns = len(cells)
            return text[len(blank) :]
        second = [_bare(cell) for cell in after.lstrip().partition(b"\n")[0].split(b",")] if after.strip() else None
        if self.may_name and second is None and not last:
            self.held = text[len(blank) :]
            return b""
        self.named = (
            self.may_name and len(cells) > 1 and (second is None or bool(second[0] and not NUMBER.fullmatch(second[0])))
        )
        self.columns = len(cells) - self.named
        header = tuple(cell.decode("utf-8", "replace") for cell in cells)
        if self.named and not _is_header(cells, second):
            self.doubtful = header if _counts_columns(cells) else None
            return text[len(blank) :]
        self.header = header
        self.line += 1
        return after

    def _block(self, text: bytes) -> np.ndarray:
        """Cells (lines, columns) of whole lines; names go to `names`."""
        if self.named:
            return self._named(text)
        block = None if self.numbers else self._fast(text)
        if block is None:
            return self._slow(text)
        self.line += len(block)
        return block

    def _named(self, text: bytes) -> np.ndarray:
        rows: list[list[float]] = []
        for line in text[:-1].split(b"\n"):
            if line.strip():
                name, *cells = line.split(b",")
                self.names.append(self._name(_bare(name)))
                rows.append(self._row(cells))
            self.line += 1
        return np.array(rows, self._dtype).reshape(-1, self.columns)

    def _name(self, cell: bytes) -> str:
        """Label that is text, as all labels have to be."""
        where = f"line {self.line}, column 1"
        if not cell:
            self.reader.fail(f"{where}: the cell is empty where the name of a class is wanted")
        if NUMBER.fullmatch(cell):
            self.reader.fail(
                f"{where}: {cell[:40].decode()!r} is a number where a row before has a name: "
                "labels are all names or all numbers"
            )
        try:
            return cell.decode("utf-8")
        except UnicodeDecodeError:
            self.reader.fail(f"{where}: {cell[:40]!r:.60} is not UTF-8: save the table as UTF-8")

    @property
    def _dtype(self) -> type:
        return np.float32 if self.numbers else np.uint8

    def _fast(self, text: bytes) -> np.ndarray | None:
        """Cells (lines, columns) uint8, or None if any cell is not one to three digits of at most 255."""
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
        # The digits before a short cell belong to its neighbour: they count times 0.
        value = digits[ends - 1].astype(np.uint16)
        value += digits[ends - 2] * (length > 1) * np.uint16(10)
        value += digits[ends - 3] * (length > 2) * np.uint16(100)
        if value.max() > 255:
            return None
        return value.astype(np.uint8).reshape(lines, self.columns)

    def _slow(self, text: bytes) -> np.ndarray:
        rows: list[list[float]] = []
        for line in text[:-1].split(b"\n"):
            if line.strip():
                rows.append(self._row(line.split(b",")))
            self.line += 1
        return np.array(rows, self._dtype).reshape(-1, self.columns)

    def _row(self, cells: list[bytes]) -> list[float]:
        if len(cells) != self.columns:
            found, before = len(cells) + self.named, self.columns + self.named
            self.reader.fail(f"line {self.line} has {found} cells where the lines before it have {before}")
        values = []
        for number, cell in enumerate(map(_bare, cells)):
            value = _number(cell) if self.numbers else _whole(cell)
            if value is None:
                self._refuse(cell, number + self.named)
            values.append(value)
        return values

    def _refuse(self, cell: bytes, number: int) -> NoReturn:
        """Report what is wrong with a cell; `number` counts columns from 0."""
        wanted = "finite number" if self.numbers else "whole number 0 to 255"
        column = f"column {number + 1}" + (
            f" ({self.header[number][:40]!r})" if self.header and number < len(self.header) else ""
        )
        if not cell:
            self.reader.fail(f"line {self.line}, {column}: the cell is empty where a {wanted} is wanted")
        what = f"line {self.line}, {column}: {cell[:40].decode('utf-8', 'replace')!r} is not a {wanted}"
        if not self.numbers and _number(cell) is not None and number:
            what += (
                "; features in any numbers are taken where they are standardised (--scale-features, standardize=True)"
            )
        elif number and number == self.columns + self.named - 1 and cell[:1].isalpha():
            what += ": if that is the label, put it into the first column"
        self.reader.fail(what)


def _whole(cell: bytes) -> int | None:
    match = _WHOLE.fullmatch(cell)
    return int(match[1]) if match and int(match[1]) <= 255 else None


def _number(cell: bytes) -> float | None:
    """Number of a cell, or None if it is no finite float32."""
    value = float(cell) if NUMBER.fullmatch(cell) else math.inf
    return value if abs(value) <= _LARGEST else None


def _bare(cell: bytes) -> bytes:
    """Cell without surrounding spaces and quotes."""
    cell = cell.strip()
    return cell[1:-1].strip() if len(cell) > 1 and cell[:1] == cell[-1:] == b'"' else cell


def _is_header(first: Sequence[bytes], second: Sequence[bytes] | None) -> bool:
    """True if a table's first line names its columns.

    first, second : bare cells of the first two lines; second is None for a single line. The first cell of the first
    line is no number.
    """
    if second is not None and (not second[0] or NUMBER.fullmatch(second[0])):
        return True  # the labels below it are numbers
    return first[0].lower() == b"label" or not all(map(NUMBER.fullmatch, first[1:]))


def _counts_columns(first: Sequence[bytes]) -> bool:
    """True if the cells after the first are 0, 1, 2, ... or 1, 2, 3, ..., as pandas names the columns of an array."""
    others = list(first[1:])
    return len(others) > 1 and others in [
        [b"%d" % (number + start) for number in range(len(others))] for start in (0, 1)
    ]
