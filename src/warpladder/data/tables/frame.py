"""`Frame`: named columns of a table, from a file's text or from a data frame of any library that narwhals reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from shlex import quote
from typing import Any

import numpy as np

from ...errors import DataError
from ...errors.arguments import shown
from ..columns import check_columns
from ..labels import DATE
from .text import Text

#: Texts, in lower case, of a missing value in a file, and its text in Python; in a data frame only the first two are.
MISSING, PYTHONS = ("", "?", "na", "n/a", "nan", "null", "<na>"), "None"
_WITH_UNIT = re.compile(r"[+\-−]?\d+([.,'\s]\d+)*\s?([^\d\s.,+\-−)][^\d]{0,11})")
_NO_CELL = (list, tuple, dict, set, complex, np.ndarray)  # values of data frames that are no cell of a table
_NO_TEXT: tuple[Any, Any] = (object.__repr__, object.__str__)  # methods of values whose text is an address
_MARKS, _SIGNS = "[$€£¥]?", "[+\\-−]?"  # the last sign is a minus of typesetters
#: A number with a currency, per cent, thousands marked or about (~), or negative as accountants write: (5) and 5-.
_DRESSED = re.compile(
    rf"[(~≈]?\s?{_MARKS}\s?{_SIGNS}\s?{_MARKS}\d{{1,3}}(\d*|([,.'\s]\d{{3}})+)([.,]\d+)?\s?[%$€£¥]?[)\-−]?"
)


@dataclass(frozen=True, eq=False)
class TableColumn:
    """Column of a table.

    numbers : (rows,) float64; NaN for a value that is missing or no number.
    texts : (rows,) objects: each value as text, or None if missing.
    holds : kind of values that are no cells of a table, as "list", or "".
    """

    name: str
    numbers: np.ndarray
    texts: np.ndarray
    is_number: bool = False
    holds: str = ""

    @cached_property
    def missing(self) -> np.ndarray:
        """Mask (rows,), True for a missing value."""
        return np.array([text is None for text in self.texts], bool)

    @property
    def odd(self) -> np.ndarray:
        """Mask (rows,), True for a value that is no finite number, and not missing."""
        return np.isnan(self.numbers) & ~self.missing

    @property
    def holds_numbers(self) -> bool:
        """True if the column has values, and all are numbers."""
        return not self.odd.any() and not self.missing.all()

    @property
    def holds_dates(self) -> bool:
        """True if the column has values, and all look like dates or times."""
        return self._all_match(DATE)

    @property
    def holds_dressed_numbers(self) -> bool:
        """True if the column has values, and all look like numbers that are dressed, or with one unit after each."""
        return self._all_match(_DRESSED) or len(self._units()) == 1

    @property
    def holds_mostly_numbers(self) -> bool:
        """True if more than half of the column's values are numbers."""
        return 2 * int(self.odd.sum()) < len(self.texts) - int(self.missing.sum())

    def _units(self) -> set[str]:
        """Units after the column's numbers; none if a value has another form."""
        found = {text: _WITH_UNIT.fullmatch(text) for text in self.texts[~self.missing].tolist()}
        return {match[2] for match in found.values() if match} if all(found.values()) else set()

    def _all_match(self, pattern: re.Pattern[str]) -> bool:
        there = self.texts[~self.missing]
        return len(there) > 0 and all(pattern.fullmatch(text) for text in there)

    def take(self, rows: np.ndarray) -> TableColumn:
        """Column with the rows of these numbers (count,) only, in their order."""
        return TableColumn(self.name, self.numbers[rows], self.texts[rows], self.is_number, self.holds)


@dataclass(frozen=True, eq=False)
class Frame:
    """Table in memory: columns of equal length by name.

    source : name of the table in messages.
    lines : (rows,) line of each row in its file, from 1, or None if rows are counted from 0.
    index : names of a data frame's index, which is no column.
    """

    source: str
    columns: dict[str, TableColumn]
    lines: np.ndarray | None = None
    index: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.columns)

    @property
    def rows(self) -> int:
        """Number of rows of the table, without its header."""
        return len(next(iter(self.columns.values())).numbers)

    def place(self, row: int, name: str) -> str:
        """Text with file, row and column, for a message."""
        at = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.source}: {at}, column {shown(name)}"

    def take(self, rows: np.ndarray) -> Frame:
        """Frame with the rows of these numbers (count,) only, in their order."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, lines=None if self.lines is None else self.lines[rows])

    def without(self, names: Sequence[str]) -> Frame:
        """Frame without these columns."""
        return replace(self, columns={n: c for n, c in self.columns.items() if n not in names})

    def check_cells(self) -> None:
        """Raise `DataError` if a column holds values that are no cells of a table."""
        for name, column in self.columns.items():
            if column.holds:
                raise DataError(
                    f"{self.source}: column {shown(name)} holds {column.holds}: make numbers of it, or leave it out, "
                    f"--drop {quote(name)}, in Python drop=[{shown(name)}]"
                )

    def of_index(self, names: Sequence[str]) -> str:
        """Hint for columns that are in the data frame's index, or ""."""
        there = [name for name in names if name in self.index]
        return f": {shown(there[0])} is the frame's index, which reset_index() makes a column" if there else ""


