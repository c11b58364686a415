"""Seeded draws of training rows: a validation set split off, and a limit on the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from ..errors.arguments import shown
from .dataset import Dataset

SHARES = (0.2, 0.1)  # shares of the rows: test part, validation part


def split(dataset: Dataset, *, limit: int | None = None, validation: int = 0, seed: int = 0) -> Dataset:
    """Data set with `validation` training rows split off, and `limit` of the remaining rows.

    One seed gives the same rows on every platform. A smaller limit gives a subset of the rows of a larger one. No row
    is in both sets. Drawn rows are in their stored order; the test set is unchanged.

    Raises
    ------
    DataError
        There are too few rows, or the seed is not a 32-bit number from 0.
    """
    if not isinstance(dataset, Dataset):
        raise DataError(f"split wants a Dataset, got {shown(dataset)}")
    rows = len(dataset.train_x)
    check_numbers(dataset.name, limit, validation, seed)
    validation = validation or 0
    for what, number, least in (("limit", limit, 1), ("validation", validation, 0)):
        if number is not None and not least <= number <= rows:
            raise DataError(f"{dataset.name}: {what} must be {least} to {rows:,} (the training rows), got {number:,}")
    if validation + (limit or 1) > rows:
        raise DataError(
            f"{dataset.name}: {validation:,} rows for validation leave {rows - validation:,} for training, "
            f"{limit or 1:,} are wanted"
        )
    if validation and dataset.valid_x is not None:
        raise DataError(f"{dataset.name}: has a validation set already, another cannot be split off")
    if not validation and limit in (None, rows):
        return dataset
    chosen = permutation(rows, seed)
    valid = np.sort(chosen[:validation])
    train = np.sort(chosen[validation : None if limit is None else validation + limit])

    def take(values: np.ndarray | None, which: np.ndarray) -> np.ndarray | None:
        return None if values is None else values[which]

    changes: dict[str, object] = {"train_x": dataset.train_x[train], "train_y": take(dataset.train_y, train)}
    changes["train_weight"] = take(dataset.train_weight, train)
    if validation:
        changes |= {"valid_x": dataset.train_x[valid], "valid_y": take(dataset.train_y, valid)}
    return dataset.but(**changes)


def check_numbers(name: str, limit: Any, validation: Any, seed: Any) -> None:
    """Raise `DataError` if a number of rows or the seed is no whole number, or the seed is out of range.

    name : name of the data in messages. validation : number of rows, or None.
    """
    for what, given in (("limit", limit), ("validation", validation), ("seed", seed)):
        is_whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
        if not is_whole and not (given is None and what != "seed"):
            raise DataError(f"{name}: {what} wants a whole number, got {shown(given)}")
    if not 0 <= seed < 2**32:
        raise DataError(f"{name}: seed must be 0 to 2^32 - 1, got {seed}")


def stratified(
    name: str, y: np.ndarray, seed: int, validation: int | None, tests: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the rows to train, validate and test with, in their stored order, each class in equal shares.

    name : name of the data in messages. y : (rows,) labels.
    validation : number of rows to validate with; None takes a tenth.
    tests : True takes a fifth of the rows to test with, False none.
    """
    if validation is not None and validation < 0:
        raise DataError(f"{name}: validation must be 0 rows or more, got {validation}")
    order = permutation(len(y), seed)
    place = np.empty(len(y))  # place of a row among its class's rows, 0 to 1
    for value in np.unique(y):
        rows = order[y[order] == value]
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    chosen = order[np.argsort(place[order], kind="stable")]
    first = round(SHARES[0] * len(y)) if tests else 0
    last = first + (round(SHARES[1] * len(y)) if validation is None else validation)
    if last >= len(y):
        raise DataError(f"{name}: {last:,} of {len(y):,} rows to test and validate with leave none to train with")
    train, valid, test = (np.sort(rows) for rows in (chosen[last:], chosen[first:last], chosen[:first]))
    return train, valid, test


def permutation(n: int, seed: int) -> np.ndarray:
    """Permutation (n,) of the numbers below n, from the raw bits of Philox, which NumPy guarantees never to change."""
    return np.argsort(np.random.Philox(key=[seed, n]).random_raw(n), kind="stable")
