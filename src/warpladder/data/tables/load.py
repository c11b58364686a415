"""`table`: data set of a raw table, from files or a data frame."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from ...errors import ArgumentError, DataError
from ...errors.arguments import called_by_name, listed, meant, shown, wanted
from ...errors.warning import warn
from ..columns import LABELS, is_data_frame
from ..dataset import Dataset
from ..encoded import encoded
from ..labels import classes_of, label_array, numbered
from ..reader import opened
from ..subset import check_numbers, permutation, stratified
from .encoding import FEW_ROWS, LARGEST, TableEncoding, TargetColumn, TextColumn
from .frame import Frame, TableColumn, from_data_frame, from_text, joined
from .text import read_text

_LIMIT = 2**32  # bytes of text
REPEATED = 10  # rows for each distinct value of a column whose values may tell the label, on average
_NAMELESS = re.compile(r"(Unnamed: \d+)?")  # name of a column without a heading, as pandas writes an index
FAR = 1e4  # distances between the quartiles from which on a number is an outlier
SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")


def is_table(name: str) -> bool:
    """True if a data set's name is the file of a table, or several files separated by commas."""
    return all(part.lower().endswith(SUFFIXES) for part in name.split(","))


@called_by_name
def table(
    source: Any,
    label: str | int | None = None,
    *,
    target: str | Sequence[str] = (),
    test: Any = None,
    drop: Sequence[str] = (),
    category: Sequence[str] = (),
    validation: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    encoding: TableEncoding | None = None,
    whole: bool = False,
) -> Dataset:
    """Data set of a table: columns of text, gaps, numbers in any unit, and the label by its name.

    Text becomes a number for each category, gaps are filled and marked, numbers are standardised, by the training rows;
    a checkpoint stores this encoding, so that `predict` takes raw tables too. A seed splits the rows, each class in
    equal shares: a fifth to test with, a tenth to validate with.

    Parameters
    ----------
    source : path, list of paths, or data frame
        Text file with the columns' names in the first line, gzipped or not; or a data frame of pandas or polars.
    label : str
        Name of the column with the labels: texts, whole numbers or bool. A data frame's names may be numbers.
    target : str or sequence of str
        Names of columns of numbers to predict, instead of a label. A net learns them with mean 0 and deviation 1;
        predictions are in their own units.
    test : as source, optional
        Table to test with, with or without the label; the source's rows then train and validate.
    drop, category : sequences of str
        Columns to leave out; columns whose numbers are categories.
    validation, limit : int, optional
        Number of rows to validate with; most rows to train on.
    seed : int
    encoding : TableEncoding, optional
        Encoding of a trained net; by default it is computed here.
    whole : bool
        True puts all rows into the test part, to score a trained net.

    Raises
    ------
    DataError
        The table has an error; the message is one line with file, line, column and remedy.
    """
    kinds = (str, int) if is_data_frame(source) else (str,)
    wanted("label", label, (*kinds, type(None)), "the name of one column (several columns of numbers are target=[...])")
    label = None if label is None else str(label)
    targets, drop, category = (
        _names(what, given, kinds) for what, given in (("target", target), ("drop", drop), ("category", category))
    )
    frame = read_frame(source)
    check_numbers(frame.source, limit, validation, seed)
    if encoding is not None:
        label, targets = encoding.label or None, [each.name for each in encoding.targets]
    if label is not None and targets:
        raise DataError(f"{frame.source}: a table has a label or targets: leave out label or target")
    learnt = _check_names(frame, targets or ([] if label is None else [label]), label is not None, drop, category)
    dropped = tuple(drop) if encoding is None else encoding.dropped
    if encoding is None:
        dropped += _counting(frame.without([*learnt, *drop]))
    tested = None if test is None else read_frame(test)
    y = targets_of(frame, targets) if targets else label_of(frame, learnt[0])
    if encoding is None and not targets:
        _check_classes(frame.source, learnt[0], y)
    strata = np.zeros(frame.rows, np.int64) if targets else y  # targets are drawn without strata
    train, valid, held = stratified(strata, seed, validation, test is None)
    if limit is not None:
        train = _limited(train, limit, seed)
    features = frame.without([*learnt, *dropped])
    if not features.columns:
        what = "targets" if targets else "label"
        others = f" once {listed(dropped)} is left out" if dropped else ""
        raise DataError(f"{frame.source}: has no column but the {what} {listed(learnt)}{others}")
    if encoding is None:
        encoding = TableEncoding.fit(features.take(train), label or "", dropped, category)
        if not targets:
            _warn_of_leaks(features.take(train), y[train])
        _warn_of_twins(frame, learnt, encoding)
        _warn_of_outliers(frame.take(train), (*targets, *encoding.columns))
        encoding = replace(encoding, targets=tuple(map(_target, targets, y[train].T)) if targets else ())
    classes = () if targets else classes_of(y[train])
    x = encoding.apply(features)
    test_x, test_y = (x, y) if whole else (x[held], y[held])
    if tested is not None:
        test_x = encoding.apply(tested)
        test_y = learnt_of(tested, learnt, bool(targets))
    name = frame.source if len(frame.source) < 60 else Path(frame.source).name
    given = (y[train], test_y, y[valid])
    if targets:
        mean, std = encoding.target_scale
        parts = [None if part is None else ((part - mean) / std).astype(np.float32) for part in given]
    else:
        parts = [None if part is None else numbered(part, classes, name) for part in given]
    y_train, y_test, y_valid = (None if part is None else encoded(part, encoding) for part in parts)
    x_train, x_test, x_valid = (encoded(part, encoding) for part in (x[train], test_x, x[valid]))
    return Dataset(
        name, x_train, y_train, x_test, y_test,
        valid_x=x_valid if len(valid) else None, valid_y=y_valid if len(valid) else None,
        class_names=classes, table=encoding,
    )  # fmt: skip


