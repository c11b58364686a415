"""The course of a climb: who is proven, timed and repeated when, and what is told meanwhile.

A rung is proven, warmed up and timed once before the next one is proven, so that its row is there early; the other
repetitions are taken in turns. What no clock sees comes last: bits are compared, and beside that rungs are weighed in
processes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Thread
from time import perf_counter, sleep

from ..device import gpu
from ..ladder import is_peer
from ..machine import facts as machine
from ..results import SCHEMA, Checked, DataFacts, Gpu, Machine, NetFacts, Results, RungResult
from .entry import Contender, line
from .parallel_proofs import MOST, passed_beside
from .peak_memory import Weighing
from .proof_cache import Kept, ours
from .repeat import replay, time_test
from .task import Task

# seconds after a rung on the CPU: a library's idle threads may spin for a while, and would take the next rung's cores
SETTLE = 0.2

#: Seconds that a proof may take, for the estimate of what is left, until one has been made.
PROOF = 5.0

TAIL = 3  # proofs side by side that leave processors idle: rungs that are proven are weighed beside so few

# processes that are weighed side by side, at most: libraries whose threads wait for each other want the other cores
# while rungs are repeated
WEIGHED = 4

#: Called with what is being done, how many parts of the climb are done, how many there are, and about how many seconds
#: are left.
Progress = Callable[[str, int, int, float], None]

#: Called with the results so far, and the rung that has just got its first time or lost its chance of one, or None
#: where there is no such news.
Found = Callable[[Results, RungResult | None], None]


@dataclass
class Course:
    """A climb under way.

    command : repeats it. kept : proofs of earlier climbs, or None to prove everything.
    last_start : seconds from the beginning after which no further rung is begun, or None. weigh : whether peak memory
    is measured.
    """

    task: Task
    contenders: list[Contender]
    command: str
    kept: Kept | None = None
    progress: Progress | None = None
    found: Found | None = None
    last_start: float | None = None
    weigh: bool = True
    notes: list[str] = field(default_factory=list)
    settled: bool = False  # no thread of the rung before can be spinning
    scales: Weighing = field(init=False)

    def _threads(self) -> int | None:
        """How many threads every rung that has the choice is given, with which the machine's peak is measured too; None
        where they differ.
        """
        chosen = {each.rung.options.chosen().get("threads") for each in self.contenders if each.rung.threaded}
        return chosen.pop() if len(chosen) == 1 else None

    def run(self) -> Results:
        """Go all the way. Whatever ends it early, what was found is told before it ends."""
        self.began = perf_counter()
        self.doing = "measuring the machine"
        self._say(self.doing)
        self.machine = Machine(**machine.facts(self._threads()))
        if any(each.rung.precision == "fp64" for each in self.contenders):
            self.machine = replace(self.machine, fma_peak_fp64=machine.fma_peak(self.machine.threads, "fp64"))
        try:
            with ExitStack() as stack:
                for each in self.contenders:
                    stack.callback(each.close)
                self.scales = Weighing(
                    self.task.net,
                    self.task.data,
                    self.task.config,
                    at_a_time=max(1, min(WEIGHED, machine.cores() // 2)),
                )
                stack.callback(self.scales.close)
                self._prove()
                self._take_turns()
                self._repeat()
        except BaseException as error:
            why = line(str(error) or type(error).__name__) if isinstance(error, Exception) else "stopped"
            self._tell(None, f"{why}, {self.doing}")
            raise
        self._say("done")
        self._tell(None)
        return self.results()

    def results(self, stopped: str = "") -> Results:
        """What is known so far."""
        task, net, data = self.task, self.task.net, self.task.data
        return Results(
            schema=SCHEMA,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=self.command,
            machine=self.machine,
            net=NetFacts(
                net.name,
                net.in_shape,
                tuple(map(repr, net.layers)),
                type(net.loss).__name__,
                net.param_count,
                net.train_flops,
            ),
            data=DataFacts(data.name, task.n, len(data.test_x), data.in_shape, str(data.train_x.dtype), data.classes),
            config=task.config.but(epochs=task.epochs).as_dict(),
            epochs=task.epochs,
            repeats=task.repeats,
            rungs=tuple(each.result(self.machine, stopped) for each in self.contenders),
            stopped=stopped,
            notes=tuple(self.notes),
            sources={name: text for each in self.contenders for name, text in each.sources.items()},
        )

    def _prove(self) -> None:
        """Prove, warm up and time once, one rung after the other."""
        for each in sorted(self.contenders, key=self._dear):
            each.ask()
            if (
                each.alive
                and each.passed is None
                and self.last_start is not None
                and perf_counter() - self.began > self.last_start
            ):
                each.give_up("missing", "a first look had no time left for it")
            if not each.alive:
                continue
            for doing, work in (("proving", Contender.check), ("warming up", Contender.prepare)):
                if each.alive:
                    self._say(f"{doing} {each.rung.name}")
                    work(each, self.kept)
                    each.stage += 1
            if each.alive:
                self.settled = False  # threads of the proof may be spinning
                self._time(each, 0)
                if each.peak is None:  # it is this processor's peak that it is held to
                    self._measure()
            self._tell(each)
            if not all(other.asked for other in self.contenders):
                self._prove_beside()

    def _prove_beside(self) -> None:
        """After the first row, for which nobody shall wait until torch is imported: ask all others, and prove them side
        by side where cores allow.
        """
        for other in self.contenders:
            other.ask()
        left = [
            each
            for each in self._alive()
            if "check" not in each.found and ours(each.rung) and not each.rung.tunes and self._dear(each)
        ]
        at_a_time = min(MOST, machine.cores() - 2, len(left))  # two cores for this process and the system
        if at_a_time < 2:
            return
        until = math.inf if self.last_start is None else self.began + self.last_start
        waiting = {each.rung.name: each for each in left}
        # Of those that are proven by then, or are being proven; a slow one, or a library that takes long to import,
        # would be waited for.
        quick = [
            each
            for each in self._alive()
            if (each in left or "check" in each.found) and self._dear(each) < 2 and not is_peer(each.rung)
        ]
        beginning = Thread(
            target=_begun, args=([each for each in left if is_peer(each.rung)],), name="beginning", daemon=True
        )

        def told(name: str, checked: Checked | None) -> None:
            waiting.pop(name).passed = checked
            last = 0 < len(waiting) <= TAIL
            for each in (
                quick if self.weigh and last and not self.scales.found else ()
            ):  # later ones would be waited for
                if each.rung.name not in waiting:
                    self.scales.add(each.rung)
            self._say(f"proving {counted(len(waiting))} side by side" if waiting else f"proven: {name}")
            for each in sorted(left, key=lambda each: each.passed is None) if last else ():
                if each.trainer is None:
                    beginning.join()
                    self._say(f"proving {counted(len(waiting))} side by side, beginning {each.rung.name}")
                    each.begin()

        self._say(f"proving {counted(len(left))} side by side")
        beginning.start()
        with suppress(OSError):  # no room for a copy of the data set: each is proven alone
            passed_beside([each.rung for each in left], self.task, at_a_time, until, told)
        beginning.join()  # before anything is timed
        self.scales.settle()

    def _dear(self, each: Contender) -> int:
        """Sorts those with a kept proof first, and those whose proof takes longest last."""
        return (
            0 if self.kept and self.kept.find(each.rung) else 2 if math.isfinite(each.rung.proof_flops) else 1
        )  # slow rungs last

    def _take_turns(self) -> None:
        """The other repetitions, and the test passes; then the times are doubted, with the highest peak that was
        measured.
        """
        for number in range(1, self.task.repeats):
            for each in self._alive():
                self._time(each, number)
            self._measure()
            self._tell(None)
        for each in self._alive():
            self._say(f"testing {each.rung.name}")
            self._quiet()
            time_test(each)
            self.settled = each.peak is not None
        if any(each.peak for each in self.contenders):
            self._ask_gpu()
        for each in self._alive():
            each.believe(self.machine)

    def _time(self, each: Contender, number: int) -> None:
        self._say(f"timing, round {number + 1} of {self.task.repeats}: {each.rung.name}")
        self._quiet()
        each.repeat(number)
        self.settled = each.peak is not None  # it is not this CPU that trains
        each.stage += 1

    def _quiet(self) -> None:
        """Wait for threads that may be spinning."""
        if not self.settled:
            sleep(SETTLE)

    def _measure(self) -> None:
        """Measure the processor's peaks again: the highest count."""
        known, threads = self.machine, self.machine.threads
        fp64 = known.fma_peak_fp64 and max(known.fma_peak_fp64, machine.fma_peak(threads, "fp64"))
        self.machine = replace(known, fma_peak=max(known.fma_peak, machine.fma_peak(threads)), fma_peak_fp64=fp64)

    def _ask_gpu(self) -> None:
        """Note what the GPU is; a peer may train on one that our own libraries cannot ask."""
        try:
            self.machine = replace(self.machine, gpu=Gpu(**gpu.facts()))
        except Exception as error:
            self.notes.append(line(f"what the GPU is could not be found out: {error}"))

    def _repeat(self) -> None:
        """Compare bits, train for the accuracy, and meanwhile weigh those that were not weighed yet. No clock runs."""
        timed = self._alive()
        for each in (
            sorted(timed, key=lambda each: not is_peer(each.rung)) if self.weigh else ()
        ):  # peers' libraries take long to import
            self.scales.add(each.rung)
        for each in sorted(
            timed, key=lambda each: each.peak is None
        ):  # a GPU's first: what is weighed beside them takes this CPU's cores
            self._say(f"repeating {each.rung.name}")
            replay(each)
            each.stage += 1
            self._tell(None)
        for each in timed if self.weigh else ():
            self._say(f"weighing {each.rung.name}")
            each.weighed(*self.scales.result(each.rung))

    def _alive(self) -> list[Contender]:
        return [each for each in self.contenders if each.alive]

    def _say(self, doing: str) -> None:
        self.doing = doing
        if self.progress is None:
            return
        parts = self.task.repeats + 3
        done = sum(each.stage if each.alive else parts for each in self.contenders)
        self.progress(doing, done, parts * len(self.contenders), 0.0 if doing == "done" else self._left())

    def _left(self) -> float:
        """Estimated seconds to the end. Of a rung that was not probed yet its proof is taken for as long as the
        others', its steps for short.
        """
        made = [
            each.found["check"].seconds
            for each in self.contenders
            if "check" in each.found and not each.found["check"].kept
        ]
        proof = sum(made) / len(made) if made else PROOF
        return sum(each.left(proof, SETTLE) for each in self._alive())

    def _tell(self, news: Contender | None, stopped: str = "") -> None:
        """Tell whoever wants to know the results so far; they count as stopped until they are whole."""
        if self.found is not None:
            results = self.results(
                stopped or ("" if self.doing == "done" else f"still under way when this was written, {self.doing}")
            )
            self.found(results, next((rung for rung in results.rungs if news and rung.name == news.rung.name), None))


def _begun(peers: list[Contender]) -> None:
    """Build a trainer of each peer, and drop it: that imports the peer's library and wakes its device, for which this
    process would wait later.

    What goes wrong comes up again where the peer is timed.
    """
    for each in peers:
        with suppress(Exception):
            each.rung.build(each.task.net, each.task.config, each.task.start()).close()


def counted(rungs: int) -> str:
    """So many rungs, in words."""
    return "1 rung" if rungs == 1 else f"{rungs} rungs"
