"""Fewer threads than parts: the same bits, and a trainer takes to them where the system has no core for each thread."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from warpladder import TrainConfig, data, nets
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets import Net, params
from warpladder.trainers.base import State
from warpladder.trainers.native.program.job import J_FIRST, J_LAST, J_WORKERS, JOB, RAN, SPAN, STOPPED
from warpladder.trainers.native.threads import workers
from warpladder.trainers.native.threads.workers import FEW, Workers
from warpladder.trainers.native.trainer import NativeTrainer

DIGITS = (1, 8, 8)


def trainer(net: Net, threads: int, batch: int, digits: Dataset) -> NativeTrainer:
    made = NativeTrainer(net, TrainConfig(batch_size=batch, learning_rate=0.01), State(params.initial(net, 0)), threads)
    made.load(digits)
    return made


@pytest.mark.parametrize(
    ("net", "batch", "together"),
    [(nets.mlp(DIGITS), 9, True), (nets.softmax(DIGITS), 100, False), (nets.cnn(DIGITS), 12, False)],
    ids=["mlp", "softmax", "cnn"],
)
def test_fewer_threads_than_parts_give_the_same_bits(
    net: Net, batch: int, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, losses, right answers and predictions of five parts, by five threads to one; the last batch is a partial
    one.
    """
    monkeypatch.setattr(Workers, "_judge", lambda *_: None)
    digits = data.load("digits")
    assert digits.train_y is not None
    digits = replace(digits, train_x=digits.train_x[:130], train_y=digits.train_y[:130])
    found = []
    for count in (5, 3, 2, 1):
        with trainer(net, 5, batch, digits) as made:
            assert made.plan.sharing.together == together
            made._workers.count = count
            made._workers._next = time.perf_counter() + 3600
            made._workers._step = 1.0
            log = made.run(Order(0, 0, 130), 0, made.config.steps(130))
            found.append((made.state().params, log.loss, log.correct, made.predict(digits.test_x, digits.scale)))
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads can be pinned to one core on Linux only")
def test_threads_that_share_one_core_become_one_thread() -> None:
    """And the steps of the ranges that were left early are done once each."""
    digits = data.load("digits")
    here = os.sched_getaffinity(0)
    order, net = Order(0, 0, len(digits.train_x)), nets.mlp(DIGITS)
    with trainer(net, 4, 64, digits) as made, trainer(net, 4, 64, digits) as quiet:
        steps = made.config.steps(order.n)
        quiet._workers._judge = lambda *_: None  # type: ignore[method-assign]
        os.sched_setaffinity(0, {min(here)})  # the threads of the pool, which are made now, are pinned to it as well
        try:
            logs = [made.run(order, 0, steps) for _ in range(20)]
        finally:
            os.sched_setaffinity(0, here)
        assert made._workers.count < 4
        for log in logs:
            np.testing.assert_array_equal(log.loss, quiet.run(order, 0, steps).loss)
        np.testing.assert_array_equal(made.state().params, quiet.state().params)


class Machine:
    """Stands for compiled code, and for the clock, on a machine with so many free cores: a step takes a millisecond of
    each of its threads.
    """

    def __init__(self, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = free
        self.now = 0.0
        self.sync = np.zeros(16, np.int64)
        self.job = np.zeros(JOB, np.int64)
        self.counts: list[int] = []
        self.steps: list[int] = []
        monkeypatch.setattr("warpladder.trainers.native.threads.workers.time.perf_counter", lambda: self.now)

    def __call__(self, worker: int, at: int) -> None:
        assert at == self.job.ctypes.data
        if worker:
            return
        count, first, last = (int(self.job[i]) for i in (J_WORKERS, J_FIRST, J_LAST))
        if count > self.free:
            last = min(last, first + FEW)
            self.sync[STOPPED] = last
        steps = last - first
        self.sync[RAN] = 1_000_000 * steps * count
        self.sync[SPAN] = int(self.sync[RAN] * max(count / self.free, 1))
        self.now += 1e-3 * steps * max(count / self.free, 1)
        self.steps += range(first, last)
        self.counts.append(count)

    def train(self, many: Workers, steps: int) -> list[int]:
        """Threads of each call that the steps took."""
        self.steps, self.counts = [], []
        many.train(self, self.job, self.sync, steps)
        assert self.steps == list(range(steps))
        return self.counts


def test_as_many_threads_run_as_there_are_cores_for(monkeypatch: pytest.MonkeyPatch) -> None:
    many, machine = Workers(16), Machine(16, monkeypatch)
    assert machine.train(many, 1000) == [16]  # one call, as long as all cores are free
    machine.free = 4
    assert set(machine.train(many, 40)) == {16, 4} and many.count == 4
    machine.free = 1
    assert set(machine.train(many, 8)) == {4, 1} and many.count == 1
    machine.now += workers.LATE  # two are tried, and it is still one
    assert set(machine.train(many, 8)) == {2, 1} and many.count == 1
    machine.free = 16
    machine.now += workers.LATE
    counts = [count for _ in range(100) for count in machine.train(many, 10)]
    assert counts == sorted(counts) and set(counts) == {2, 4, 8, 16}
    many.close()


def test_tries_become_rare_where_cores_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    many, machine = Workers(2), Machine(1, monkeypatch)
    tries = []
    while machine.now < 30:
        if 2 in machine.train(many, 1):
            tries.append(machine.now)
    spans = [later - earlier for earlier, later in pairwise(tries) if later - earlier > 0.03]
    assert all(
        span > 0.8 * least for span, least in zip(spans, (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5), strict=False)
    ), spans
    assert len(spans) < 13
    many.close()


def test_too_little_time_is_no_evidence() -> None:
    many = Workers(2)
    many._is_pinned = True
    many._judge(1e-4, 1e-3)
    assert many.count == 2
    many._judge(1e-4, 1e-3)
    assert many.count == 1
    many.close()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads can be pinned to one core on Linux only")
def test_threads_that_the_system_leaves_on_one_processor_are_pinned_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none is pinned afterwards, nor before the clocks show that threads wait."""
    here = os.sched_getaffinity(0)
    many, machine = Workers(2), Machine(1, monkeypatch)
    places: list[set[int]] = []

    def call(worker: int, at: int) -> None:
        mine = os.sched_getaffinity(0)
        places.append(mine)
        machine.free = 1 if mine == here else 2
        machine(worker, at)

    for _ in range(20):
        many.train(call, machine.job, machine.sync, 10)
    assert many.count == 2 and os.sched_getaffinity(0) == here
    if len(here) > 1:
        assert places[0] == here
        one, other = places[-2:]
        assert len(one) == len(other) == 1 and one != other
    many.close()


def test_one_part_is_done_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, machine = Workers(1), Machine(1, monkeypatch)
    assert machine.train(alone, 7) == [1]
    assert machine.train(alone, 0) == []
    alone.close()
