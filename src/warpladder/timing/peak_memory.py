"""Peak memory of training with one rung, measured in a separate process.

The peak of the climb's own process would include all rungs and libraries. The process trains on random samples
of the data set's sizes and types.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from .. import ladder
from ..checkpoint import net_from_json, net_to_json
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..errors import RungError
from ..files.python import bring, origins
from ..machine.memory import resident_peak
from ..nets import CrossEntropyLoss, Net
from ..rungs.base import Rung
from ..train import score
from ..trainers.base import State
from .foreign.process import ForeignFault, ForeignProcess
from .foreign.rung import of, spelled
from .parallel_proofs import child_environment
from .task import kinds

LIMIT = 300  # most seconds of a child process
PATIENCE = 3  # seconds of evaluation, after which the rest of the test set is left out


class PeakMemories:
    """Measurements of the peak memory of rungs, in a few concurrent processes; `close` ends those that still run."""

    def __init__(self, net: Net, data: Dataset, config: TrainConfig, at_a_time: int) -> None:
        self.what = net, data, config
        self.pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="memory")
        self.found: dict[str, Future[tuple[int | None, str]]] = {}
        self.children: set[Any] = set()

    def add(self, rung: Rung) -> None:
        """Measure a rung as soon as a process is free, unless it was added before."""
        if rung.name not in self.found:
            self.found[rung.name] = self.pool.submit(peak_rss, rung, *self.what, self.children)

    def settle(self) -> None:
        """Wait for the running processes, and remove the rungs whose process has not begun."""
        for name in [name for name, future in self.found.items() if future.cancel()]:
            del self.found[name]
        wait(self.found.values())

    def result(self, rung: Rung, until: float = math.inf) -> tuple[int | None, str]:
        """Peak memory of an added rung in bytes, or None and the reason, as `peak_rss` returns it; waits for the
        process, up to a time of `perf_counter`.
        """
        try:
            wanted = max(0.0, until - perf_counter())
            return self.found[rung.name].result(wanted if math.isfinite(wanted) else None)
        except TimeoutError:
            return None, "the climb had no time left for it"

    def close(self) -> None:
        """End the processes that measure."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        while not all(each.done() for each in self.found.values()):  # a process may be about to begin
            for child in tuple(self.children):
                child.kill()
            sleep(0.01)
        self.pool.shutdown()


def peak_rss(
    rung: Rung, net: Net, data: Dataset, config: TrainConfig, children: set[Any] | None = None
) -> tuple[int | None, str]:
    """Largest resident set, in bytes, of a process that trains some steps and evaluates; or None and the reason.

    children : set that contains the process while it runs.
    """
    name = spelled(rung)
    if name is None:
        return None, "only a rung of warpladder's ladder, or one from a file, can be built in a process of its own"
    try:
        outside = origins(kinds(net, config))
    except ImportError as error:
        return None, str(error)
    order = {
        "rung": name,
        "net": net_to_json(net),
        "config": config.as_dict(),
        "train": [list(data.train_x.shape), str(data.train_x.dtype)],
        "test": [list(data.test_x.shape), str(data.test_x.dtype)],
        "scale": data.scale,
        "outputs": data.outputs,
        "outside": outside,
    }
    children = set() if children is None else children
    if of(rung) is not None:
        return _foreign_peak(order, children)
    package = str(Path(__file__).parents[2])
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {package!r}); from warpladder.timing.peak_memory import child; child()",
    ]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(
            command, text=True, env=child_environment(), stdin=pipe, stdout=pipe, stderr=pipe
        ) as child:
            children.add(child)
            try:
                out, err = child.communicate(json.dumps(order), timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return None, f"no end after {LIMIT} s"
            finally:
                child.kill()
                children.discard(child)
    except OSError as error:
        return None, f"no new process: {error}"
    if child.returncode != 0:
        return None, (err.strip().splitlines() or [f"the process ended with {child.returncode}"])[-1]
    if not out.strip().isdecimal():
        return None, "the process ended without a figure"
    return int(out), ""


def _foreign_peak(order: dict[str, Any], children: set[Any]) -> tuple[int | None, str]:
    """Peak memory in bytes of a rung from a user's file, in a process with limits; or None and the reason."""
    process = ForeignProcess()
    children.add(process)
    try:
        answer = int(process.request("peak_memory", order))
        return max(answer, process.peak_memory()), ""
    except (RungError, ForeignFault, ValueError, TypeError) as error:
        return None, str(error)
    finally:
        children.discard(process)
        process.close()


def child() -> None:
    """Train the run that standard input describes, and print the peak memory in bytes."""
    print(measured(json.load(sys.stdin)))


def measured(order: dict[str, Any]) -> int:
    """Peak memory of this process in bytes, after some steps of the described run."""
    bring(order["outside"])
    net, config = net_from_json(order["net"]), TrainConfig.from_dict(order["config"])
    classes = net.out_shape[0] if isinstance(net.loss, CrossEntropyLoss) else None
    train_x, train_y = _random(order["train"], classes, order["outputs"])
    test_x, test_y = _random(order["test"], classes, order["outputs"])
    data = Dataset("random", train_x, train_y, test_x, test_y, order["scale"])
    with ladder.find(order["rung"]).build(net, config, State.drawn(net, config)) as trainer:
        trainer.load(data)
        last = config.steps(len(train_x))
        for epoch in dict.fromkeys((0, config.loss_every - 1)):  # without losses, if an epoch has none, and with them
            samples = Order(config.seed, epoch, len(train_x), config.shuffle)
            trainer.run(samples, 0, 1)
        start = perf_counter()
        trainer.run(samples, last - 1, last)
        per_sample = (perf_counter() - start) / (len(train_x) - (last - 1) * config.batch(len(train_x)))
        some = min(len(test_x), max(1, int(PATIENCE / per_sample)))
        if some:
            score(trainer, data.test_x[:some], None if data.test_y is None else data.test_y[:some], data.scale)
        return resident_peak()


def _random(what: tuple[list[int], str], classes: int | None, outputs: int) -> tuple[np.ndarray, np.ndarray | None]:
    shape, dtype = what
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, shape, np.uint8) if dtype == "uint8" else rng.random(shape, np.float32)
    if outputs:
        return x, rng.random((shape[0], outputs), np.float32)
    return x, None if classes is None else rng.integers(0, classes, shape[0], np.int32)
