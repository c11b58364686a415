"""`TableEncoding`: encoding of a table's columns as numbers for a net, as plain data that a checkpoint stores.

Column of numbers: gaps are filled with the median, numbers are standardised, and a second number is 1 for a gap.
Column of text: a number for each text, 1 if the row has it, and a number for gaps. scikit-learn's transformers compute
the encoding from the training rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from shlex import quote
from typing import Any

import numpy as np

from ...errors import DataError
from ...errors.arguments import shown
from ...errors.warning import warn
from .frame import Frame, TableColumn, same_columns

LARGEST = float(np.finfo(np.float32).max)
MOST_CATEGORIES = 100  # most categories of a column of text whose values mostly differ
FEW_ROWS = 20  # fewer rows whose texts nearly all differ may be categories nevertheless


@dataclass(frozen=True)
class NumberColumn:
    """Encoding of a column of numbers: (x - mean) / std, and 1 for a gap if training rows had gaps."""

    name: str
    fill: float
    has_gaps: bool
    mean: float
    std: float

    @property
    def features(self) -> list[str]:
        """Names of the numbers that encode the column."""
        return [self.name, f"{self.name} missing"] if self.has_gaps else [self.name]

    def apply(self, column: TableColumn, frame: Frame) -> np.ndarray:
        """Encoded column (rows, features) float64. Raises `DataError` for a text that is no number."""
        if column.odd.any():
            row = int(np.argmax(column.odd))
            raise DataError(f"{frame.place(row, self.name)}: {shown(column.texts[row])} is no finite number")
        values = (np.where(column.missing, self.fill, column.numbers) - self.mean) / self.std
        if not (good := np.abs(values) <= LARGEST).all():
            row = int(np.argmin(good))
            raise DataError(
                f"{frame.place(row, self.name)}: {shown(column.texts[row])} is too far from the training rows for a net"
            )
        return np.column_stack([values, column.missing] if self.has_gaps else [values])


@dataclass(frozen=True)
class TextColumn:
    """Encoding of a column of text: 1 for the row's category, 0 for the others; all 0 for an unknown text."""

    name: str
    categories: tuple[str, ...]
    has_gaps: bool

    @property
    def features(self) -> list[str]:
        """Names of the numbers that encode the column."""
        return [f"{self.name}={each}" for each in self.categories] + [f"{self.name} missing"] * self.has_gaps

    def apply(self, column: TableColumn, frame: Frame) -> np.ndarray:
        """Encoded column (rows, features) float64."""
        number = {text: index for index, text in enumerate(self.categories)}
        if self.has_gaps:
            number[None] = len(self.categories)  # type: ignore[index]
        out = np.zeros((len(column.texts), len(self.features)))
        unknown = []
        for row, text in enumerate(column.texts):
            if (at := number.get(text)) is not None:
                out[row, at] = 1.0
            elif text is not None:
                unknown.append(row)
        if unknown:
            warn(
                f"{frame.place(unknown[0], self.name)}: training had no {shown(column.texts[unknown[0]])}; it counts "
                f"as none of the column's texts, in {len(unknown)} row{'s' * (len(unknown) > 1)}"
            )
        return out


@dataclass(frozen=True)
class TargetColumn:
    """Standardisation of a column of targets: the net learns (y - mean) / std."""

    name: str
    mean: float
    std: float


@dataclass(frozen=True)
class TableEncoding:
    """Encoding of a table: one encoding for each of its columns.

    label : name of the column with the labels; "" if the table has targets.
    columns : encodings of the features, in the order of the training table.
    dropped : names of the columns left out.
    targets : columns with targets; empty if the table has labels.
    """

    label: str
    columns: tuple[NumberColumn | TextColumn, ...]
    dropped: tuple[str, ...] = ()
    targets: tuple[TargetColumn, ...] = ()

    @property
    def target_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations (outputs,) of the targets, float64."""
        return np.array([each.mean for each in self.targets]), np.array([each.std for each in self.targets])

    @property
    def learnt(self) -> tuple[str, ...]:
        """Names of the columns with the label or the targets."""
        return tuple(each.name for each in self.targets) or (self.label,)

    def in_units(self, out: np.ndarray) -> np.ndarray:
        """Outputs of a net (samples, outputs) converted to the targets' own units, in the same type."""
        mean, std = self.target_scale
        return (out * std + mean).astype(out.dtype) if self.targets else out

    @property
    def features(self) -> list[str]:
        """Names of the numbers that encode a row."""
        return [name for column in self.columns for name in column.features]

    @classmethod
    def fit(cls, frame: Frame, label: str, dropped: Collection[str], categories: Collection[str]) -> TableEncoding:
        """Encoding computed from a training table that has only features.

        categories : names of columns whose numbers are categories.

        Raises
        ------
        DataError
            A column is empty, has dates, mixes numbers with text, or has a different text in most rows.
        """
        frame.check_cells()
        free = [name for name, column in frame.columns.items() if _is_free_text(column)]
        dates = [name for name, column in frame.columns.items() if column.holds_dates and not column.is_number]
        empty = [name for name, column in frame.columns.items() if column.missing.all()]
        if leave := [*empty, *free, *dates]:
            options = " ".join(f"--drop {quote(name)}" for name in leave)
            why = [f"no training row has a value in {', '.join(map(repr, empty))}"] * bool(empty)
            why += [f"nearly every row has a text of its own in {', '.join(map(repr, free))}"] * bool(free)
            why += [f"{_columns(dates)} dates or times, which a net takes only as numbers"] * bool(dates)
            todo = f"make numbers of {'it' if len(dates) == 1 else 'them'}, such as days since a date, or " * bool(
                dates
            )
            raise DataError(
                f"{frame.source}: {'; '.join(why)}: {todo}leave {'it' if len(leave) == 1 else 'them'} out, {options}, "
                "in Python drop=[...]"
            )
        columns = tuple(_fitted(frame, column, column.name in categories) for column in frame.columns.values())
        return cls(label, columns, tuple(dropped))

    def apply(self, frame: Frame) -> np.ndarray:
        """Encoded table (rows, features) float32. The table has the columns of the training table, in any order; the
        label and dropped columns may be missing.

        Raises
        ------
        DataError
            Columns are missing or unknown, or a value in a column of numbers is no number.
        """
        names = [column.name for column in self.columns]
        found = same_columns(frame, names, optional=(*self.learnt, *self.dropped))
        found.check_cells()
        return np.concatenate(
            [column.apply(found.columns[column.name], found) for column in self.columns], axis=1
        ).astype(np.float32)

    def as_dict(self) -> dict[str, Any]:
        """Encoding as plain values, for JSON."""
        return {key: value for key, value in asdict(self).items() if value or key != "targets"}

    @classmethod
    def from_dict(cls, value: Any) -> TableEncoding:
        """Encoding from the values of `as_dict`. Raises `DataError` if they are damaged."""
        try:
            columns = tuple(_column(each) for each in value["columns"])
            targets = tuple(_target(each) for each in value.get("targets", ()))
            made = cls(_text(value["label"]), columns, tuple(_text(name) for name in value["dropped"]), targets)
            if not columns or value.keys() | {"targets"} != asdict(made).keys():
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError("its encoding of a table is damaged") from None
        return made


