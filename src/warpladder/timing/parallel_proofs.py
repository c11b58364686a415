"""Concurrent proofs in separate processes, which are paused while something is timed.

A process that passes a rung has proven the same code on the same data as this process would. Any other outcome is no
verdict, since several processes share a device's memory: the rung is proven again in this process.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import Condition
from time import perf_counter
from typing import Any

import numpy as np

from .. import ladder
from ..checkpoint import net_from_json, net_to_json
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ResultsError
from ..files.python import bring, origins
from ..proof import SEED, run_seed
from ..results import Checked
from ..results.reader import read, read_json
from ..rungs.base import Rung
from .rung_proof import prove_rung
from .task import ClimbTask, kinds, proven_with

LIMIT = 180.0  # seconds that a process may run; pauses do not count
MAX_WAIT = 1e6  # seconds, since a queue takes no infinite time
MOST = 16  # concurrent processes: each holds a copy of the data, and those of GPU rungs a context

#: Signals that pause, continue and end a group of processes; None if the system lacks them.
STOP, GO_ON, END = (getattr(signal, name, None) for name in ("SIGSTOP", "SIGCONT", "SIGKILL"))
CAN_PAUSE = STOP is not None

#: Waiting threads of BLAS and OpenMP sleep at once and leave the cores to other processes. It changes no bit.
ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


def child_environment() -> dict[str, str]:
    """Environment variables of a concurrent process; variables that the user has set are unchanged."""
    return {**ASLEEP, **os.environ}


class ConcurrentProofs:
    """Proofs of the package's rungs, each in a separate process. They can be paused while something is timed.

    at_a_time : number of concurrent processes.
    waiting : names of the rungs without a verdict yet.
    """

    def __init__(self, task: ClimbTask, at_a_time: int) -> None:
        """Write a copy of the data set for the processes; raises `OSError` if the disk is full."""
        self.task, self.waiting = task, set[str]()
        self._children: dict[subprocess.Popen[str], str] = {}
        self._dropped: set[str] = set()
        self._verdicts: SimpleQueue[tuple[str, Checked | None]] = SimpleQueue()
        self._running = Condition()
        self._is_paused = self._is_closed = False
        self._stopped_at = self._stopped = 0.0  # time of the last pause's begin, and seconds of all that have ended
        self._folder = TemporaryDirectory(prefix="warpladder-")
        self._path, data = Path(self._folder.name, "data.npz"), task.data
        labels: dict[str, Any] = {} if data.train_y is None else {"y": data.train_y}
        try:
            np.savez(self._path, x=data.train_x, scale=np.float64(data.scale), **labels)
        except BaseException:
            self._folder.cleanup()
            raise
        self._pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="proving")

    def add(self, rungs: Iterable[Rung]) -> None:
        """Prove further rungs, in this order, after those added before."""
        for rung in rungs:
            self.waiting.add(rung.name)
            self._pool.submit(self._conclude, rung)

    def next(self, until: float = math.inf) -> tuple[str, Checked | None] | None:
        """Name of a rung whose process has ended, and its verdict: None if the process did not pass the rung.

        until : time of `perf_counter` until which it waits; the result is None if no process ends before.
        """
        if not self.waiting:
            return None
        name = ""
        while name not in self.waiting:  # a dropped rung's process may have ended
            try:
                name, checked = self._verdicts.get(timeout=min(max(0.0, until - perf_counter()), MAX_WAIT))
            except Empty:
                return None
        self.waiting.discard(name)
        return name, checked if checked is not None and checked.passed else None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause all processes in this context: they use no processor and send nothing to a GPU."""
        self._signal(STOP, is_paused=True)
        try:
            yield
        finally:
            self._signal(GO_ON, is_paused=False)

    def drop(self, names: set[str]) -> None:
        """End the proofs of these rungs, or prevent their start; `next` returns no verdict for them."""
        with self._running:
            self.waiting -= names
            self._dropped |= names
            self._send(END, [child for child, name in self._children.items() if name in names])

    def close(self) -> None:
        """End all proof processes."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._signal(END, is_paused=False)
        self._pool.shutdown()
        self._folder.cleanup()

    def _signal(self, number: int | None, is_paused: bool) -> None:
        with self._running:
            if is_paused and not self._is_paused:
                self._stopped_at = perf_counter()
            elif self._is_paused and not is_paused:
                self._stopped += perf_counter() - self._stopped_at
            self._is_paused = is_paused
            self._send(number, self._children)
            self._running.notify_all()

    def _send(self, number: int | None, children: Iterable[subprocess.Popen[str]]) -> None:
        """Send a signal to the groups of some processes."""
        for child in children:
            with suppress(OSError):
                if number is not None:
                    os.killpg(child.pid, number)
                elif self._is_closed or self._children.get(child) in self._dropped:
                    child.kill()

    def _running_seconds(self) -> float:
        """Seconds of a clock that does not run while the processes are paused."""
        with self._running:
            now = perf_counter()
            return (self._stopped_at if self._is_paused and CAN_PAUSE else now) - self._stopped * CAN_PAUSE

    def _output(self, process: subprocess.Popen[str], text: str | None) -> str:
        """Output of a process after `text` was sent to it. Raises `TimeoutExpired` after LIMIT seconds without
        pauses.
        """
        end = self._running_seconds() + LIMIT
        while (left := end - self._running_seconds()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(text, timeout=left)[0]
            text = None  # it is sent
            with self._running:
                self._running.wait_for(lambda: not self._is_paused)
        raise subprocess.TimeoutExpired("a proof", LIMIT)

    def _conclude(self, rung: Rung) -> None:
        checked = None
        try:
            checked = self._prove(rung)
        finally:
            self._verdicts.put((rung.name, checked))

    def _prove(self, rung: Rung) -> Checked | None:
        """Verdict of a separate process about a rung; None if the process gives none."""
        config, cut = proven_with(rung, self.task)
        try:
            outside = origins(kinds(self.task.net, config))
        except ImportError:
            return None
        order = {
            "rung": rung.name,
            "net": net_to_json(self.task.net),
            "config": config.as_dict(),
            "data": str(self._path),
            "outside": outside,
        }
        try:
            process = self._begin(rung.name)
            if process is None:
                return None
            with process:
                try:
                    out = self._output(process, json.dumps(order))
                finally:
                    process.kill()
                    with self._running:
                        self._children.pop(process, None)
            checked: Checked = read(Checked, read_json(out.splitlines()[-1].encode() if out.strip() else b""), "")
        except (OSError, subprocess.TimeoutExpired, ResultsError):
            return None
        return Checked(checked.passed, checked.error, checked.bound, checked.reason + cut, checked.seconds)

    def _begin(self, name: str) -> subprocess.Popen[str] | None:
        """Process that waits for its order, started when the proofs are not paused; None if this proof was ended."""
        package = str(Path(__file__).parents[2])
        place = f"import sys; sys.path.insert(0, {package!r})"
        program = f"{place}; from warpladder.timing.parallel_proofs import child; child()"
        with self._running:
            self._running.wait_for(lambda: not self._is_paused)
            if self._is_closed or name in self._dropped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"OPENBLAS_NUM_THREADS": "1", **child_environment(), SEED: str(run_seed())},  # as `prove_rung`
                start_new_session=True,
            )
            self._children[process] = name
            return process


def child() -> None:
    """Prove the rung that standard input describes, and print the verdict."""
    order = json.load(sys.stdin)
    bring(order["outside"])
    rung, config = ladder.find(order["rung"]), TrainConfig.from_dict(order["config"])
    with np.load(order["data"], allow_pickle=False) as arrays:
        x, y, scale = arrays["x"], arrays.get("y"), float(arrays["scale"])
    data = Dataset("the climb's", x, y, x[:1].copy(), None, scale)
    verdict = prove_rung(rung, net_from_json(order["net"]), config, data)
    error, bound = (value if np.isfinite(value) else None for value in map(float, (verdict.error, verdict.bound)))
    print(
        json.dumps(
            asdict(Checked(verdict.passed, error, bound, " ".join(verdict.reason.split())[:400], verdict.seconds))
        )
    )
