"""`ProofsAhead`: concurrent proofs of a climb's rungs, before their turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress

from ..ladder import is_peer
from ..machine import facts as machine
from .entry import TimedEntry
from .foreign.rung import is_isolated
from .own import is_own
from .parallel_proofs import CAN_PAUSE, MOST, ConcurrentProofs
from .task import ClimbTask

SPARE = 2  # cores for this process and the system


class ProofsAhead:
    """Proofs in concurrent processes, on a machine with spare cores.

    cost : function of an entry: sort key of its proof, 0 for a stored one.
    report : called with the present activity.
    unproven : names of rungs whose process ended without a verdict.
    """

    def __init__(self, task: ClimbTask, cost: Callable[[TimedEntry], int], report: Callable[[str], None]) -> None:
        self.task, self.cost, self.report = task, cost, report
        self.unproven: set[str] = set()
        self._proofs: ConcurrentProofs | None = None

    @property
    def waiting(self) -> set[str]:
        """Names of the rungs whose proofs are running."""
        return set() if self._proofs is None else self._proofs.waiting

    def begin(self, entries: Iterable[TimedEntry], least: int = 1) -> None:
        """Begin the proofs that a process can make, if at least `least` entries need one.

        No process begins without spare cores, without disk space for a copy of the data set, or if samples have
        weights, which the copy lacks: the climb then proves one rung after the other.
        """
        if self.task.data.train_weight is not None:
            return
        some = [entry.rung for entry in entries if self._needs_process(entry)]
        cores = min(MOST, machine.cores() - SPARE)
        if len(some) < least or cores < 2:
            return
        if self._proofs is None:
            with suppress(OSError):
                self._proofs = ConcurrentProofs(self.task, cores)
        if self._proofs is not None:
            self._proofs.add(some)
            self._report()

    def _needs_process(self, entry: TimedEntry) -> bool:
        """True if a separate process can prove the entry: it is not proven yet and does not choose plans by a clock."""
        entry.check_support()
        is_known = is_own(entry.rung) or is_isolated(entry.rung)
        is_begun = entry.passed is not None or entry.rung.name in self.waiting | self.unproven
        is_left = entry.alive and "check" not in entry.found and not is_begun
        return is_left and is_known and not entry.rung.tunes and self.cost(entry) > 0

    def verdicts(self, entries: Iterable[TimedEntry], until: float = math.inf) -> Iterator[set[str]]:
        """Store each verdict in its entry as it arrives, and yield the names of the rungs still waiting.

        until : time of `perf_counter` until which it waits for the next verdict.
        """
        by_name = {entry.rung.name: entry for entry in entries}
        while self._proofs is not None and (news := self._proofs.next(until)) is not None:
            name, by_name[name].passed = news[0], news[1]
            self.unproven |= set() if news[1] is not None else {name}
            self._report(name)
            yield self.waiting

    def sort(self, left: list[TimedEntry], until: float) -> None:
        """Sort entries: ready ones first, then those to be proven in this process, then those still being proven. If
        all are being proven, wait for one.

        until : time of `perf_counter` after which it does not wait.
        """
        for _ in self.verdicts(left, 0.0 if CAN_PAUSE else until):
            pass
        self._sort(left)
        if left[0].rung.name in self.waiting:
            self._report()
            next(self.verdicts(left, until), None)
            for _ in self.verdicts(left, 0.0):
                pass
            self._sort(left)
        if left[0].rung.name in self.waiting:
            self.unproven |= self.waiting
            self.end()

    def _sort(self, left: list[TimedEntry]) -> None:
        waiting, unproven = self.waiting, self.unproven
        left.sort(key=lambda each: (each.rung.name in waiting, is_peer(each.rung), each.rung.name in unproven))

    def paused(self) -> AbstractContextManager[None]:
        """Pause the proof processes in this context, while something is timed."""
        return nullcontext() if self._proofs is None else self._proofs.paused()

    def end(self) -> None:
        """End all proof processes."""
        if self._proofs is not None:
            self._proofs.close()
            self._proofs = None

    def _report(self, name: str = "") -> None:
        count = len(self.waiting)
        rungs = "1 rung" if count == 1 else f"{count} rungs"
        self.report(f"proving {rungs} side by side" if count else f"proven: {name}")
