"""Text of a table as columns of cells, read by pyarrow: quotes, line ends, rows of different lengths."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors.arguments import shown
from ..reader import Reader
from ..sniff import looks_like

_LIMIT = 2**32  # bytes of text
_LONGEST_LINE = 2**20
#: Pattern of a number in a table.
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_NUL = re.compile(rb"\0")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1f]")
_SEP = re.compile(rb'"?sep=[,;|\t]?"?', re.IGNORECASE)  # line for Excel above a table
MOST_TITLES = 10  # most rows above the names of the columns that a message takes for titles
_JSON = re.compile(rb"\s*[\[{]\s*[\[{\"]")
_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Text:
    """Cells of a file as text, with those of the first line.

    columns : an Arrow array of strings (rows,) for each column, without spaces around a cell.
    separator : character between cells.
    """

    name: str
    columns: list[Any]
    separator: str
    content: memoryview

    def row(self, number: int) -> list[str]:
        """Cells of a row, as text; rows are counted from 0."""
        return [column[number].as_py() for column in self.columns]

    @property
    def rows(self) -> int:
        """Number of rows of the text, with its header."""
        return len(self.columns[0])

    def line(self, row: int) -> int:
        """Line number of a row in the file, from 1, blank lines included."""
        return int(self.lines()[row])

    def lines(self) -> np.ndarray:
        """Line numbers (rows,) of all rows, from 1."""
        text = bytes(self.content).removeprefix(b"\xef\xbb\xbf")
        found = [number for number, line in enumerate(_LINE_END.split(text), 1) if line.strip()]
        if len(found) != self.rows:  # cells with line ends
            reader = csv.reader(bytes(self.content).decode("utf-8-sig").splitlines(keepends=True))
            ends = [(reader.line_num, any(cells)) for cells in reader]
            found = [before + 1 for (before, _), (_, is_row) in pairwise([(0, False), *ends]) if is_row]
        return np.array(found if len(found) == self.rows else range(1, self.rows + 1))

    def numbers(self, column: int) -> np.ndarray:
        """Cells of a column as float64 (rows,); NaN for a cell that is no finite number.

        If cells are not separated by commas, a number may have a decimal comma.
        """
        import pyarrow
        import pyarrow.compute as compute

        cells = self.columns[column]
        try:
            found = compute.cast(cells, pyarrow.float64()).to_numpy(zero_copy_only=False)
            return np.where(np.isfinite(found), found, np.nan)
        except pyarrow.ArrowInvalid:
            coded = cells.dictionary_encode()
            each = np.array([self._number(cell) for cell in coded.dictionary.to_pylist()])
            return each[coded.indices.to_numpy(zero_copy_only=False)]

    def _number(self, cell: str) -> float:
        if self.separator != "," and cell.count(",") == 1:
            cell = cell.replace(",", ".")
        value = float(cell) if NUMBER.fullmatch(cell) else math.nan
        return value if math.isfinite(value) else math.nan


def read_text(reader: Reader) -> Text:
    """Read a table's text. Raises `DataError` with the file and the line.

    Cells are separated by commas, semicolons, tabs or bars: the first line decides.
    """
    content = reader.rest()
    head = bytes(content[:300])
    if not bytes(content[: 2**20]).strip(b"\xef\xbb\xbf \t\r\n") and not bytes(content).strip(b"\xef\xbb\xbf \t\r\n"):
        reader.fail("is empty where a CSV table is wanted")
    kind = looks_like(head)
    is_text = kind == "plain text" or (kind == "JSON text" and not _JSON.match(head)) or kind.startswith("unknown")
    if not is_text or (b"\0" in head and _CONTROL.search(head)):
        how = " (read it in Python: wl.data.table(pandas.read_json(FILE), LABEL))" if kind == "JSON text" else ""
        reader.fail(f"looks like {kind}{how} where a CSV table is wanted")
    if nul := _NUL.search(content):
        if 4 * head.count(b"\0") > len(head):
            reader.fail("looks like text in UTF-16 (save it as UTF-8) where a CSV table is wanted")
        number = len(_LINE_END.findall(bytes(content[: nul.start()]))) + 1
        reader.fail(f"line {number} holds a NUL byte, as no text does: the file is damaged or no table, write it again")
    first = _first_line(reader, content)
    if _SEP.fullmatch(first):
        reader.fail(
            f"line {_line(content, 0)}, {shown(first.decode())}, is a note for Excel: take it out, so that the first "
            "line names the columns"
        )
    try:
        line = first.decode("utf-8")
        cells = next(csv.reader([line], delimiter=(separator := _separator(line))))
    except (UnicodeDecodeError, csv.Error) as error:
        what = "is not UTF-8: save the table as UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        reader.fail(f"line {_line(content, 0)}: {what}")
    if bytes(content).count(b'"') % 2:
        _check_quotes(reader, bytes(content), separator)
    return Text(reader.name, _columns(reader, content, len(cells), separator), separator, content)


def _check_quotes(reader: Reader, content: bytes, separator: str) -> None:
    """Fail if a cell opens a quote that nothing closes: all that follows it, to the end of the file, is one cell."""
    rows = csv.reader(content.decode("utf-8-sig", "replace").splitlines(True), delimiter=separator, strict=True)
    before = 0
    try:
        for _ in rows:
            before = rows.line_num
    except csv.Error as error:
        if "unexpected end" in str(error):
            reader.fail(f"line {before + 1} opens a quote that is not closed: close it, or write two for one in a cell")


def _columns(reader: Reader, content: memoryview, count: int, separator: str) -> list[Any]:
    import pyarrow
    import pyarrow.compute as compute
    from pyarrow import csv as arrow

    names, whole = [str(number) for number in range(count)], content
    if count == 1:  # where a blank line would be a row
        content = memoryview(b"\n".join(line for line in _LINE_END.split(bytes(content)) if line.strip()))
    try:
        table = arrow.read_csv(
            pyarrow.py_buffer(content),
            read_options=arrow.ReadOptions(column_names=names, block_size=2**26, use_threads=False),
            parse_options=arrow.ParseOptions(delimiter=separator, newlines_in_values=b'"' in bytes(content)),
            convert_options=arrow.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False, check_utf8=True
            ),
        )
    except pyarrow.ArrowInvalid as error:
        _refuse(reader, whole, str(error), count, separator)
    return [compute.utf8_trim_whitespace(table[name].combine_chunks()) for name in names]


def _refuse(reader: Reader, content: memoryview, reason: str, count: int, separator: str) -> None:
    """Raise `DataError` with the line of a row that pyarrow could not read."""
    if found := _ROW.search(reason):
        row, wanted, cells = map(int, found.groups())
        found_row = reason.partition("columns, got")[2].partition(":")[2]
        names = [cell.strip(' "') for cell in found_row.split(separator)]
        is_heading = cells > wanted and 1 < row <= MOST_TITLES and not any(map(NUMBER.fullmatch, names))
        if '"' not in found_row or is_heading:
            line = _line(content, row - 1) if row else 1
            todo = ": if it names the columns, take out what stands above it" if is_heading else ""
            reader.fail(
                f"line {line} has {cells} cell{'s' * (cells != 1)} where the lines before it have {wanted}{todo}"
            )
        reader.fail(f"row {row} has {cells} cells where {wanted} are wanted: a quote may lack its end")
    if "invalid UTF8" in reason:
        for number, text in enumerate(_LINE_END.split(bytes(content)), 1):
            try:
                text.decode("utf-8")
            except UnicodeDecodeError as error:
                before = next(csv.reader([text[: error.start].decode("utf-8")], delimiter=separator))
                cut = separator.encode()
                cell = text[: error.start].rpartition(cut)[2] + text[error.start :].partition(cut)[0]
                where = f"line {number}, column {max(1, len(before))}"
                reader.fail(f"{where}: {shown(cell)} is not UTF-8: save the table as UTF-8")
    reader.fail(f"cannot be read as a table of {count} columns: {' '.join(reason.split())[:160]}")


def _first_line(reader: Reader, content: memoryview) -> bytes:
    """First line of a table's text that is not blank, as bytes."""
    text = bytes(content).removeprefix(b"\xef\xbb\xbf").lstrip()
    found = _LINE_END.search(text)
    end = found.start() if found else len(text)
    if end >= _LONGEST_LINE:
        reader.fail(f"line {_line(content, 0)} is longer than {_LONGEST_LINE:,} bytes: this is no CSV table")
    return text[:end].rstrip()


def _separator(line: str) -> str:
    """Separator of a line: an unquoted tab or semicolon, since numbers may have a comma; else a bar or comma."""
    bare = re.sub(r'"[^"]*"', "", line)
    if mark := next((mark for mark in "\t;" if mark in bare), None):
        return mark
    return "|" if "|" in bare and "," not in bare else ","


def _line(content: memoryview, row: int) -> int:
    """Line number, from 1, of a row, from 0: blank lines are no rows."""
    for number, line in enumerate(_LINE_END.split(bytes(content).removeprefix(b"\xef\xbb\xbf")), 1):
        if line.strip():
            if row == 0:
                return number
            row -= 1
    return 0
