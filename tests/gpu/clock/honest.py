"""Honest trainers that look odd: streams, events, page-locked buffers, graphs, threads, late work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from trainer import Softmax, Work

from warpladder.trainers.base import StepLog


class TwoStreams(Softmax):
    """Updates weights on one stream and biases on another; the streams wait for each other by events."""

    def train(self, work: Work) -> None:
        rt, other = self.rt, self.rt.new_stream()
        weights = self.classes * self.inputs
        for step in range(work.steps):
            self.forward(work, step, self.stream)
            rt.wait(other, rt.record(self.stream))
            self.learn(work, step, weights, self.count, other)
            self.learn(work, step, 0, weights, self.stream)
            rt.wait(self.stream, rt.record(other))
        self.step += work.steps


class CopiesOnAStream(Softmax):
    """Copies samples' numbers and losses by page-locked buffers on a stream of their own."""

    def pages(self, name: str, count: int, dtype: Any) -> np.ndarray:
        key = "pages", name, count
        if key not in self.buffers:
            self.buffers[key] = self.rt.pinned(count, dtype)
        return self.buffers[key]

    def filled(self, name: str, host: np.ndarray) -> Any:
        if name not in ("index", "rates"):
            return super().filled(name, host)
        rt = self.rt
        self.copies = getattr(self, "copies", None) or rt.new_stream()
        array, pages = self.room(name, host.size, host.dtype), self.pages(name, host.size, host.dtype)
        pages[...] = host
        rt.wait(self.copies, rt.record(self.stream))
        rt.put_queued(array, pages, self.copies)
        rt.wait(self.stream, rt.record(self.copies))
        return array

    def log(self, work: Work) -> StepLog:
        if not work.steps:
            return super().log(work)
        loss, hits = self.pages("log", work.steps, np.float64), self.pages("hits", work.steps, np.int32)
        self.rt.get_queued(loss, self.room("log", work.steps, np.float64), self.stream)
        self.rt.get_queued(hits, self.room("hits", work.steps, np.int32), self.stream)
        self.rt.finish(self.stream)
        return StepLog(loss.copy(), hits.astype(np.int64), np.array(work.sizes, np.int64))


class InAThread(Softmax):
    """Queues all steps from a thread of its own, for which it waits."""

    def run(self, order: Any, first: int, last: int) -> StepLog:
        found: list[StepLog] = []
        thread = threading.Thread(target=lambda: found.append(Softmax.run(self, order, first, last)))
        thread.start()
        thread.join()
        return found[0]


class InAPool(Softmax):
    """Has a thread that stays, and prepares the next call's numbers while the device computes."""

    def train(self, work: Work) -> None:
        self.pool: Any = getattr(self, "pool", None) or ThreadPoolExecutor(1)
        queued = self.pool.submit(super().train, work)
        self.sum = int(work.rows.sum())
        queued.result()

    def close(self) -> None:
        if getattr(self, "pool", None):
            self.pool.shutdown()
        super().close()


class CompilesLate(Softmax):
    """Asks for its kernels at the first step, and has no place for weights before."""

    late: Any
    is_made = False

    def __init__(self, net: Any, config: Any, state: Any, name: str) -> None:
        self.net, self.config, self.late, self.name = net, config, state.copied(), name

    def settled(self) -> None:
        if not self.is_made:
            state = self.late
            super().__init__(self.net, self.config, state, self.name)
            self.is_made, self.late = True, state
        if self.late is not None:
            super().set_state(self.late)
            self.late = None

    def load(self, dataset: Any) -> None:
        self.settled()
        super().load(dataset)

    def run(self, order: Any, first: int, last: int) -> StepLog:
        self.settled()
        return super().run(order, first, last)

    def set_state(self, state: Any) -> None:
        self.late = state.copied()

    def state(self) -> Any:
        return self.late.copied() if self.late is not None else super().state()

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        self.settled()
        return super().predict(x, scale)

    def close(self) -> None:
        if self.is_made:
            super().close()


class InGraphs(Softmax):
    """Queues the steps of a call as one graph, and captures a graph for each number of steps once."""

    def train(self, work: Work) -> None:
        key = "graph", work.begins, work.sizes, id(self.x), id(self.label)
        if key not in self.buffers:
            self.make_room(work)  # nothing may be allocated in a capture
            self.buffers[key] = self.rt.graph(lambda stream: self.steps(work, 0, work.steps, stream))
        self.buffers[key](self.stream)
        self.step += work.steps

    def make_room(self, work: Work) -> None:
        most = max(work.sizes)
        self.room("z", most * self.classes, np.float32)
        for name, count, dtype in (
            ("loss", most, "f4"),
            ("hit", most, "i4"),
            ("log", work.steps, "f8"),
            ("hits", work.steps, "i4"),
        ):
            self.room(name, count, np.dtype(dtype))


class NewBuffers(Softmax):
    """Takes new memory in every call, and frees it at its end."""

    def run(self, order: Any, first: int, last: int) -> StepLog:
        kept = {key: each for key, each in self.buffers.items() if key[0] in ("x", "label")}
        self.buffers = dict(kept)
        log = super().run(order, first, last)
        self.buffers = kept
        return log


class WarmsUp(Softmax):
    """Trains a step in `load`, to compile and to warm caches, and takes it back."""

    def load(self, dataset: Any) -> None:
        from warpladder.data.order import Order

        super().load(dataset)
        before = self.state()
        self.run(Order(1, 0, self.samples, True), 0, 1)
        self.set_state(before)


class StepByStep(Softmax):
    """Waits for every step, and reads its loss."""

    def run(self, order: Any, first: int, last: int) -> StepLog:
        if last - first <= 1:
            return super().run(order, first, last)
        return StepLog.joined([Softmax.run(self, order, step, step + 1) for step in range(first, last)])


HONEST = {
    "plain": Softmax, "two-streams": TwoStreams, "copies-on-a-stream": CopiesOnAStream, "in-a-thread": InAThread,
    "in-a-pool": InAPool, "compiles-late": CompilesLate, "in-graphs": InGraphs, "new-buffers": NewBuffers,
    "warms-up": WarmsUp, "step-by-step": StepByStep,
}  # fmt: skip