def _columns(names: list[str]) -> str:
    return f"column {names[0]!r} holds" if len(names) == 1 else f"columns {', '.join(map(repr, names))} hold"


def _is_free_text(column: TableColumn) -> bool:
    there = column.texts[~column.missing]
    if column.holds_numbers or not len(there):
        return False
    kinds = len(set(there.tolist()))
    if column.holds_dates or column.holds_dressed_numbers or column.holds_mostly_numbers:
        return False
    if len(there) >= FEW_ROWS and kinds > 0.9 * len(there):
        return True
    return kinds > MOST_CATEGORIES and kinds > len(there) / 2


def _fitted(frame: Frame, column: TableColumn, is_category: bool) -> NumberColumn | TextColumn:
    """Encoding of a column, computed from its training rows."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    name, there = column.name, ~column.missing
    has_gaps = bool(column.missing.any())
    odd = column.odd
    if column.holds_dressed_numbers and odd.any() and not is_category:
        row = int(np.argmax(odd))
        raise DataError(
            f"{frame.place(row, name)}: {shown(column.texts[row])} is no plain number: write numbers without units, "
            "currencies and marks of thousands, with - before negative ones, or call the column's values categories "
            "(category), "
            f"--category {quote(name)}"
        )
    if (column.holds_numbers or column.is_number) and not is_category:
        if odd.any():
            row = int(np.argmax(odd))
            raise DataError(f"{frame.place(row, name)}: {shown(column.texts[row])} is no finite number")
        if not (small := ~(np.abs(column.numbers) > LARGEST)).all():
            row = int(np.argmin(small))
            raise DataError(f"{frame.place(row, name)}: {shown(column.texts[row])} is too large: change the unit")
        filled = SimpleImputer(strategy="median").fit(column.numbers[:, None])
        fill = float(filled.statistics_[0])
        values = np.where(column.missing, fill, column.numbers)
        scaler = StandardScaler().fit(values[:, None])
        mean, std = float(scaler.mean_[0]), float(scaler.scale_[0])
        if std == 1.0 and float(values.std()) != 1.0:  # constant but for rounding, which a mean near 1e25 has too
            mean, std = fill, float((values - fill).std()) or 1.0
        return NumberColumn(name, fill, has_gaps, mean, std)
    if not is_category and column.holds_mostly_numbers:
        row = int(np.argmax(odd))
        raise DataError(
            f"{frame.place(row, name)}: {shown(column.texts[row])} is no number where most rows have one: mend it, or "
            f"call the column's values categories (category), --category {quote(name)}"
        )
    found = OneHotEncoder().fit(column.texts[there][:, None]).categories_[0]
    return TextColumn(name, tuple(map(str, found)), has_gaps)


def _column(value: Mapping[str, Any]) -> NumberColumn | TextColumn:
    name, has_gaps = _text(value["name"]), value["has_gaps"]
    if not isinstance(has_gaps, bool):
        raise ValueError
    if "categories" in value:
        texts = [_text(each) for each in value["categories"]]
        if len(value) != 3 or sorted(set(texts)) != texts or not texts:
            raise ValueError
        return TextColumn(name, tuple(texts), has_gaps)
    numbers = [value[key] for key in ("fill", "mean", "std")]
    good = all(isinstance(each, float) and math.isfinite(each) for each in numbers)
    if len(value) != 5 or not good or not numbers[2] > 0:
        raise ValueError
    return NumberColumn(name, numbers[0], has_gaps, numbers[1], numbers[2])


def _target(value: Mapping[str, Any]) -> TargetColumn:
    made = TargetColumn(_text(value["name"]), value["mean"], value["std"])
    good = all(isinstance(each, float) and math.isfinite(each) for each in (made.mean, made.std))
    if len(value) != 3 or not good or not made.std > 0:
        raise ValueError
    return made


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value
