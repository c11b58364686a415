"""Softmax regression by five kernels of one's own: the honest trainer, and places at which others differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from runtimes import runtime

from warpladder.trainers.base import State, StepLog, Trainer, check_fit, check_no_weights, check_range, check_samples

BLOCK = 64
CHUNK = 4096  # samples of a prediction at a time


@dataclass(frozen=True)
class Work:
    """Steps of a call: samples of all of them, and of each step where they begin, and how many they are."""

    rows: np.ndarray
    begins: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def steps(self) -> int:
        return len(self.sizes)


class Softmax(Trainer):
    """Trains step by step on one stream, and waits for it at the end of each call."""

    bits = 0  # of factors' fractions; 0 for all
    takes_last = False  # of equal largest outputs

    def __init__(self, net: Any, config: Any, state: State, name: str) -> None:
        self.net, self.config, self.rt = net, config, runtime(name)
        self.inputs, self.classes = int(np.prod(net.in_shape)), net.out_shape[0]
        self.count = net.param_count
        self.buffers: dict[Any, Any] = {}
        self.stream = self.rt.stream
        self.w = self.rt.empty(self.count, np.float32)
        self.set_state(state)

    def room(self, name: str, count: int, dtype: Any) -> Any:
        """Array of this size, which is kept for later calls."""
        key = name, count
        if key not in self.buffers:
            self.buffers[key] = self.rt.empty(count, dtype)
        return self.buffers[key]

    def filled(self, name: str, host: np.ndarray) -> Any:
        array = self.room(name, host.size, host.dtype)
        self.rt.put(array, host.reshape(-1))
        return array

    def load(self, dataset: Any) -> None:
        check_fit(self.net, dataset)
        check_no_weights(dataset, "this rung")
        self.samples = len(dataset.train_x)
        x = dataset.train_x.reshape(self.samples, -1).astype(np.float32) * np.float32(dataset.scale)
        self.x, self.label = self.filled("x", x), self.filled("label", dataset.train_y.astype(np.int32))

    def work(self, order: Any, first: int, last: int) -> Work:
        batch = self.config.batch(order.n)
        ends = [min((step + 1) * batch, order.n) for step in range(first, last)]
        begins = [step * batch for step in range(first, last)]
        rows = order.indices(first * batch, max(ends, default=first * batch)).astype(np.int32)
        sizes = tuple(end - begin for begin, end in zip(begins, ends, strict=True))
        return Work(rows, tuple(begin - first * batch for begin in begins), sizes)

    def run(self, order: Any, first: int, last: int) -> StepLog:
        check_range(self.config, order, self.samples, first, last)
        work = self.work(order, first, last)
        if not work.steps:
            return self.log(work)
        self.bring(work)
        self.train(work)
        return self.log(work)

    def bring(self, work: Work) -> None:
        """Copy what the steps need to the device."""
        rates = self.config.numbers(self.step, self.step + work.steps, self.samples)[:, 0].astype(np.float32)
        self.index, self.rates = self.filled("index", work.rows), self.filled("rates", rates)

    def train(self, work: Work) -> None:
        self.steps(work, 0, work.steps, self.stream)
        self.step += work.steps

    def steps(self, work: Work, first: int, last: int, stream: Any) -> None:
        for step in range(first, last):
            self.one(work, step, stream)

    def one(self, work: Work, step: int, stream: Any) -> None:
        """Queue a step."""
        self.forward(work, step, stream)
        self.learn(work, step, 0, self.count, stream)

    def forward(self, work: Work, step: int, stream: Any, divisor: int = 0) -> None:
        """Queue a step's outputs, their gradients and its losses."""
        rt, at, n, most = self.rt, work.begins[step], work.sizes[step], max(work.sizes)
        z = self.room("z", most * self.classes, np.float32)
        loss, hit = self.room("loss", most, np.float32), self.room("hit", most, np.int32)
        log, hits = self.room("log", work.steps, np.float64), self.room("hits", work.steps, np.int32)
        shape = at, n, self.inputs, self.classes, self.bits
        rt.queue("outputs", n * self.classes, BLOCK, (self.x, self.index, self.w, z, *shape), stream)
        more = at, n, self.classes, divisor or n, int(self.takes_last)
        rt.queue("losses", n, BLOCK, (z, self.label, self.index, loss, hit, *more), stream)
        rt.queue("mean", 32, 32, (loss, hit, log, hits, n, step), stream)

    def learn(self, work: Work, step: int, first: int, last: int, stream: Any) -> None:
        """Queue a step's update of the parameters first to last - 1."""
        z = self.room("z", max(work.sizes) * self.classes, np.float32)
        shape = work.begins[step], work.sizes[step], self.inputs, self.classes, step, first, last
        self.rt.queue("learn", last - first, BLOCK, (self.x, self.index, z, self.w, self.rates, *shape), stream)

    def log(self, work: Work) -> StepLog:
        size = np.array(work.sizes, np.int64)
        if not work.steps:
            return StepLog(np.zeros(0), np.zeros(0, np.int64), size)
        loss, hits = self.room("log", work.steps, np.float64), self.room("hits", work.steps, np.int32)
        return StepLog(self.rt.get(loss), self.rt.get(hits).astype(np.int64), size)

    def state(self) -> State:
        return State(self.rt.get(self.w), {}, self.step)

    def set_state(self, state: State) -> None:
        self.rt.put(self.w, state.params.astype(np.float32))
        self.step = state.step

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        parts = [self.part(x[at : at + CHUNK], scale) for at in range(0, len(x), CHUNK)]
        return np.concatenate([np.zeros((0, self.classes), np.float32), *parts])

    def part(self, x: np.ndarray, scale: float) -> np.ndarray:
        """Outputs of at most CHUNK samples."""
        n = len(x)
        host = np.ascontiguousarray(x).reshape(n, -1).astype(np.float32) * np.float32(scale)
        rows, samples = self.filled("all", np.arange(n, dtype=np.int32)), self.filled("asked", host)
        z = self.room("answers", n * self.classes, np.float32)
        shape = 0, n, self.inputs, self.classes, 0
        self.rt.queue("outputs", n * self.classes, BLOCK, (samples, rows, self.w, z, *shape), self.stream)
        return self.rt.get(z).reshape(n, self.classes)

    def close(self) -> None:
        self.rt.finish(self.stream)
