"""Programs for the clock that work where Python calls them by itself: in finalizers, callbacks of the collector, signal
handlers, hooks of the interpreter, pools and subclasses of arrays. Cheats do their training there; honest programs use
the same hooks and train in `run`.
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from clock_programs import Program

from warpladder.trainers.base import StepLog


class Queued(Program):
    """Returns at once with a log that is made up; calls wait in a queue until `work` trains them."""

    queue: Any = ()

    def run(self, order, first, last):
        self.queue = [*self.queue, (order, first, last)]
        batch = self.config.batch(order.n)
        size = np.array([min(batch, order.n - step * batch) for step in range(first, last)], np.int64)
        self.after()
        return StepLog(np.ones(last - first), np.zeros(last - first, np.int64), size)

    def after(self) -> None:
        """Called at the end of each `run`."""

    def work(self) -> None:
        queue, self.queue = self.queue, ()
        for call in queue:
            super().run(*call)


# Cheats


class InDel(Queued):
    """Trains when an object of its own is deleted, in the next call."""

    class Token:
        program: Any = None

        def __del__(self):
            if self.program is not None:
                self.program.work()

    token: Any = None

    def after(self):
        self.token = InDel.Token()

    def set_state(self, state):
        if self.token is not None:
            self.token.program, self.token = self, None
        super().set_state(state)


class InAFinalizer(Queued):
    """Trains in a finalizer of the state that it has returned."""

    def state(self):
        state = super().state().copied()
        weakref.finalize(state.params, self.work).atexit = False
        return state


class InGarbageCollection(Queued):
    """Trains when the collector has run."""

    def load(self, dataset):
        super().load(dataset)
        if not hasattr(self, "hook"):
            self.hook = lambda phase, info: self.work() if phase == "stop" else None
            gc.callbacks.append(self.hook)

    def close(self):
        if hasattr(self, "hook"):
            gc.callbacks.remove(self.hook)


class InASignalHandler(Queued):
    """Trains in the handler of an alarm a little later."""

    def after(self):
        signal.signal(signal.SIGALRM, lambda *_: self.work())
        signal.setitimer(signal.ITIMER_REAL, 0.002)

    def close(self):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


class AtExit(Queued):
    """Trains when the process ends."""

    def after(self):
        atexit.register(self.work)

    def close(self):
        atexit.unregister(self.work)
        self.queue = ()


class InAProfileHook(Queued):
    """Trains in a hook of the interpreter, in the next call of a function of another module."""

    def after(self):
        calls = [0]

        def hook(frame, event, argument):
            calls[0] += 1
            if calls[0] > 400:
                sys.setprofile(None)
                self.work()

        sys.setprofile(hook)

    def close(self):
        sys.setprofile(None)


class InAPool(Queued):
    """Trains in a pool, for which nothing waits."""

    def after(self):
        self.pool = getattr(self, "pool", None) or ThreadPoolExecutor(1)
        self.pool.submit(threading.Event().wait, 0.003)
        self.pool.submit(self.work)

    def close(self):
        if hasattr(self, "pool"):
            self.pool.shutdown()


class WritesLate(Queued):
    """Writes the true weights into the array of the state after it was returned."""

    def state(self):
        state = super().state().copied()

        def later():
            self.work()
            state.params[...] = self.inner.state().params

        self.timer = threading.Timer(0.002, later)
        self.timer.start()
        return state

    def close(self):
        if hasattr(self, "timer"):
            self.timer.join()


class InArrays(Queued):
    """Trains when its array of weights is read: a subclass of ndarray."""

    def state(self):
        program, state = self, super().state().copied()

        class Late(np.ndarray):
            def __array_ufunc__(self, ufunc, method, *inputs, **how):
                program.work()
                return getattr(ufunc, method)(*(np.asarray(each) for each in inputs), **how)

            def tobytes(self, *how):
                program.work()
                return program.inner.state().params.tobytes()

            def copy(self, *how):
                program.work()
                return program.inner.state().params.copy()

        return state.but(params=state.params.view(Late))


class ReadsTheStack(Program):
    """Leaves updates out where it is called by what times it."""

    def step(self, order, step):
        frame: Any = sys._getframe()
        names = set()
        while frame is not None:
            names.add(frame.f_code.co_name)
            frame = frame.f_back
        if "repeat" not in names:
            return super().step(order, step)
        before = self.inner.state().copied()
        log = super().step(order, step)
        self.inner.set_state(before.but(step=before.step + 1))
        return log


HOOK_CHEATS: dict[type[Program], bool] = {
    InDel: True, InAFinalizer: True, InGarbageCollection: True, InASignalHandler: True, AtExit: True,
    InAProfileHook: True, InAPool: True, WritesLate: True, InArrays: False, ReadsTheStack: True,
}  # fmt: skip


# Honest programs


class FreesInDel(Program):
    """Has objects of its own that free something when they are deleted."""

    class Buffer:
        def __init__(self, n):
            self.a = np.zeros(n)

        def __del__(self):
            del self.a

    def run(self, order, first, last):
        self.buffer = FreesInDel.Buffer(64 * (last - first))
        return super().run(order, first, last)


class HasAFinalizer(Program):
    """Counts its logs with a finalizer for each."""

    alive = 0

    def run(self, order, first, last):
        log = super().run(order, first, last)
        self.alive += 1
        weakref.finalize(log, self.freed).atexit = False
        return log

    def freed(self):
        self.alive -= 1


class WatchesTheCollector(Program):
    collections = 0

    def load(self, dataset):
        super().load(dataset)
        if not hasattr(self, "hook"):
            self.hook = lambda phase, info: setattr(self, "collections", self.collections + 1)
            gc.callbacks.append(self.hook)

    def close(self):
        gc.callbacks.remove(self.hook)


class HandlesASignal(Program):
    """Reports its progress at an alarm."""

    seen = 0

    def load(self, dataset):
        super().load(dataset)
        signal.signal(signal.SIGALRM, lambda *_: setattr(self, "seen", self.seen + 1))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)

    def close(self):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


class CleansUpAtExit(Program):
    def load(self, dataset):
        super().load(dataset)
        atexit.register(self.close)

    def close(self):
        atexit.unregister(self.close)


class ProfilesItself(Program):
    """Counts the calls of its own functions."""

    calls = 0

    def run(self, order, first, last):
        sys.setprofile(lambda frame, event, argument: setattr(self, "calls", self.calls + 1))
        try:
            return super().run(order, first, last)
        finally:
            sys.setprofile(None)


class GathersInAPool(Program):
    """Computes the next range's order in a pool while it trains, and waits for it."""

    def run(self, order, first, last):
        self.pool = getattr(self, "pool", None) or ThreadPoolExecutor(1)
        ahead = self.pool.submit(order.indices, 0, min(16, order.n))
        log = super().run(order, first, last)
        assert len(ahead.result())
        return log

    def close(self):
        if hasattr(self, "pool"):
            self.pool.shutdown()


class SubclassesArrays(Program):
    """Gives out logs and states in a subclass of ndarray with a name."""

    class Named(np.ndarray):
        name = "a"

    def run(self, order, first, last):
        log = super().run(order, first, last)
        return StepLog(log.loss.view(SubclassesArrays.Named), log.correct, log.size)

    def state(self):
        state = super().state()
        return state.but(params=state.params.view(SubclassesArrays.Named))


HOOK_HONEST: tuple[type[Program], ...] = (
    FreesInDel, HasAFinalizer, WatchesTheCollector, HandlesASignal, CleansUpAtExit, ProfilesItself, GathersInAPool,
    SubclassesArrays,
)  # fmt: skip
