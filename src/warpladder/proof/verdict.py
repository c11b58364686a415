"""Verdict of a proof, and the ledger of its comparisons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class VerdictRow:
    """Largest error of one check on one tensor.

    check, tensor : for example "update" and "2.weight".
    where : case, step and batch.
    error, bound : normwise relative error, and the largest that rounding explains.
    """

    check: str
    tensor: str
    where: str
    error: float
    bound: float

    def __str__(self) -> str:
        return f"{self.check} of {self.tensor} is off by {self.error:.1e}, the bound is {self.bound:.1e}: {self.where}"


@dataclass(frozen=True)
class Verdict:
    """Result of `verify`.

    passed : bool
    judged : bool
        False if no step can judge a trainer: the trainer has not passed, and is not refuted.
    error, bound : float
        The normwise relative error that is largest relative to its bound; inf if the fault has no size.
    reason : str
        One line: the check, the tensor, the step, the batch, the error and its bound.
    rows : tuple of VerdictRow
        Largest error of each check and tensor.
    checks : dict
        Number of times that each check was made, by name.
    seconds : float
    reach : int
        Steps of the longest call of full batches; 0 if none was made.
    seed : int
    """

    passed: bool
    error: float
    bound: float
    reason: str
    rows: tuple[VerdictRow, ...]
    checks: dict[str, int]
    seconds: float
    judged: bool = True
    reach: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.passed and not self.judged:
            raise ValueError("a verdict cannot pass where nothing could be judged")
        if self.passed and not (self.rows and self.checks and all(self.checks.values()) and self.error <= self.bound):
            raise ValueError("a verdict cannot pass on checks that were not made, or beyond its bound")


class Refuted(Exception):
    """Exception: a check failed. The message states which and where; `row` has the numbers, if there are any."""

    def __init__(self, check: str, message: str, row: VerdictRow | None = None) -> None:
        super().__init__(message)
        self.check, self.row = check, row


def distance(
    got: np.ndarray, want: np.ndarray, scale: np.ndarray | None = None, slack: np.ndarray | float = 0.0
) -> float:
    """Normwise relative error of a tensor, the largest of the whole and of its slices along each axis.

    The error of a slice (a row of weights, a bias) is relative to its norm, or to the root mean square of all slices'
    norms if it is larger: a fault in the last of 256 rows is not averaged away.

    Parameters
    ----------
    got, want : ndarray
    scale : ndarray or None
        Scale of errors; None for `want`.
    slack : ndarray or float
        Difference of each element that is no error, at least 0.

    Returns
    -------
    float
        NaN if `got` has one; inf if there is a difference and its scale is zero.
    """
    # each step writes into this array: a fresh one for each would take longer than the steps
    off = np.asarray(np.asarray(got, np.float64) - want)
    if np.any(slack):
        np.abs(off, out=off)
        off -= slack
        np.maximum(off, 0, out=off)
    np.square(off, out=off)
    size = np.square(np.asarray(want if scale is None else scale, np.float64))
    if off.ndim == 1:
        return float(np.max(distances(off[None], size[None]), initial=0.0))
    largest = [0.0]
    with np.errstate(divide="ignore", invalid="ignore"):
        for numerator, own in zip(_sums(off), _sums(size), strict=True):
            denominator = np.maximum(own, own.sum() / own.size)
            ratio = np.where(numerator == 0, 0.0, np.sqrt(numerator / denominator))
            largest.append(ratio.max(initial=0.0))
    return float(np.max(largest))  # np.max keeps a NaN, max() may lose it


def distances(off: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Distances (tensors,) of tensors, from squares (tensors, *shape) of differences and of scales."""
    axes = range(1, off.ndim)
    wholes = [a.sum(axis=tuple(axes)) for a in (off, size)]
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.where(wholes[0] == 0, 0.0, wholes[0] / wholes[1])
        for axis in axes:
            rest = tuple(other for other in axes if other != axis)
            numerator, own = off.sum(axis=rest), size.sum(axis=rest)
            usual = wholes[1][:, None] / max(1, own.shape[1])
            ratio = np.where(numerator == 0, 0.0, numerator / np.maximum(own, usual))
            largest = np.maximum(largest, ratio.max(axis=1, initial=0.0))
    return np.sqrt(largest)


