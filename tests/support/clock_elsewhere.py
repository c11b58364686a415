"""Programs for the clock whose work is elsewhere: in generators, coroutines, child processes, mapped files, imports,
references, and numbers that compute when they are compared. Cheats do their training there after the clock; honest
programs use the same means and train in `run`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import weakref
from typing import Any

import numpy as np
from clock_hooks import Queued
from clock_programs import Program

from warpladder.trainers.base import StepLog

QUIET = 0.002  # seconds without a call after which a cheat trains

# Cheats


class InAGenerator(Queued):
    """Trains a step whenever it is called for something else."""

    def steps_left(self):
        while True:
            queue, self.queue = self.queue, ()
            for order, first, last in queue:
                for step in range(first, last):
                    yield self.step(order, step)
            yield None

    def load(self, dataset):
        super().load(dataset)
        for _ in range(64):
            next(self.__dict__.setdefault("left", self.steps_left()))


class InAPrediction(Queued):
    def predict(self, x, scale):
        self.work()
        return super().predict(x, scale)


class InAChildProcess(Queued):
    """A forked process trains and writes weights into shared memory, from which the state is read."""

    def state(self):
        state = super().state().copied()
        shared = multiprocessing.RawArray("f", len(state.params))
        params = np.frombuffer(shared, np.float32)
        params[...] = state.params
        child = os.fork()
        if child == 0:
            self.work()
            params[...] = self.inner.state().params
            os._exit(0)
        self.children = [*getattr(self, "children", ()), child]
        return state.but(params=params)

    def close(self):
        for child in getattr(self, "children", ()):
            os.waitpid(child, 0)


class InAMappedFile(Queued):
    """The state is a mapped file, into which a thread writes later."""

    def state(self):
        state = super().state().copied()
        with tempfile.NamedTemporaryFile() as file:
            params = np.memmap(file.name, np.float32, "w+", shape=state.params.shape)
        params[...] = state.params

        def later():
            time.sleep(QUIET)
            self.work()
            params[...] = self.inner.state().params

        self.thread = threading.Thread(target=later)
        self.thread.start()
        return state.but(params=params)

    def close(self):
        if hasattr(self, "thread"):
            self.thread.join()


class InACoroutine(Queued):
    """Trains in a loop of events in a thread, a little later."""

    def load(self, dataset):
        super().load(dataset)
        if not hasattr(self, "loop"):
            self.loop = asyncio.new_event_loop()
            self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
            self.thread.start()

    def after(self):
        self.loop.call_soon_threadsafe(self.loop.call_later, QUIET, self.work)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class InAWeakReference(Queued):
    """Trains when the log that it gave is no longer needed."""

    def run(self, order, first, last):
        log = super().run(order, first, last)
        self.reference = weakref.ref(log, lambda _: self.work())
        return log


class InAnImport(Queued):
    """Trains when anything is imported."""

    def find_spec(self, name, path=None, target=None):
        self.work()

    def after(self):
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def close(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class InTheCount(Queued):
    """Trains when the number of updates is compared."""

    def state(self):
        program, state = self, super().state().copied()

        class Count(int):
            def __eq__(self, other):
                program.work()
                return int(self) == other

            __hash__ = int.__hash__

        return state.but(step=Count(state.step + sum(last - first for _, first, last in self.queue)))


class InAnInterface(Queued):
    """Its losses are an object that computes them when they are made an array."""

    def run(self, order, first, last):
        program = self
        made_up = super().run(order, first, last)

        class Losses:
            shape, dtype = made_up.loss.shape, made_up.loss.dtype

            def __array__(self, *how, **more):
                program.work()
                return made_up.loss

        return StepLog(Losses(), made_up.correct, made_up.size)  # type: ignore[arg-type]


class WaitsForSilence(Queued):
    """A thread trains when nothing was asked for a while."""

    asked = 0.0

    def after(self):
        self.asked = time.perf_counter()
        if not hasattr(self, "thread"):
            self.ends = threading.Event()
            self.thread = threading.Thread(target=self.watch, daemon=True)
            self.thread.start()

    def watch(self):
        while not self.ends.wait(QUIET):
            if self.queue and time.perf_counter() - self.asked > QUIET:
                self.work()

    def close(self):
        if hasattr(self, "thread"):
            self.ends.set()
            self.thread.join()


#: Cheats, each with True if it must be refused; else it may be timed with all of its work.
ELSEWHERE_CHEATS: dict[type[Program], bool] = {
    InAGenerator: True, InAPrediction: True, InAChildProcess: True, InAMappedFile: True, InACoroutine: True,
    InAWeakReference: True, InAnImport: True, InTheCount: True, InAnInterface: False, WaitsForSilence: True,
}  # fmt: skip


# Honest programs


class TrainsInAGenerator(Program):
    def run(self, order, first, last):
        def steps():
            for step in range(first, last):
                yield self.step(order, step)

        return StepLog.joined(list(steps()))


class TrainsInACoroutine(Program):
    def run(self, order, first, last):
        async def steps():
            return [self.step(order, step) for step in range(first, last)]

        loop = asyncio.new_event_loop()
        log = StepLog.joined(loop.run_until_complete(steps()))
        loop.close()
        return log


class StoresStatesInFiles(Program):
    """Gives out its weights in a mapped file."""

    def state(self):
        state = super().state()
        with tempfile.NamedTemporaryFile() as file:
            params = np.memmap(file.name, np.float32, "w+", shape=state.params.shape)
        params[...] = state.params
        return state.but(params=params)


class SharesItsMemory(Program):
    """Gives out its weights in shared memory."""

    def state(self):
        state = super().state()
        params = np.frombuffer(multiprocessing.RawArray("f", len(state.params)), np.float32)
        params[...] = state.params
        return state.but(params=params)


class RefersToItsLogs(Program):
    def run(self, order, first, last):
        log = super().run(order, first, last)
        self.reference = weakref.ref(log)
        return log


class ImportsLate(Program):
    def run(self, order, first, last):
        import fractions

        assert fractions.Fraction(1, 2) < 1
        return super().run(order, first, last)


class CountsInAClass(Program):
    """Its number of updates is of a class of its own."""

    class Count(int):
        pass

    def state(self):
        state = super().state()
        return state.but(step=CountsInAClass.Count(state.step))


class SwitchesThreadsOften(Program):
    def load(self, dataset):
        super().load(dataset)
        sys.setswitchinterval(0.001)

    def close(self):
        sys.setswitchinterval(0.005)


class WritesAJournal(Program):
    """Writes a line for each call."""

    def load(self, dataset):
        super().load(dataset)
        self.file: Any = getattr(self, "file", None) or tempfile.TemporaryFile("w")  # noqa: SIM115

    def run(self, order, first, last):
        self.file.write(f"{first} {last}\n")
        return super().run(order, first, last)

    def close(self):
        if hasattr(self, "file"):
            self.file.close()


class CatchesErrors(Program):
    """Looks a key up that is not there, in every step."""

    def step(self, order, step):
        try:
            return {}[step]
        except KeyError:
            return super().step(order, step)


ELSEWHERE_HONEST: tuple[type[Program], ...] = (
    TrainsInAGenerator, TrainsInACoroutine, StoresStatesInFiles, SharesItsMemory, RefersToItsLogs, ImportsLate,
    CountsInAClass, SwitchesThreadsOften, WritesAJournal, CatchesErrors,
)  # fmt: skip
