"""Many processes that train at once, as of a class on one server: native with all its threads against native with one
thread in each process.

Used by cpu.py. The processes are started, and have trained a little, before the clock runs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

PROCESSES = 30
SECONDS = 0.4  # that one process alone with one thread trains
LIMIT = 1.3  # most that the time with all threads in each process may be, over that with one thread in each

#: A process: it trains mlp on digits for as many epochs as each line of standard input states.
PROGRAM = """
import sys
from warpladder import TrainConfig, data, nets, params
from warpladder.ladder import find
from warpladder.data.order import Order
from warpladder.trainers.base import State

digits = data.load("digits")
net, config = nets.mlp((1, 8, 8)), TrainConfig(batch_size=64, learning_rate=1e-3)
order = Order(0, 0, len(digits.train_x))
with find(sys.argv[1]).build(net, config, State(params.initial(net, 0))) as trainer:
    trainer.load(digits)
    trainer.run(order, 0, config.steps(order.n))
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            trainer.run(order, 0, config.steps(order.n))
        print("done", flush=True)
"""


class Crowd:
    """Processes that wait to train with the same rung."""

    def __init__(self, rung: str, count: int) -> None:
        command = [sys.executable, "-c", PROGRAM, rung]
        self.processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for _ in range(count)
        ]
        self._heard("ready", count)

    def train(self, count: int, epochs: int) -> float:
        """Seconds until the first `count` processes have all trained."""
        before = time.perf_counter()
        for process in self.processes[:count]:
            assert process.stdin is not None
            print(epochs, file=process.stdin, flush=True)
        self._heard("done", count)
        return time.perf_counter() - before

    def _heard(self, word: str, count: int) -> None:
        for process in self.processes[:count]:
            assert process.stdout is not None
            if process.stdout.readline().strip() != word:
                command, status = " ".join(process.args[:1]), process.wait()
                raise RuntimeError(f"a process that should train ended early: {command}, exit status {status}")

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def crowd(rounds: int) -> dict[str, Any]:
    """Seconds of all rounds, by processes and threads; `ratio` is the median of the crowd's time with all threads over
    its time with one thread each.
    """
    first = Crowd("native:threads=1", 1)  # leaves compiled code for the others
    first.close()
    one, every = Crowd("native:threads=1", PROCESSES), Crowd("native", PROCESSES)
    try:
        epochs = 1
        while (took := one.train(1, epochs)) < SECONDS / 4:
            epochs *= 2
        epochs = max(1, round(epochs * SECONDS / took))
        kinds = {
            "1 process, 1 thread": (one, 1), "1 process, all threads": (every, 1),
            "2 processes, 1 thread each": (one, 2), "2 processes, all threads each": (every, 2),
            f"{PROCESSES} processes, 1 thread each": (one, PROCESSES),
            f"{PROCESSES} processes, all threads each": (every, PROCESSES),
        }  # fmt: skip
        seconds: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, (group, count) in kinds.items():
                seconds[name].append(group.train(count, epochs))
    finally:
        one.close()
        every.close()
    together, alone = (seconds[f"{PROCESSES} processes, {threads} each"] for threads in ("all threads", "1 thread"))
    ratio = statistics.median(a / b for a, b in zip(together, alone, strict=True))
    return {"epochs": epochs, "seconds": seconds, "ratio": ratio, "limit": LIMIT, "met": ratio <= LIMIT}