def _sums(squares: np.ndarray) -> Iterator[np.ndarray]:
    """Total (1,) of all squares, then the sums (length,) of the slices along each axis."""
    if squares.ndim == 0:
        yield squares.reshape(1)
    for axis in range(squares.ndim):
        slices = squares if squares.ndim == 1 else squares.reshape(len(squares), -1).sum(axis=1)
        if axis == 0:
            yield slices.sum(keepdims=True)
        yield slices
        if squares.ndim > 1:
            squares = squares.sum(axis=0)


class Ledger:
    """Ledger of a proof's comparisons; the first that fails raises `Refuted`."""

    def __init__(self) -> None:
        self.checks: Counter[str] = Counter()
        self.worst: dict[tuple[str, str], VerdictRow] = {}
        self.undecided: Refuted | None = None

    def near(
        self, check: str, where: str, tensors: dict[str, tuple[np.ndarray, np.ndarray]], bounds: dict[str, float],
        scales: dict[str, np.ndarray] | None = None, slack: dict[str, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        """Compare tensors (got, want) with their bounds; if several fail, the error names the worst.

        slack : difference of each number that is no error, because storage rounds it.
        """
        rows = []
        for name, (got, want) in tensors.items():
            error = distance(got, want, None if scales is None else scales[name], 0.0 if slack is None else slack[name])
            rows.append(VerdictRow(check, name, where, error, bounds[name]))
        self._record(rows)

    def within(self, check: str, tensor: str, where: str, error: float, bound: float) -> None:
        """Compare an error with its bound."""
        self._record([VerdictRow(check, tensor, where, float(error), float(bound))])

    def _record(self, rows: list[VerdictRow]) -> None:
        """Count the comparisons, and store the largest errors; raise `Refuted` for the worst that fails."""
        for row in rows:
            self.checks[row.check] += 1
            known = self.worst.get((row.check, row.tensor))
            if known is None or not excess(row) <= excess(known):
                self.worst[row.check, row.tensor] = row
        failed = [row for row in rows if not row.error <= row.bound]
        if failed:
            row = max(failed, key=excess)
            raise Refuted(row.check, str(row), row)

    def leave(self, refuted: Refuted, why: str) -> None:
        """Leave a failed check undecided, because of what an honest program may do: no verdict passes with it."""
        self.undecided = self.undecided or Refuted(refuted.check, f"cannot judge: {refuted}; {why}", refuted.row)

    def holds(self, check: str, condition: object, message: str) -> None:
        """Check a condition; raise `Refuted` with the message if it is false."""
        self.checks[check] += 1
        if not condition:
            raise Refuted(check, message)

    def same(self, check: str, where: str, got: np.ndarray, want: np.ndarray) -> None:
        """Check that two arrays are equal bit for bit, including NaN and the sign of zero."""
        got, want = np.asarray(got), np.asarray(want)
        alike = got.shape == want.shape and got.dtype == want.dtype and got.tobytes() == want.tobytes()
        self.holds(check, alike, f"{check}: {where} are not the same bits")

    @property
    def rows(self) -> tuple[VerdictRow, ...]:
        return tuple(self.worst.values())


def excess(row: VerdictRow) -> float:
    """Error over its bound; inf for NaN."""
    ratio = row.error / row.bound if row.bound > 0 else float("inf") if row.error else 0.0
    return ratio if ratio == ratio else float("inf")


def cannot_judge(why: str, seconds: float) -> Verdict:
    """Verdict without a step that can judge a trainer: not passed, and not refuted."""
    return Verdict(False, math.inf, 0.0, f"cannot judge: {why}", (), {}, seconds, judged=False)


def conclude(ledger: Ledger, required: tuple[str, ...], refuted: Refuted | None, seconds: float) -> Verdict:
    """Verdict on a ledger: passed only if nothing was refuted and every required check was made."""
    missing = [check for check in required if not ledger.checks[check]]
    if refuted is None and missing:
        refuted = Refuted("complete", f"these checks were not made: {', '.join(missing)}")
    judged = refuted is not None or ledger.undecided is None
    refuted = refuted or ledger.undecided
    row = refuted.row if refuted is not None else max(ledger.rows, key=excess)
    error, bound = (float("inf"), 0.0) if row is None else (row.error, row.bound)
    if refuted is not None:
        reason = str(refuted)
    else:
        reason = f"every check held; closest to its bound, {str(row).replace('is off', 'was off')}"
    return Verdict(refuted is None, error, bound, reason, ledger.rows, dict(ledger.checks), seconds, judged)
