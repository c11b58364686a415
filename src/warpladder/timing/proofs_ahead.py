"""`ProofsAhead`: concurrent proofs of a climb's rungs, before their turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from time import perf_counter

from ..ladder import is_peer
from ..machine import facts as machine
from ..rungs.base import Rung
from .choice import is_slow_to_start
from .entry import TimedEntry
from .foreign.rung import is_isolated
from .own import is_own
from .parallel_proofs import CAN_PAUSE, MOST, ConcurrentProofs
from .task import ClimbTask

#: Share of the time for proofs after which a first look waits for the fastest rung's before it times others: each row
#: pauses the proofs.
FASTEST = 0.6

SPARE = 2  # cores for this process and the system, where there are four or more; with fewer, two proofs share them


class ProofsAhead:
    """Proofs in concurrent processes, on a machine with spare cores.

    cost : function of an entry: sort key of its proof, 0 for a stored one. turn : function of an entry: sort key of its
    turn in the climb.
    report : called with the present activity.
    unproven : names of rungs whose process ended without a verdict.
    dropped : names of unproven rungs whose process was ended before its verdict.
    """

    def __init__(
        self, task: ClimbTask, cost: Callable[[TimedEntry], int], turn: Callable[[TimedEntry], int],
        report: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.task, self.cost, self.turn, self.report = task, cost, turn, report
        self.fastest, self.began = "", perf_counter()  # name of the first rung that a process proves
        self.unproven: set[str] = set()
        self.dropped: set[str] = set()
        self._proofs: ConcurrentProofs | None = None

    @property
    def waiting(self) -> set[str]:
        """Names of the rungs whose proofs are running."""
        return set() if self._proofs is None else self._proofs.waiting

    @property
    def has_spare_cores(self) -> bool:
        """True if proofs leave cores for what this process does meanwhile."""
        return machine.cores() - SPARE >= 2

    def begin(self, entries: Iterable[TimedEntry], least: int = 1) -> None:
        """Begin the proofs that a process can make, in the order of turns, if at least `least` entries need one.

        No process begins on a single core, without disk space for a copy of the data set, or if samples have weights,
        which the copy lacks: the climb then proves one rung after the other.
        """
        some = [entry for entry in entries if self._needs_process(entry)]
        if len(some) >= least and machine.cores() >= 2:
            some.sort(key=lambda entry: (self.turn(entry), is_slow_to_start(entry.rung)))
            self.fastest = some[0].rung.name
            self._add([entry.rung for entry in some])

    def _add(self, rungs: list[Rung]) -> None:
        if self._proofs is None:
            with suppress(OSError):
                cores = machine.cores()
                self._proofs = ConcurrentProofs(self.task, max(min(2, cores), min(MOST, cores - SPARE)))
        if self._proofs is not None and rungs:
            self._proofs.add(rungs)
            self._report()

    def prove(self, entry: TimedEntry, others: list[TimedEntry], until: float) -> None:
        """Prove a peer in a separate process if possible, and wait for its verdict.

        others : further entries whose verdicts are stored meanwhile.
        until : time of `perf_counter` at which the proof is ended.
        """
        if self._needs_process(entry):
            self._add([entry.rung])
        while entry.rung.name in self.waiting and next(self.verdicts([*others, entry], until), None) is not None:
            pass
        self.drop({entry.rung.name})

    def drop(self, names: set[str]) -> None:
        """End the proofs of these rungs that still run, and record the rungs as dropped."""
        names = names & self.waiting
        if self._proofs is not None and names:
            self.unproven |= names
            self.dropped |= names
            self._proofs.drop(names)

    def _needs_process(self, entry: TimedEntry) -> bool:
        """True if a separate process can prove the entry: it is not proven yet and does not choose plans by a clock."""
        entry.check_support()
        if self.task.data.train_weight is not None:
            return False
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

    def sort(self, left: list[TimedEntry], until: float, has_rungs: bool = False) -> None:
        """Sort entries: ready ones first, then those to be proven in this process, then those still being proven. If
        all are being proven, wait for one.

        until : time of `perf_counter` after which it does not wait.
        has_rungs : True if `until` applies only to peers, and rungs are waited for; False in a first look.
        """
        if not has_rungs and perf_counter() > self.began + FASTEST * (until - self.began):
            while self.fastest in self.waiting and next(self.verdicts(left, until), None) is not None:
                pass
        for _ in self.verdicts(left, 0.0 if CAN_PAUSE else until):
            pass
        self._sort(left)
        if left[0].rung.name in self.waiting:
            self._report()
            if next(self.verdicts(left, until), None) is None and has_rungs:
                self.drop({each.rung.name for each in left if is_peer(each.rung)})
                next(self.verdicts(left), None)
            for _ in self.verdicts(left, 0.0):
                pass
            self._sort(left)
        if left[0].rung.name in self.waiting:
            self.unproven |= self.waiting
            self.end()

    def _sort(self, left: list[TimedEntry]) -> None:
        waiting, unproven = self.waiting, self.unproven
        left.sort(key=lambda each: (each.rung.name in waiting, self.turn(each), each.rung.name in unproven))

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