def _names(what: str, given: Any, kinds: tuple[type, ...]) -> list[str]:
    """Names of columns, from one name or several of these types."""
    names = [given] if isinstance(given, kinds) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, kinds) for name in names):
        raise ArgumentError(f"{what} wants names of columns, as {what}=['age', 'city'], got {shown(given)}")
    return list(map(str, names))


def read_frame(source: Any) -> Frame:
    """Frame of a path, several paths (a list, or text with commas), or a data frame."""
    if is_data_frame(source):
        return from_data_frame(source, "data frame")
    if isinstance(source, str):
        source = source.split(",")
    given = list(source) if isinstance(source, (list, tuple)) else [source]
    if hasattr(source, "collect_schema"):
        raise ArgumentError("a table wants a data frame with rows: collect() the lazy one")
    if any(map(is_data_frame, given)):
        raise ArgumentError("a table wants one data frame: join several, as pandas.concat or polars.concat do")
    for each in given or [None]:
        wanted("a table", each, (str, os.PathLike), "a path, a list of paths or a data frame")
    paths = [Path(each) for each in given]
    frames = []
    for path in paths:
        with opened(path, _LIMIT) as reader:
            frames.append(from_text(read_text(reader)))
    return joined(frames, ",".join(map(os.fspath, paths)))


def targets_of(frame: Frame, names: Sequence[str]) -> np.ndarray:
    """Targets (rows, outputs) float64 of columns of numbers. Raises `DataError` with the first cell that is no
    number.
    """
    for name in names:
        column = frame.columns[name]
        if (wrong := column.missing | column.odd).any():
            row = int(np.argmax(wrong))
            what = (
                "is missing: leave the row out" if column.missing[row] else f"{shown(column.texts[row])} is no number"
            )
            raise DataError(f"{frame.place(row, name)}: the target {what}")
        if not (small := np.abs(column.numbers) <= LARGEST).all():
            row = int(np.argmin(small))
            raise DataError(f"{frame.place(row, name)}: {shown(column.texts[row])} is too large: change the unit")
    return np.stack([frame.columns[name].numbers for name in names], axis=1)


def _target(name: str, values: np.ndarray) -> TargetColumn:
    """Mean and standard deviation of the training rows' targets (rows,); a deviation of 0 is replaced by 1."""
    return TargetColumn(name, float(values.mean()), float(values.std()) or 1.0)


def learnt_of(frame: Frame, learnt: Sequence[str], has_targets: bool) -> np.ndarray | None:
    """Labels or targets of a table; None if it lacks their columns."""
    if any(name not in frame.columns for name in learnt):
        return None
    return targets_of(frame, learnt) if has_targets else label_of(frame, learnt[0])


def label_of(frame: Frame, name: str) -> np.ndarray:
    """Labels (rows,) of a column: int64, float64 or text."""
    column = frame.columns[name]
    if column.missing.any():
        raise DataError(f"{frame.place(int(np.argmax(column.missing)), name)}: the label is missing: leave the row out")
    if not column.holds_numbers:
        return label_array(column.texts, f"{frame.source}: labels")
    if column.is_number and set(column.texts) <= {"True", "False"}:
        return column.numbers.astype(bool)
    whole = column.numbers == np.floor(column.numbers)
    if not whole.all():
        row = int(np.argmin(whole))
        raise DataError(
            f"{frame.place(row, name)}: {column.texts[row]} is no label: labels are names or whole numbers; a "
            f"regression's targets are named by --target {name}, in Python target={name!r}"
        )
    return column.numbers.astype(np.int64)


