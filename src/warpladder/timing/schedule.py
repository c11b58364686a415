"""`ClimbSchedule`: the order in which a climb proves, times and repeats its rungs, and its reports.

A rung is proven, warmed up and timed once before the next one is proven, so that its row appears early; the other
repetitions take turns. Untimed work is last: bits are compared, and meanwhile separate processes measure the
peak memory of rungs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from time import sleep

from ..device import gpu
from ..device.timing import timed_in
from ..ladder import is_peer
from ..machine import facts as machine
from ..results import SCHEMA, DataFacts, Gpu, Machine, NetFacts, Results, RungResult
from ..trainers.kernelwise.where import why_not
from .choice import from_the_fastest, is_late, is_slow_to_start
from .climb_limit import GRACE, LEAST_REPEATS, ClimbLimit
from .entry import TimedEntry, line
from .entry_result import believe, result
from .measure import check, prepare, repeat
from .peak_memory import PeakMemories
from .proof_cache import ProofCache
from .proofs_ahead import ProofsAhead
from .repeat import replay, time_test
from .task import ClimbTask

# seconds after a rung on the CPU: a library's idle threads may spin for a while, and take the next rung's cores
SETTLE = 0.2

#: Estimated seconds of a proof before one was measured; and of a peer, whose library is imported first, or a slow rung.
PROOF, LONG_PROOF = 5.0, 10.0

#: Seconds for estimates in which a peer's library is imported and its trainer loads; of one that compiles for long.
START, LONG_START = 3.0, 12.0

# most processes that measure peak memory at a time; the other cores are for rungs that are repeated
MEASURED = 4

#: Called with the present activity, the number of finished parts of the climb, of all parts, and the seconds left.
Progress = Callable[[str, int, int, float], None]

#: Called with the results so far, and the rung that has just got its first time or failed, or None.
Found = Callable[[Results, RungResult | None], None]


@dataclass
class ClimbSchedule:
    """Schedule of a running climb: its entries, limits, reports and helper processes.

    command : command that repeats the climb.
    cache : proofs of earlier climbs, or None to prove everything.
    limit : time limit of the climb; it leaves out repetitions, training for the accuracy, and peers.
    is_quick : True for a quick climb: rungs begin from the fastest down, and only those that fit the limit.
    has_memory : True if peak memory is measured.
    """

    task: ClimbTask
    entries: list[TimedEntry]
    command: str
    cache: ProofCache | None = None
    progress: Progress | None = None
    found: Found | None = None
    limit: ClimbLimit = field(default_factory=ClimbLimit)
    is_quick: bool = False
    has_memory: bool = True
    notes: list[str] = field(default_factory=list)
    is_settled: bool = False  # True if no thread of the rung before can be spinning
    ahead: ProofsAhead = field(init=False)
    memories: PeakMemories = field(init=False)

    def run(self) -> Results:
        """Run the climb. If an error or Ctrl-C ends it early, the results so far are reported first."""
        self.doing = "measuring the machine"
        self._report_progress(self.doing)
        self.machine = Machine(**machine.facts(self._threads()))
        if any(entry.rung.precision == "fp64" for entry in self.entries):
            self.machine = replace(self.machine, fma_peak_fp64=machine.fma_peak(self.machine.threads, "fp64"))
        self.ahead = ProofsAhead(self.task, self._proof_cost, self._turn, self._report_progress)
        task, at_a_time = self.task, max(1, min(MEASURED, machine.cores() // 2))
        try:
            with ExitStack() as stack:
                for entry in self.entries:
                    stack.callback(entry.end)
                self.memories = PeakMemories(task.net, task.data, task.config, at_a_time)
                stack.callback(self.memories.close)
                stack.callback(self.ahead.end)
                self._prove()
                self._take_turns()
                self._repeat()
        except BaseException as error:
            why = line(str(error) or type(error).__name__) if isinstance(error, Exception) else "stopped"
            self._report(None, f"{why}, {self.doing}")
            raise
        self._report_progress("done")
        self._report(None)
        return self.results()

    def results(self, stopped: str = "") -> Results:
        """Results so far; `stopped` is the reason why the climb ended early."""
        task, net, data = self.task, self.task.net, self.task.data
        layers, loss = tuple(map(str, net.layers)), type(net.loss).__name__
        return Results(
            schema=SCHEMA,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=self.command,
            machine=self.machine,
            net=NetFacts(net.name, net.in_shape, layers, loss, net.param_count, net.train_flops),
            data=DataFacts(data.name, task.n, len(data.test_x), data.in_shape, str(data.train_x.dtype), data.classes),
            config=task.config.but(epochs=task.epochs).as_dict(),
            epochs=task.epochs,
            repeats=task.repeats,
            rungs=tuple(result(entry, self.machine, stopped) for entry in self.entries),
            stopped=stopped,
            notes=tuple(self.notes),
            sources={name: text for entry in self.entries for name, text in entry.sources.items()},
        )

    def _threads(self) -> int | None:
        """Number of threads of all rungs with this option, for the machine's peak; None if they differ."""
        chosen = {entry.rung.options.chosen().get("threads") for entry in self.entries if entry.rung.threaded}
        return chosen.pop() if len(chosen) == 1 else None

    def _prove(self) -> None:
        """Prove, warm up and time once one rung after the other."""
        left = self._in_order()
        first, least = left[0], 1 if self.is_quick else 2
        if self.ahead.has_spare_cores:
            self.ahead.begin(left[1:], least)
        while left:
            if left[0] is not first:
                if not self.ahead.has_spare_cores and self.limit.is_set and any(each.seconds for each in self.entries):
                    self.ahead.begin(left, least)  # the first row has had all cores
                if self.has_memory and {each.rung.name for each in left} <= self.ahead.waiting:
                    # slow rungs, and libraries that take long to import, would delay the timing
                    quick = [each for each in self._alive() if not math.isfinite(each.rung.proof_flops)]
                    self._add_memories(entry for entry in quick if not is_peer(entry.rung))
                self.ahead.sort(left, self._peers_end(), has_rungs=not self.is_quick)
                self.memories.settle()
            entry = left.pop(0)
            entry.check_support()
            if entry.alive and self.limit.is_set:
                self._give_up_if_late(entry, left)
            if not entry.alive:
                continue
            with timed_in(self.ahead.paused):  # a rung may choose its kernels by a clock
                self._advance(entry, "proving", check)
            self._advance(entry, "warming up", partial(prepare, quiet=self.ahead.paused))
            if entry.alive:
                self.is_settled = False  # threads of the proof may be spinning
                with self.ahead.paused():
                    self._time(entry, 0)
                    if entry.peak is None:  # its floor uses this processor's peak
                        self._measure_peak()
            self._report(entry)
        self.ahead.end()

    def _in_order(self) -> list[TimedEntry]:
        """Entries in the order of their proofs, peers last if the climb has a limit.

        A first look begins with the fastest. So does a climb with a GPU, whose processor then proves slow rungs and
        peers in other processes; without a GPU it begins with the first rung of the ladder. Cheap proofs come first.
        """
        order = [entry.rung for entry in self.entries]
        if self.is_quick or (self.limit.is_set and why_not(None) is None):
            order = from_the_fastest(order)

        def key(entry: TimedEntry) -> tuple[int, int, int]:
            cost = 0 if self.is_quick else self._proof_cost(entry)
            return self.limit.is_set and self._turn(entry), cost, order.index(entry.rung)

        return sorted(self.entries, key=key)

    def _turn(self, entry: TimedEntry) -> int:
        """Sort key of a turn: 0 for rungs, 1 for peers; 2 in a first look for `is_late` rungs."""
        if is_peer(entry.rung) or not self.is_quick:
            return int(is_peer(entry.rung))
        return 2 * is_late(entry.rung, self._is_proven(entry))

    def _add_memories(self, entries: Iterable[TimedEntry]) -> None:
        """Measure the peak memory of timed entries in separate processes."""
        for entry in (each for each in entries if each.seconds):
            self.memories.add(entry.rung)

    def _advance(self, entry: TimedEntry, doing: str, work: Callable[..., None]) -> None:
        if entry.alive:
            self._report_progress(f"{doing} {entry.rung.name}")
            work(entry, self.cache)
            entry.stage += 1

    def _give_up_if_late(self, entry: TimedEntry, left: list[TimedEntry]) -> None:
        """Give an entry up if no time is left for it: in a quick climb any entry, else only a peer.

        left : entries with a later turn.
        """
        if self.is_quick:
            if not self._has_time(entry):
                entry.give_up("missing", "a first look had no time left for it")
            return
        if not is_peer(entry.rung):
            return
        if self._has_time(entry) and not self._is_proven(entry):
            self._report_progress(f"proving {entry.rung.name}")
            self.ahead.prove(entry, left, self._peers_end())
        if not self._has_time(entry):
            is_begun = entry.rung.name in self.ahead.dropped
            late = f"its proof had not ended after {self.limit.passed:.0f} s" if is_begun else "no time was left for it"
            entry.give_up(
                "missing",
                f"{late}, and this climb is to end within {self.limit.seconds:.0f} s: --rungs {entry.rung.name} has no "
                "limit",
            )

    def _has_time(self, entry: TimedEntry) -> bool:
        """True if the limit leaves time to prove and time an entry, and to finish the rungs already begun."""
        is_long = is_peer(entry.rung) or self._proof_cost(entry) == 2 or entry.rung.name in self.ahead.unproven
        proof = 0.0 if self._is_proven(entry) else LONG_PROOF if is_long else PROOF
        return entry.left(proof + self._start(entry), SETTLE, self._more()) + self._rest() <= self.limit.left

    def _start(self, entry: TimedEntry) -> float:
        """Estimated seconds to start a peer; 0 in a quick climb."""
        return 0.0 if self.is_quick else LONG_START if is_slow_to_start(entry.rung) else START

    def _more(self) -> int:
        """Fewest repetitions of a climb after the first."""
        return 0 if self.is_quick else min(self.task.repeats, LEAST_REPEATS) - 1

    def _rest(self) -> float:
        """Estimated seconds to finish the entries already begun, without training for the accuracy.

        In a climb without `is_quick` all rungs are treated as begun.
        """
        begun = [each for each in self._alive() if each.seconds or not (self.is_quick or is_peer(each.rung))]
        return sum(each.left(0.0, SETTLE, self._more(), is_trained=False) for each in begun)

    def _peers_end(self) -> float:
        """Time of `perf_counter` at which proofs of peers are ended, to leave time to time the other entries."""
        return min(self.limit.proofs_end, self.limit.end - self._rest() - (0.0 if self.is_quick else START))

    def _is_proven(self, entry: TimedEntry) -> bool:
        return entry.passed is not None or self._proof_cost(entry) == 0

    def _proof_cost(self, entry: TimedEntry) -> int:
        """Sort key of a proof by its cost: 0 if cached, 1 for a normal rung, 2 for a slow rung."""
        if self.cache and self.cache.find(entry.rung):
            return 0
        return 2 if math.isfinite(entry.rung.proof_flops) else 1

    def _take_turns(self) -> None:
        """Time the remaining repetitions and the test passes, then compare times with the highest measured peak."""
        for number in range(1, self.task.repeats):
            is_spare = number > self._more()
            needed = self._left(rounds=1) if is_spare else sum(SETTLE + each.repetition for each in self._alive())
            if needed > self.limit.left + (0.0 if is_spare else GRACE):
                break
            for entry in self._alive():
                self._time(entry, number)
            self._measure_peak()
            self._report(None)
        for entry in self._alive():
            self._report_progress(f"testing {entry.rung.name}")
            self._settle()
            time_test(entry, self.limit.left + GRACE)
            self.is_settled = entry.peak is not None
        if any(entry.peak for entry in self.entries):
            self._note_gpu()
        for entry in self._alive():
            believe(entry, self.machine)

    def _time(self, entry: TimedEntry, number: int) -> None:
        self._report_progress(f"timing, round {number + 1} of {self.task.repeats}: {entry.rung.name}")
        self._settle()
        repeat(entry, number)
        self.is_settled = entry.peak is not None  # the rung trains on another unit than this CPU
        entry.stage += 1

    def _settle(self) -> None:
        """Wait until threads of the rung before have stopped spinning."""
        if not self.is_settled:
            sleep(SETTLE)

    def _measure_peak(self) -> None:
        """Measure the processor's peaks again, and store the higher ones."""
        known, threads = self.machine, self.machine.threads
        fp64 = known.fma_peak_fp64 and max(known.fma_peak_fp64, machine.fma_peak(threads, "fp64"))
        self.machine = replace(known, fma_peak=max(known.fma_peak, machine.fma_peak(threads)), fma_peak_fp64=fp64)

    def _note_gpu(self) -> None:
        """Store the GPU's facts. A peer may train on a GPU that the package's own libraries cannot identify."""
        try:
            self.machine = replace(self.machine, gpu=Gpu(**gpu.facts()))
        except Exception as error:
            self.notes.append(line(f"what the GPU is could not be found out: {error}"))

    def _repeat(self) -> None:
        """Compare bits and train for the accuracy; meanwhile measure the missing peak memories."""
        timed = self._alive()
        if self.has_memory:
            self._add_memories(sorted(timed, key=lambda entry: not is_peer(entry.rung)))  # peers' imports take long
        left = sorted(timed, key=lambda entry: entry.peak is None)  # the processes need this CPU's cores
        for at, entry in enumerate(left):
            rest = sum(other.replay for other in left[at:])
            if rest > self.limit.left and not entry.is_exact:  # other bits would not refute it
                continue
            if entry.replay > self.limit.left + GRACE and not entry.is_outside:
                continue
            self._report_progress(f"repeating {entry.rung.name}")
            entry.allowance = max(self.task.budget if self.limit.left > 0 else 0.0, self.limit.left - rest)
            replay(entry)
            entry.stage += 1
            self._report(None)
        for entry in timed if self.has_memory else ():
            self._report_progress(f"measuring the peak memory of {entry.rung.name}")
            entry.note_peak_memory(*self.memories.result(entry.rung, self.limit.end + GRACE))

    def _alive(self) -> list[TimedEntry]:
        return [entry for entry in self.entries if entry.alive]

    def _report_progress(self, doing: str) -> None:
        self.doing = doing
        if self.progress is None:
            return
        parts = self.task.repeats + 3
        done = sum(entry.stage if entry.alive else parts for entry in self.entries)
        self.progress(doing, done, parts * len(self.entries), 0.0 if doing == "done" else self._left())

    def _left(self, rounds: int | None = None) -> float:
        """Estimated seconds to the end, with `rounds` more rounds of repetitions; None for all.

        A rung that was not probed yet gets the mean seconds of the other proofs.
        """
        checks = [entry.found["check"] for entry in self.entries if "check" in entry.found]
        made = [checked.seconds for checked in checks if not checked.kept]
        proof = sum(made) / len(made) if made else PROOF
        return sum(entry.left(proof, SETTLE, rounds) for entry in self._alive())

    def _report(self, news: TimedEntry | None, stopped: str = "") -> None:
        """Report the results so far, marked as stopped until the climb is done."""
        if self.found is not None:
            is_done = self.doing == "done"
            reason = stopped or ("" if is_done else f"still under way when this was written, {self.doing}")
            results = self.results(reason)
            self.found(results, next((rung for rung in results.rungs if news and rung.name == news.rung.name), None))
