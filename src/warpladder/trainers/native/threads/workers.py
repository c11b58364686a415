"""Threads for a trainer's parts: one for each part, or fewer while the system has too few cores.

If thirty processes of two threads share two cores, a thread at a barrier waits for one without a core. So compiled code
sums the time that its threads waited for cores (barrier.py), and if it is long, fewer threads run the parts, some of
them in sequence. A step's bits depend on the parts alone::

    parts        0  1  2  3            0  1  2  3            0  1  2  3
    threads      a  b  c  d            a  a  b  b            a  a  a  a
                 cores for all         for half              for one

Before fewer threads are tried, each is pinned to its own processor while it runs: a system may leave two threads
on one processor though others are idle.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from ..program.job import J_FIRST, J_LAST, J_PATIENCE, J_WORKERS, RAN, SLEPT, SPAN, STOPPED, WAITS

ENOUGH = 2e-3  # seconds on cores, or waiting for one, on which a judgement rests
# least share of the time in which threads are ready that they must have a core: two threads that share a core with a
# third have two thirds
SHARE = 0.75
FEW, MANY = 2, 4096  # waits that end in sleep before a judgement: at first, and where cores were never short
SOON, LATE = 0.05, 5.0  # seconds until more threads are tried again: at first, and at most


class Workers:
    """Threads for `parts` parts of work; `count` of them run at present."""

    def __init__(self, parts: int) -> None:
        self.parts = self.count = parts
        self._pool = ThreadPoolExecutor(parts - 1) if parts > 1 else None
        self._patience = FEW
        self._pause = SOON
        self._next = 0.0  # when more threads are tried, by `time.perf_counter`
        self._is_trying = False  # True while more threads than before are tried
        self._is_pinned = False  # True if each thread is pinned to a processor of its own while it runs
        self._turn = os.getpid()  # selects the processors: others for other processes, and every time
        self._step = 0.0  # seconds of a step in the last call
        self._ran = self._waited = 0.0  # seconds on cores and waiting for one, since the last judgement

    def train(self, call: Callable[[int, int], None], job: np.ndarray, sync: np.ndarray, steps: int) -> None:
        """Run `steps` steps of a job, (JOB,) int64, on as many threads as have cores.

        call : compiled function of a thread's number and the job's address. sync : (16,) int64.
        """
        done = 0
        if self.parts == 1 and steps:  # one part never waits
            job[J_LAST] = done = steps
            self.everywhere(call, job)
        while done < steps:
            began = time.perf_counter()
            last = done + self._at_once(steps - done, began)
            sync[[WAITS, STOPPED, SPAN, RAN, SLEPT]] = 0
            job[[J_FIRST, J_LAST, J_PATIENCE]] = done, last, self._patience
            self.everywhere(call, job)
            last = int(sync[STOPPED]) or last
            self._step = (time.perf_counter() - began) / (last - done)
            done = last
            if self.count > 1:
                self._judge(1e-9 * int(sync[RAN]), 1e-9 * int(sync[SPAN] - sync[RAN] - sync[SLEPT]))

    def everywhere(self, call: Callable[[int, int], None], job: np.ndarray) -> None:
        """Call a compiled function on each of the present threads."""
        at = job.ctypes.data
        job[J_WORKERS] = self.count if self._pool else 1
        if self._is_pinned:
            call = _pinned(call, self.count, self._turn)
        others = [self._pool.submit(call, worker, at) for worker in range(1, self.count)] if self._pool else []
        call(0, at)
        for other in others:
            other.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _at_once(self, left: int, now: float) -> int:
        """Number of steps to run in one call: until more threads are to be tried, or all."""
        if self.count == self.parts or self._is_trying:
            return left
        if now >= self._next:
            self._is_trying = True
            self.count = min(self.parts, 2 * self.count)
            self._patience = FEW
            self._pin()
            return left
        return max(1, min(left, int((self._next - now) / self._step)))

    def _judge(self, ran: float, waited: float) -> None:
        """Choose the number of threads by the seconds that they ran and waited for a core."""
        self._ran += ran
        self._waited += max(waited, 0.0)
        if self._ran + self._waited < ENOUGH:
            return
        got = self._ran / (self._ran + self._waited)
        self._ran = self._waited = 0.0
        if not got >= SHARE and not self._is_pinned and self._pin():
            self._patience = FEW
            return
        if not got >= SHARE:
            self._is_pinned = False
            self.count = max(1, int(self.count * got))
            self._next = time.perf_counter() + self._pause
            self._pause = min(2 * self._pause, LATE)
            self._patience = FEW
        else:
            if self._is_trying:
                self._pause = SOON
                self._next = time.perf_counter() + SOON
            self._patience = min(2 * self._patience, MANY)
        self._is_trying = False

    def _pin(self) -> bool:
        """Pin each thread to its own processor from now on; returns False if the system cannot."""
        self._is_pinned = hasattr(os, "sched_setaffinity") and self.count > 1
        self._turn += self.count
        return self._is_pinned


def _pinned(call: Callable[[int, int], None], count: int, turn: int) -> Callable[[int, int], None]:
    """Function `call`, pinned to a processor, as far as possible from the processors of the other `count` threads."""

    def pinned(worker: int, at: int) -> None:
        here = os.sched_getaffinity(0)
        places = sorted(here)
        with suppress(OSError):  # the process lost the processor meanwhile
            os.sched_setaffinity(0, {places[(turn + worker * max(1, len(places) // count)) % len(places)]})
        try:
            call(worker, at)
        finally:
            with suppress(OSError):
                os.sched_setaffinity(0, here)

    return pinned