def _check_classes(source: str, name: str, labels: np.ndarray) -> None:
    """Raise `DataError` if the whole numbers of a label (rows,) are a number of the row, or a target."""
    distinct, rows = len(np.unique(labels)), len(labels)
    if labels.dtype.kind == "i" and (distinct == rows > 2 or (rows >= FEW_ROWS and 2 * distinct > rows)):
        many = "every row has another value" if distinct == rows else f"{rows} rows have {distinct} values"
        raise DataError(
            f"{source}: {many} of {shown(name)}: this is no label; numbers to predict are named by --target "
            f"{quote(name)}, in Python target={name!r}"
        )


def _check_names(
    frame: Frame, learnt: list[str], has_label: bool, drop: Sequence[str], category: Sequence[str]
) -> list[str]:
    """Names of the label or the targets, after a check that all names are columns."""
    if not learnt:
        meaning = [name for name in frame.names if name.lower() in LABELS]
        likely = [name for name in (*meaning, *frame.names[::-1]) if _may_be_label(frame.columns[name])]
        hint = f"; perhaps {shown(likely[0])}" if likely else ""
        raise DataError(
            f"{frame.source}: which column is the label? Name it, --label NAME, in Python label=NAME{hint}. The "
            f"columns are {listed(frame.names)}"
        )
    learns = "label" if has_label else "target"
    for what, names in ((learns, learnt), ("drop", drop), ("category", category)):
        for name in names:
            if name not in frame.columns:
                near = meant(name, frame.names) or "."
                several = [each.strip() for each in str(name).split(",")]
                if len(several) > 1 and what != "label" and all(each in frame.columns for each in several):
                    options = " ".join(f"--{what} {quote(each)}" for each in several)
                    near = f": several are {options}, in Python {what}={several}."
                raise DataError(
                    f"{frame.source}: {what} names {shown(name)}, which is no column{near} The columns are "
                    f"{listed(frame.names)}"
                )
    for what, names in ((learns, learnt), ("category", category)):
        if both := [name for name in names if name in drop]:
            raise DataError(
                f"{frame.source}: {shown(both[0])} is named as {what} and to be left out: choose one of both"
            )
    if twice := [name for name in learnt if learnt.count(name) > 1]:
        raise DataError(f"{frame.source}: the target {shown(twice[0])} is named twice")
    return learnt


def _warn_of_leaks(features: Frame, labels: np.ndarray) -> None:
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


def _warn_of_twins(frame: Frame, learnt: Sequence[str], encoding: TableEncoding) -> None:
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


def _warn_of_outliers(frame: Frame, columns: Sequence[Any]) -> None:
    """Warn of numbers so far from the others that these are all alike once they are divided by the deviation."""
    for name in (each if isinstance(each, str) else each.name for each in columns if not isinstance(each, TextColumn)):
        numbers = frame.columns[name].numbers
        low, high = np.nanquantile(numbers, (0.25, 0.75))
        far = np.maximum(low - numbers, numbers - high) > FAR * (high - low)
        if high > low and far.any():
            row = int(np.argmax(far))
            warn(
                f"{frame.place(row, name)}: {shown(frame.columns[name].texts[row])} is far from the others, half of "
                f"which lie from {low:.4g} to {high:.4g}: mend the cell, or leave the row out"
            )


def _may_be_label(column: TableColumn) -> bool:
    return not _is_index(column) and not column.missing.all()


def _is_index(column: TableColumn) -> bool:
    """True if a column numbers its rows, or has no name and a whole number of its own in each row: the index of rows
    that were chosen from a table.
    """
    numbers = column.numbers
    is_nameless = _NAMELESS.fullmatch(column.name) is not None and bool((numbers == np.floor(numbers)).all())
    is_index = is_nameless and len(np.unique(numbers)) == len(numbers)
    return len(numbers) > 2 and (is_index or bool((np.diff(numbers) == 1).all()))


def _counting(frame: Frame) -> tuple[str, ...]:
    """Names of columns that only number the rows, with a warning that they are left out."""
    found = tuple(name for name, column in frame.columns.items() if _is_index(column))
    if found:
        warn(f"{frame.source}: {', '.join(map(repr, found))} counts the rows, and is left out")
    return found


def _limited(train: np.ndarray, limit: int, seed: int) -> np.ndarray:
    if not 1 <= limit <= len(train):
        raise DataError(f"limit must be 1 to {len(train):,} (the training rows), got {limit:,}")
    return np.sort(train[permutation(len(train), seed)[:limit]])


def samples_of(source: Any, encoding: TableEncoding) -> np.ndarray:
    """Encoded samples (rows, features) float32 of a table to predict: a path or a data frame."""
    frame = read_frame(source)
    return encoding.apply(frame)
