"""Warnings about a table: columns that number its rows or determine the label, values that differ only in capitals or
spaces, outliers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np

from ...errors.arguments import listed, shown
from ...errors.warning import warn
from .encoding import FEW_ROWS, TableEncoding, TextColumn
from .frame import Frame, TableColumn

REPEATED = 10  # rows for each distinct value of a column whose values may tell the label, on average
FAR = 1e4  # distances between the quartiles from which on a number is an outlier
EXACT = 2.0**53  # whole numbers from which on float64 rounds
_CODE = re.compile(r"0[0-9]+")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NAMELESS = re.compile(r"(Unnamed: \d+)?")  # name of a column without a heading, as pandas writes an index


def warn_of_leaks(features: Frame, labels: np.ndarray) -> None:
    """Warn of columns that alone tell the label of every training row: by values that repeat, or by their gaps."""
    for column in features.columns.values():
        values = np.array(["" if text is None else f" {text}" for text in column.texts])
        groups = values if len(np.unique(values)) <= len(values) / REPEATED else column.missing
        kinds = len(np.unique(groups))
        pairs = {(group, label) for group, label in zip(groups.tolist(), labels.tolist(), strict=True)}
        if len(pairs) == kinds > 1 and len(labels) >= FEW_ROWS and len(np.unique(labels)) > 1:
            warn(
                f"{features.source}: column {shown(column.name)} alone determines the label of every training row: if "
                f"it is known only after the label, leave it out, --drop {quote(column.name)}, in Python drop=[...]"
            )


def warn_of_twins(frame: Frame, learnt: Sequence[str], encoding: TableEncoding) -> None:
    """Warn of labels and categories that differ only in capitals or spaces, such as "yes" and "Yes"."""
    texts = [each.name for each in encoding.columns if isinstance(each, TextColumn)]
    for name in texts if encoding.targets else [*learnt, *texts]:
        groups: dict[str, set[str]] = {}
        for text in frame.columns[name].texts:
            if text is not None:
                groups.setdefault("".join(text.split()).casefold(), set()).add(text)
        if twins := [sorted(group) for group in groups.values() if len(group) > 1]:
            warn(
                f"{frame.source}: values of {shown(name)} differ only in capitals or spaces, and count as different: "
                f"{listed(map(repr, twins[0]))}"
            )


def warn_of_outliers(frame: Frame, columns: Sequence[Any]) -> None:
    """Warn of numbers so far from the others that these are all alike once they are divided by the deviation."""
    for name in _numbers(columns):
        numbers = frame.columns[name].numbers
        low, high = np.nanquantile(numbers, (0.25, 0.75))
        far = np.maximum(low - numbers, numbers - high) > FAR * (high - low)
        if high > low and far.any():
            row = int(np.argmax(far))
            warn(
                f"{frame.place(row, name)}: {shown(frame.columns[name].texts[row])} is far from the others, half of "
                f"which lie from {low:.4g} to {high:.4g}: mend the cell, or leave the row out"
            )


def warn_of_codes(frame: Frame, name: str, labels: np.ndarray) -> None:
    """Warn of labels (rows,) that are numbers, and were texts with zeros before them, as "01"."""
    code = next((text for text in frame.columns[name].texts if _CODE.fullmatch(text or "")), None)
    if code is not None and labels.dtype.kind == "i":
        warn(
            f"{frame.source}: values of {shown(name)} count as whole numbers, so that {shown(code)} is predicted as "
            f"{int(code)}: with a letter before it it stays a text"
        )


def warn_of_large_numbers(frame: Frame, columns: Sequence[Any]) -> None:
    """Warn of whole numbers that are different as texts, and one number for float64."""
    for name in _numbers(columns):
        column = frame.columns[name]
        large = [text for text in column.texts[np.abs(column.numbers) >= EXACT] if _WHOLE.fullmatch(text)]
        if len(set(map(int, large))) > len(set(map(float, large))):
            warn(
                f"{frame.source}: column {shown(name)} has whole numbers beyond 2^53, as {shown(large[0])}, of which "
                "several are one number for a net: give differences, or leave out what only counts, --drop "
                f"{quote(name)}, in Python drop=[{shown(name)}]"
            )


def _numbers(columns: Sequence[Any]) -> list[str]:
    """Names of the columns of numbers, from names of targets and encodings of columns."""
    return [each if isinstance(each, str) else each.name for each in columns if not isinstance(each, TextColumn)]


def may_be_label(column: TableColumn) -> bool:
    """True if a column has values, and does not number the rows."""
    return not _is_index(column) and not column.missing.all()


def _is_index(column: TableColumn) -> bool:
    """True if a column numbers its rows, or has no name and a whole number of its own in each row: the index of rows
    that were chosen from a table.
    """
    numbers = column.numbers
    return len(numbers) > 2 and (_is_saved_index(column) or bool((np.diff(numbers) == 1).all()))


def _is_saved_index(column: TableColumn) -> bool:
    """True if a column has no name and a whole number of its own in each row."""
    numbers = column.numbers
    is_whole = _NAMELESS.fullmatch(column.name) is not None and bool((numbers == np.floor(numbers)).all())
    return is_whole and len(np.unique(numbers)) == len(numbers)


def saved_indexes(frame: Frame) -> tuple[str, ...]:
    """Names of columns without a name that hold a saved index, with a warning that they are left out."""
    found = tuple(name for name, column in frame.columns.items() if _is_saved_index(column))
    if found:
        warn(f"{frame.source}: {', '.join(map(repr, found))} counts the rows, and is left out")
    return found


def counting(frame: Frame) -> tuple[str, ...]:
    """Names of columns that only number the rows, with a warning that they are left out."""
    found = tuple(name for name, column in frame.columns.items() if _is_index(column))
    if found:
        warn(f"{frame.source}: {', '.join(map(repr, found))} counts the rows, and is left out")
    return found