def from_text(text: Text) -> Frame:
    """Frame of a file's text; its first line names the columns.

    Raises
    ------
    DataError
        The file has no rows, or headings are missing or occur twice.
    """
    names = text.row(0)
    if text.rows < 2:
        raise DataError(f"{text.name}: has a header but no rows")
    if all(name and _is_number(name) for name in names):
        raise DataError(
            f"{text.name}: line {text.line(0)} holds numbers where the names of the columns are wanted: write them "
            "into the first line"
        )
    names = [name or f"Unnamed: {number}" for number, name in enumerate(names)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{text.name}: two columns are called {shown(twice[0])}")
    columns = {}
    for number, name in enumerate(names):
        cells = np.array(text.columns[number][1:].to_pylist(), object)
        texts = np.array([None if cell == PYTHONS or cell.lower() in MISSING else cell for cell in cells], object)
        columns[name] = TableColumn(name, text.numbers(number)[1:], texts)
    frame = Frame(text.name, columns, text.lines()[1:])
    again = np.logical_and.reduce([columns[name].texts == name for name in names])
    if again.any():
        where = frame.place(int(np.argmax(again)), names[0])
        raise DataError(f"{where}: the names of the columns stand here again: take that line out")
    return frame


def from_data_frame(data: Any, name: str) -> Frame:
    """Frame of a data frame of pandas, polars or another library that narwhals reads.

    Raises
    ------
    DataError
        The table has no rows or columns, or a name occurs twice.
    """
    import narwhals.stable.v2 as narwhals

    try:
        table = narwhals.from_native(data, eager_only=True)
    except narwhals.exceptions.DuplicateError as error:
        raise DataError(f"{name}: {' '.join(str(error).split())}") from None
    if not table.columns or not len(table):
        raise DataError(f"{name}: the data frame has no {'columns' if not table.columns else 'rows'}")
    columns: dict[str, TableColumn] = {}
    for series in table.iter_columns():
        heading, dtype, values = str(series.name), series.dtype, series.to_list()
        odd = next((type(each).__name__ for each in values if _is_no_cell(each)), None)
        holds = odd or ("dates or times" if dtype.is_temporal() else str(dtype) if dtype.is_nested() else "")
        if heading in columns:
            raise DataError(f"{name}: two columns are called {shown(heading)}")
        gone = series.is_null().to_list()
        missing = [
            null
            or (isinstance(value, float) and value != value)
            or (isinstance(value, str) and value.strip() in MISSING[:2])
            for value, null in zip(values, gone, strict=True)
        ]
        texts = np.array([None if null else _as_text(v) for v, null in zip(values, missing, strict=True)], object)
        is_number = dtype.is_numeric() or dtype == narwhals.Boolean
        numbers = np.array([np.nan if text is None else _as_number(v) for v, text in zip(values, texts, strict=True)])
        columns[heading] = TableColumn(heading, numbers.astype(np.float64), texts, is_number, holds)
    return Frame(name, columns, index=tuple(map(str, getattr(getattr(data, "index", None), "names", ()))))


def joined(frames: Sequence[Frame], source: str) -> Frame:
    """Frame with the rows of several frames, which have the same columns, in the order of the first.

    Raises
    ------
    DataError
        Columns differ in name.
    """
    first = frames[0]
    parts = [first, *(same_columns(frame, first.names) for frame in frames[1:])]
    if len(parts) == 1:
        return first
    columns = {
        name: TableColumn(
            name,
            np.concatenate([part.columns[name].numbers for part in parts]),
            np.concatenate([part.columns[name].texts for part in parts]),
        )
        for name in first.names
    }
    return Frame(source, columns)


def same_columns(frame: Frame, names: Sequence[str], optional: Sequence[str] = ()) -> Frame:
    """Frame with its columns in this order.

    optional : names of columns that may be missing, or may be present in addition.

    Raises
    ------
    DataError
        Columns are missing or unknown; the message names them.
    """
    check_columns(frame.source, frame.names, names, optional, frame.of_index(names))
    return replace(frame, columns={name: frame.columns[name] for name in names if name in frame.columns})


def _is_no_cell(value: Any) -> bool:
    """True for a value of a data frame that is several values, or has no text of its own."""
    return isinstance(value, _NO_CELL) or (type(value).__repr__, type(value).__str__) == _NO_TEXT


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def _as_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return float("nan")
    return number if np.isfinite(number) else float("nan")


def _is_number(text: str) -> bool:
    return _as_number(text) == _as_number(text)
