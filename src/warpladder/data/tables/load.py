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
from ..columns import LABELS, is_data_frame
from ..dataset import Dataset
from ..encoded import encoded
from ..labels import ClassValue, classes_of, label_array, numbered, warn_of_dates
from ..reader import opened, path_of
from ..subset import check_numbers, permutation, stratified
from .encoding import FEW_ROWS, LARGEST, TableEncoding, TargetColumn
from .frame import Frame, from_data_frame, from_text, joined
from .oddities import (
    counting,
    may_be_label,
    saved_indexes,
    warn_of_codes,
    warn_of_large_numbers,
    warn_of_leaks,
    warn_of_outliers,
    warn_of_twins,
)
from .text import MOST_TITLES, read_text

_LIMIT = 2**32  # bytes of text
SMALLEST = 1e-30  # size of targets that predictions in float32 can tell from 0
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
        dropped += counting(frame.without([*learnt, *drop]))
    tested = None if test is None else read_frame(test)
    y = targets_of(frame, targets) if targets else label_of(frame, learnt[0])
    if encoding is None and not targets:
        _check_classes(frame.source, learnt[0], y)
        warn_of_codes(frame, learnt[0], y)
    strata = np.zeros(frame.rows, np.int64) if targets else y  # targets are drawn without strata
    train, valid, held = stratified(frame.source, strata, seed, validation, test is None)
    if limit is not None:
        train = _limited(frame.source, train, limit, seed)
    features = frame.without([*learnt, *dropped])
    if not features.columns:
        what = "targets" if targets else "label"
        others = f" once {listed(dropped)} is left out" if dropped else ""
        raise DataError(f"{frame.source}: has no column but the {what} {listed(learnt)}{others}")
    is_known = encoding is not None
    if encoding is None:
        encoding = TableEncoding.fit(features.take(train), label or "", dropped, category)
        if not targets:
            warn_of_leaks(features.take(train), y[train])
        warn_of_twins(frame, learnt, encoding)
        warn_of_outliers(frame.take(train), (*targets, *encoding.columns))
        warn_of_large_numbers(frame.take(train), (*targets, *encoding.columns))
        encoding = replace(encoding, targets=tuple(map(_target, targets, y[train].T)) if targets else ())
    classes = () if targets else classes_of(y if is_known else y[train])
    if not is_known:
        warn_of_dates(classes, f"{frame.source}: values of the label {shown(learnt[0])}")
    x = _encoded(features, encoding)
    test_x, test_y = (x, y) if whole else (x[held], y[held])
    if tested is not None:
        test_x = _encoded(tested, encoding)
        test_y = learnt_of(tested, learnt, bool(targets))
    if classes:
        _check_known(frame, learnt[0], np.concatenate([valid, held]), y, classes)
        if tested is not None and test_y is not None:
            _check_known(tested, learnt[0], np.arange(tested.rows), test_y, classes)
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
    paths = list(map(path_of, given))
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise DataError(f"{twice[0]}: is named twice: its rows would both train and test")
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
        if 0 < (most := float(np.abs(column.numbers).max())) < SMALLEST:
            raise DataError(f"{frame.source}: the targets {shown(name)} reach only {most:.3g}: change the unit")
    return np.stack([frame.columns[name].numbers for name in names], axis=1)


def _target(name: str, values: np.ndarray) -> TargetColumn:
    """Mean and standard deviation of the training rows' targets (rows,); a deviation of 0 is replaced by 1."""
    return TargetColumn(name, float(values.mean()), float(values.std()) or 1.0)


def learnt_of(frame: Frame, learnt: Sequence[str], has_targets: bool) -> np.ndarray | None:
    """Labels (rows,) or targets (rows, outputs) of a table; None if it lacks their columns. Raises `DataError` if they
    are its index.
    """
    if any(name not in frame.columns for name in learnt):
        if hint := frame.of_index(learnt):
            raise DataError(f"{frame.source}{hint}")
        return None
    return targets_of(frame, learnt) if has_targets else label_of(frame, learnt[0])


def label_of(frame: Frame, name: str) -> np.ndarray:
    """Labels (rows,) of a column: int64, float64 or text."""
    column = frame.columns[name]
    if column.holds:
        raise DataError(f"{frame.source}: the label {shown(name)} holds {column.holds}: make names or numbers of it")
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


