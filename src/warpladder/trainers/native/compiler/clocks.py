"""Clock around each instruction of a native program: its time inside whole steps, on each thread.

Each thread has a copy of the program, a table with a row for each instruction, which begins with its operation's
address. In a timed copy this is the address of `clocked` (threads/run.py), which finds the operation's at the row's
end. So the training loop needs no code for clocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..program.job import CALLS, CLOCKED_ADDRESS, ROW, SPENT
from .machine_code import CompiledFunction, address

#: the operation that takes another one's place, and calls it
CLOCKED = CompiledFunction(f"{__package__.rpartition('.')[0]}.threads.run", "clocked", "operation")


class Spent(NamedTuple):
    """Time of an instruction: the operation's name, and calls and seconds, averaged over the threads."""

    operation: str
    calls: float
    seconds: float


class Clocks:
    """Clocks of one native program's instructions."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._of: np.ndarray | None = None
        self._table = np.empty((0, 0, ROW), np.int64)

    def around(self, programs: np.ndarray, names: list[str]) -> np.ndarray:
        """Copy of the program with clocks, (threads, rows * ROW) int64; the same table for the same program."""
        if self._of is not programs:
            self._of, self._names = programs, names
            self._table = programs.reshape(len(programs), -1, ROW).copy()
            self._table[:, :, CLOCKED_ADDRESS] = self._table[:, :, 0]
            self._table[:, :, 0] = address(CLOCKED)
            self._table[:, :, [SPENT, CALLS]] = 0
        return self._table.reshape(programs.shape)

    def read(self) -> list[Spent]:
        """Time of each row so far, in the program's order; resets the clocks. Idle threads are not counted."""
        table = self._table
        working = max(1, int(np.any(table[:, :, CALLS], axis=1).sum()))
        calls, spent = (table[:, :, which].sum(axis=0) / working for which in (CALLS, SPENT))
        table[:, :, [SPENT, CALLS]] = 0
        return [Spent(*each) for each in zip(self._names, calls.tolist(), (spent * 1e-9).tolist(), strict=True)]
