"""Columns of a data frame or file by their names: their order, and those that are missing or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..errors.arguments import listed
from .convert import to_numpy

#: Headings, in lower case, that mean that a column is the label.
LABELS = ("label", "labels", "class", "target", "y", "digit", "category", "kind", "species")


def is_data_frame(data: Any) -> bool:
    """True for a data frame that narwhals may read: it has columns and a shape of two axes, and is no array."""
    # a lazy frame of polars warns that its columns are expensive
    if hasattr(data, "collect_schema") and not hasattr(data, "shape"):
        return False
    return hasattr(data, "columns") and not isinstance(data, np.ndarray) and len(getattr(data, "shape", ())) == 2


def column_names(values: Any) -> tuple[str, ...]:
    """Names of a data frame's columns; empty for other values, and for columns with numbers or equal names."""
    names = list(values.columns) if is_data_frame(values) else []
    usable = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return tuple(names) if usable else ()


def check_columns(
    source: str, found: Sequence[str], names: Sequence[str], optional: Sequence[str] = (), hint: str = ""
) -> None:
    """Raise `DataError` if columns of the training data are missing, or there are others; the message names them.

    source : name of the data in messages. optional : names that may be missing, or may be present in addition.
    hint : end of the message if columns are missing.
    """
    lacks = [name for name in names if name not in found and name not in optional]
    odd = [name for name in found if name not in names and name not in optional]
    if lacks or odd:
        what = [f"it lacks {listed(lacks)!r}"] * bool(lacks) + [f"it has {listed(odd)!r}"] * bool(odd)
        end = hint if lacks else ""
        raise DataError(f"{source}: its columns are not those of the training data: {' and '.join(what)}{end}")


def places_of(source: str, found: Sequence[str], names: Sequence[str]) -> list[int]:
    """Index in `found` of each of the names. Raises `DataError` if the two are not the same names."""
    check_columns(source, found, names)
    return [list(found).index(name) for name in names]


def in_order(values: Any, names: Sequence[str], source: str) -> Any:
    """Data frame as an array with its columns in the order of the names; values without names of columns unchanged.

    Raises `DataError` if columns are missing, or there are others.
    """
    found = column_names(values)
    if not names or not found or found == tuple(names):
        return values
    return to_numpy(values, source)[:, places_of(source, found, names)]