def _check_known(frame: Frame, name: str, rows: np.ndarray, labels: np.ndarray, classes: Sequence[ClassValue]) -> None:
    """Raise `DataError` with the first of these rows whose label no training row has.

    labels : (rows,) labels of the whole frame; those of another type than the classes are left to `numbered`.
    """
    unknown = rows[~np.isin(labels[rows], np.asarray(classes))]
    if len(unknown) and (labels.dtype.kind == "U") == isinstance(classes[0], str):
        kinds = len(np.unique(labels))
        why = f"; the {len(classes)} labels of the training rows are {listed(classes)}"
        if 2 * kinds > frame.rows > len(rows):
            why = f": {frame.rows} rows have {kinds} labels, where each label wants several rows to learn from"
        raise DataError(
            f"{frame.place(int(unknown.min()), name)}: no training row has the label "
            f"{shown(labels[unknown.min()].item())}{why}"
        )


def _below(frame: Frame, name: str) -> str:
    """Hint for the name of a column that stands in one of the first rows instead of the first line, or ""."""
    for row in range(min(frame.rows, MOST_TITLES)):
        cells = [cell for column in frame.columns.values() for cell in re.split("[;,|\t]", column.texts[row] or "")]
        if frame.lines is not None and name in [cell.strip(' "') for cell in cells]:
            return f": it stands in line {frame.lines[row]}; take out what stands above the names of the columns."
    return ""


def _unseparated(frame: Frame, name: str) -> str:
    """Hint for a name in the heading of a table's only column, where another mark separates the cells, or ""."""
    if len(frame.names) > 1 or name not in re.split(r"[^\w.-]+", frame.names[0]):
        return ""
    return ": cells are separated by commas, semicolons, tabs or bars, and the first line has none of these."


def _check_names(
    frame: Frame, learnt: list[str], has_label: bool, drop: Sequence[str], category: Sequence[str]
) -> list[str]:
    """Names of the label or the targets, after a check that all names are columns."""
    if not learnt:
        meaning = [name for name in frame.names if name.lower() in LABELS]
        likely = [name for name in (*meaning, *frame.names[::-1]) if may_be_label(frame.columns[name])]
        hint = f"; perhaps {shown(likely[0])}" if likely else ""
        raise DataError(
            f"{frame.source}: which column is the label? Name it, --label NAME, in Python label=NAME{hint}. The "
            f"columns are {listed(frame.names)}"
        )
    learns = "label" if has_label else "target"
    for what, names in ((learns, learnt), ("drop", drop), ("category", category)):
        for name in names:
            if name not in frame.columns:
                near = (
                    _below(frame, name)
                    or _unseparated(frame, name)
                    or meant(name, frame.names)
                    or f"{frame.of_index([name])}."
                )
                several = [each.strip() for each in str(name).split(",")]
                if len(several) > 1 and what != "label" and all(each in frame.columns for each in several):
                    options = " ".join(f"--{what} {quote(each)}" for each in several)
                    near = f": several are {options}, in Python {what}={several}."
                role = {"drop": "to leave out", "category": "of categories"}.get(what, f"for the {what}")
                raise DataError(
                    f"{frame.source}: there is no column {shown(name)} {role}{near} The columns are "
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


def _limited(source: str, train: np.ndarray, limit: int, seed: int) -> np.ndarray:
    if not 1 <= limit <= len(train):
        raise DataError(f"{source}: limit must be 1 to {len(train):,} (the training rows), got {limit:,}")
    return np.sort(train[permutation(len(train), seed)[:limit]])


def samples_of(source: Any, encoding: TableEncoding) -> np.ndarray:
    """Encoded samples (rows, features) float32 of a table to predict: a path or a data frame."""
    return _encoded(read_frame(source), encoding)


def _encoded(frame: Frame, encoding: TableEncoding) -> np.ndarray:
    """Encoded rows (rows, features) float32, without a saved index that the training table had not."""
    known = (*encoding.learnt, *encoding.dropped, *(column.name for column in encoding.columns))
    beyond = Frame(frame.source, {name: each for name, each in frame.columns.items() if name not in known})
    return encoding.apply(frame.without(saved_indexes(beyond)))
