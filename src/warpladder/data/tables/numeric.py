"""Reader of tables of pixels or features with an optional header: whole numbers 0 to 255 or any finite numbers, and
names of classes in the first column. text.py reads the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import NoReturn

import numpy as np

from ...errors.arguments import shown
from ..reader import Reader
from .text import NUMBER, Text, read_text

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class CsvTable:
    """Content of a CSV file.

    header : names of the columns, or None.
    cells : (rows, columns) uint8, or float32 for any numbers.
    names : (rows,) str: the first column if it is text, which is then not in `cells`; None if it is numbers.
    labels : (rows,) float64: numbers of the label's column, of any size; 0 stands in its place in `cells`. None if that
        column is not known.
    """

    header: tuple[str, ...] | None
    cells: np.ndarray
    names: np.ndarray | None = None
    labels: np.ndarray | None = None

    @property
    def columns(self) -> int:
        """Number of columns of the file."""
        return self.cells.shape[1] + (self.names is not None)


#: From a table's header, or None, and its number of columns to the number of the label's column; None without one.
FindLabel = Callable[[tuple[str, ...] | None, int], int | None]


def read_table(
    reader: Reader, *, names: bool = False, numbers: bool = False, label: FindLabel = lambda header, columns: None
) -> CsvTable:
    """Read a whole table. Raises `DataError` with the line of the first wrong cell.

    Parameters
    ----------
    reader : Reader
    names : bool
        True if the first column may be names of classes: text in every row.
    numbers : bool
        True if cells may be any finite numbers, not only whole numbers from 0 to 255.
    label : function
        Finds the column of labels, whose numbers may be of any size.
    """
    return _Rows(reader, read_text(reader), numbers).table(names, label)


class _Rows:
    """Rows of a table while it is read. first : index of the first row below the header."""

    def __init__(self, reader: Reader, text: Text, numbers: bool) -> None:
        self.reader, self.text, self.numbers = reader, text, numbers
        self.header: tuple[str, ...] | None = None
        self.first = 0
        self.label: int | None = None

    def table(self, may_name: bool, label: FindLabel) -> CsvTable:
        """Table of all rows; `may_name` is `names` of `read_table`."""
        named = self._find_header(may_name)
        if self.first == self.text.rows:
            self.reader.fail("has a header but no rows")
        if named:
            names = self._names()
            return CsvTable(self.header, self._cells(1), names)
        self.label = label(self.header, len(self.text.columns))
        labels = None if self.label is None else self.text.numbers(self.label)[self.first :]
        return CsvTable(self.header, self._cells(0), labels=labels)

    def _find_header(self, may_name: bool) -> bool:
        """Decide whether the first row is a header; True if the first column holds names."""
        cells = self.text.row(0)
        self._refuse_index(cells)
        if not cells[0] or NUMBER.fullmatch(cells[0]):
            return False
        second = self.text.row(1) if self.text.rows > 1 else None
        named = may_name and len(cells) > 1 and (second is None or bool(second[0] and not NUMBER.fullmatch(second[0])))
        is_header = not named or _is_header(cells, second)
        if not is_header and _counts_columns(cells) and self.text.rows > 1:
            others = self.text.columns[0][1:]
            is_header = cells[0] not in others.unique().to_pylist()
        if is_header:
            self.header, self.first = tuple(cells), 1
        return named

    def _refuse_index(self, cells: list[str]) -> None:
        """Raise `DataError` if the first row has the heading of an index, which pandas writes with a data frame."""
        has_text = not all(map(NUMBER.fullmatch, cells[1:])) or _counts_columns(cells)
        if (not cells[0] and any(cells[1:]) and has_text) or _INDEX.fullmatch(cells[0]):
            self._fail(
                0, 0, f"the heading {shown(cells[0])} is that of an index, which counts the rows: leave the column "
                "out, in pandas by to_csv(..., index=False)", titled=False,
            )  # fmt: skip

    def _names(self) -> np.ndarray:
        """Labels (rows,) of the first column as text. Raises `DataError` if one is missing or a number."""
        cells = self.text.columns[0][self.first :].to_pylist()
        for row, cell in enumerate(cells, self.first):
            if not cell:
                self._fail(row, 0, "the cell is empty where the name of a class is wanted", titled=False)
            if NUMBER.fullmatch(cell):
                self._fail(
                    row,
                    0,
                    f"{shown(cell)} is a number where a row before has a name: labels are all names or all numbers",
                    titled=False,
                )
        return np.array(cells)

    def _cells(self, first_column: int) -> np.ndarray:
        """Numbers (rows, columns) of all columns but the names."""
        rows = self.text.rows - self.first
        out = np.empty((rows, len(self.text.columns) - first_column), np.float32 if self.numbers else np.uint8)
        wrong: list[tuple[int, int]] = []
        for column in range(out.shape[1]):
            values = self.text.numbers(column + first_column)[self.first :]
            good = np.abs(values) <= _LARGEST if self.numbers else (values >= 0) & (values <= 255)
            if not self.numbers:
                good &= values == np.floor(values)
            if column + first_column == self.label:
                good, values = np.isfinite(values), np.zeros_like(values)
            if not good.all():
                wrong.append((int(np.argmin(good)), column + first_column))
                values = np.where(good, values, 0)
            out[:, column] = values
        if wrong:
            row, column = min(wrong)
            self._refuse(row + self.first, column, last=len(self.text.columns) - 1)
        return out

    def _refuse(self, row: int, column: int, last: int) -> NoReturn:
        """Raise `DataError` for a wrong cell, with its line, column and content."""
        is_label = column == self.label
        wanted = "whole number" if is_label else "finite number" if self.numbers else "whole number 0 to 255"
        cell = self.text.columns[column][row].as_py()
        if not cell:
            self._fail(row, column, f"the cell is empty where a {wanted} is wanted{_GAPS}")
        what = f"{shown(cell)} is not a {wanted}"
        if self.header and cell == self.header[column]:
            what += ": the names of the columns stand here again, take that line out"
        elif not self.numbers and np.isfinite(self.text.numbers(column)[row]) and column:
            what += (
                "; features in any numbers are taken where they are standardised (--scale-features, standardize=True)"
            )
        elif cell.lower() in ("nan", "na", "null", "none", "?"):
            what += _GAPS
        elif is_label and column and self.header:
            what += f": labels that are names are read with --data FILE.csv --label {quote(self.header[column])}"
        elif column and column == last and cell[:1].isalpha() and cell.lower() not in ("inf", "infinity"):
            what += ": if that is the label, put it into the first column, or name it with --label"
        elif cell[:1].isalpha() and cell.lower() not in ("inf", "infinity"):
            what += "; --data FILE.csv --label NAME takes columns of text"
        self._fail(row, column, what)

    def _fail(self, row: int, column: int, what: str, titled: bool = True) -> NoReturn:
        title = f" ({shown(self.header[column])})" if titled and self.header else ""
        self.reader.fail(f"line {self.text.line(row)}, column {column + 1}{title}: {what}")


_INDEX = re.compile(r"Unnamed: \d+")  # heading of an index that was read as a column and written again
_GAPS = "; --data FILE.csv --label NAME takes tables with gaps, and fills them"


def _is_header(first: Sequence[str], second: Sequence[str] | None) -> bool:
    """True if a table's first line names its columns.

    first, second : cells of the first two lines; second is None for a single line. The first cell of the first line is
    no number.
    """
    if second is not None and (not second[0] or NUMBER.fullmatch(second[0])):
        return True  # the labels below it are numbers
    return first[0].lower() == "label" or not all(map(NUMBER.fullmatch, first[1:]))


def _counts_columns(first: Sequence[str]) -> bool:
    """True if the cells after the first are 0, 1, 2, ... or 1, 2, 3, ..., as pandas names the columns of an array."""
    others = list(first[1:])
    return len(others) > 1 and others in [[f"{number + start}" for number in range(len(others))] for start in (0, 1)]
