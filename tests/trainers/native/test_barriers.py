"""Barriers that are left out between threads that work together: every order of the threads gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numba import njit
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.nets import CrossEntropyLoss, Linear, MSELoss, Net, ReLU
from warpladder.optimizers import SGD, Adam, Optimizer
from warpladder.trainers.native.compiler.functions import shared
from warpladder.trainers.native.program.barriers import barriers, rows_of_thread
from warpladder.trainers.native.program.job import (
    J_LENGTH,
    J_PARTS,
    J_SECTIONS,
    J_TERMS,
    NO_WAIT_AT_END,
    ROW,
    WAIT,
    BlockWork,
)
from warpladder.trainers.native.program.plan import NativePlan
from warpladder.trainers.native.program.rows import CACHE
from warpladder.trainers.native.threads.run import opened, rows, settings
from warpladder.trainers.native.threads.workers import Workers
from warpladder.trainers.native.trainer import NativeTrainer

THREADS = 3
BATCH = 5  # less than two samples for each of three threads, so that nets this small are trained together
PANELS = 4  # threads that divide mlp's hidden layer by its panels

#: a layer with many and one with few outputs, two of either kind, and a target that is the input
NETS = (
    nets.mlp((1, 5, 5)),
    Net(
        "wide",
        (40,),
        (Linear(out_features=70), ReLU(), Linear(out_features=40), ReLU(), Linear(out_features=10)),
        CrossEntropyLoss(),
    ),
    Net("few", (40,), (Linear(out_features=6), ReLU(), Linear(out_features=4)), CrossEntropyLoss()),
    Net("back", (40,), (Linear(out_features=48), ReLU(), Linear(out_features=40)), MSELoss()),
)


_rows = shared(rows)


@njit
def of_part(at, part, n, add, step, first, last):
    """Run the rows from `first` to before `last` for one part, by its own table; the job's first section is theirs
    afterwards.
    """
    job, _, memory = opened(part, at)
    job[J_SECTIONS], job[J_SECTIONS + 1] = first, last
    inverse = np.float32(1.0 / (max(n, 1) * job[J_TERMS]))
    work = BlockWork(0, part, part, job[J_PARTS], step * BATCH, n, add, step, inverse, settings(job, memory))
    _rows(part, at, work, (0, 0), (part + 1, 1))


def one_after_the_other(trainer: NativeTrainer, orders: Iterator[list[int]]) -> Callable[..., None]:
    """Stands for `Workers.train`: between two waits each part does all that it may, and the parts do so one after the
    other, in the next of `orders`.
    """

    def train(_: object, entry: object, job: np.ndarray, sync: np.ndarray, steps: int) -> None:
        assert job[J_LENGTH] == len(trainer.plan.rows) * ROW and trainer.plan.sharing.together
        for segment in segments(trainer.plan, steps):
            for part in next(orders):
                for step, row, n, add in segment:
                    of_part(job.ctypes.data, part, n, add, step, row, row + 1)

    return train


def segments(plan: NativePlan, steps: int) -> Iterator[list[tuple[int, int, int, int]]]:
    """What a thread does between two waits: step, row, samples, and gradients to sum."""
    sections = plan.sections
    spans = (
        (sections.prepare, 0, 0),
        ((sections.forward[0], sections.backward[1]), BATCH, 0),
        (sections.collect, 0, 0),
        (sections.update, 0, 1),
    )
    segment = []
    for step in range(steps):
        for (begin, end), n, add in spans:
            for row in range(begin, end):
                segment.append((step, row, n, add))
                barrier = plan.rows[row].barrier
                if barrier == WAIT or (row == end - 1 and barrier != NO_WAIT_AT_END):
                    yield segment
                    segment = []
    if segment:
        yield segment


def trained(
    net: Net,
    optimizer: Optimizer,
    monkeypatch: pytest.MonkeyPatch,
    order: str | None,
    seed: int = 0,
    threads: int = THREADS,
) -> np.ndarray:
    """Parameters after three steps; order: of the parts between two waits, or None for threads."""
    drawn = case(net, TrainConfig(batch_size=BATCH, optimizer=optimizer), seed=3, samples=3 * BATCH)
    random = np.random.default_rng(seed)
    parts = list(range(threads))
    choices = {
        "forwards": lambda: parts,
        "backwards": lambda: parts[::-1],
        "drawn": lambda: random.permutation(threads).tolist(),
    }
    with NativeTrainer(net, drawn.config, drawn.state, threads) as trainer, monkeypatch.context() as patched:
        trainer.load(drawn.dataset)
        if order:
            patched.setattr(Workers, "train", one_after_the_other(trainer, iter(choices[order], None)))
        trainer.run(drawn.order, 0, 3)
        return trainer.state().params


@pytest.mark.parametrize("threads", [THREADS, PANELS])
@pytest.mark.parametrize("optimizer", [SGD(0.1), SGD(0.1, momentum=0.9), Adam(0.01)], ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_between_two_waits_no_order_of_the_threads_matters(
    net: Net, optimizer: Optimizer, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = trained(net, optimizer, monkeypatch, None, threads=threads)
    assert np.isfinite(wanted).all()
    for order, seed in (("forwards", 0), ("backwards", 0), ("drawn", 1), ("drawn", 2)):
        np.testing.assert_array_equal(trained(net, optimizer, monkeypatch, order, seed, threads), wanted, order)


@pytest.mark.parametrize("threads", [THREADS, PANELS])
@pytest.mark.parametrize("optimizer", [SGD(0.1), Adam(0.01)], ids=["sgd", "adam"])
def test_every_wait_of_mlp_that_is_left_out_shows(
    optimizer: Optimizer, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wait after the other is left out: some order of the threads then gives other numbers."""
    net = NETS[0]
    wanted = trained(net, optimizer, monkeypatch, "forwards", threads=threads)
    plan = NativePlan(net, TrainConfig(batch_size=BATCH, optimizer=optimizer), threads, BATCH)
    waits = [at for at, row in enumerate(plan.rows) if row.barrier == WAIT]
    assert len(waits) == (2 if threads == PANELS else 3)
    for row in waits:

        def without(rows, sections, samples, row=row):
            flags = barriers(rows, sections, samples)
            assert len(rows) == len(plan.rows)
            flags[row] = NO_WAIT_AT_END
            return flags

        with monkeypatch.context() as patched:
            patched.setattr("warpladder.trainers.native.program.plan.barriers", without)
            found = [
                trained(net, optimizer, monkeypatch, order, threads=threads) for order in ("forwards", "backwards")
            ]
        assert any((each != wanted).any() for each in found), plan.rows[row].operation


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=["sgd", "adam"])
def test_where_threads_of_mlp_wait(optimizer: Optimizer) -> None:
    """After the product that all read, and after the loss; where the hidden layer is not divided by panels, after
    the gradient of it, and at a step's end.
    """

    def waits(threads: int) -> list[str]:
        plan = NativePlan(nets.mlp(), TrainConfig(batch_size=64, optimizer=optimizer), threads, 64)
        return [row.operation for row in plan.rows if row.barrier == WAIT]

    assert waits(2) == waits(8) == ["convolve", "cross_entropy"]
    assert waits(3) == ["convolve", "few_outputs_input_gradient", "sgd" if optimizer == SGD() else "optimizer_loop"]


def test_only_with_one_hidden_layer_a_thread_begins_its_next_step_alone() -> None:
    """A second hidden layer's gradient reads all of the first, which the next step's product would overwrite."""
    two = Net(
        "two",
        (784,),
        (Linear(out_features=256), ReLU(), Linear(out_features=256), ReLU(), Linear(out_features=10)),
        CrossEntropyLoss(),
    )
    for net, threads, last in (
        (nets.mlp(), 2, NO_WAIT_AT_END),
        (nets.mlp(), 1, WAIT),
        (two, 2, WAIT),
        (nets.mlp(), 3, WAIT),
    ):
        plan = NativePlan(net, TrainConfig(batch_size=64), threads, 64)
        assert plan.sharing.together and plan.rows[-1].barrier == last, (net.name, threads)


def test_a_copy_of_the_samples_for_each_thread_where_it_is_small() -> None:
    def samples(net: Net, threads: int, batch: int):
        plan = NativePlan(net, TrainConfig(batch_size=batch), threads, batch)
        return plan, plan.samples

    plan, held = samples(nets.mlp(), 2, 64)
    assert held.copy_stride >= 64 * 784
    tables = [rows_of_thread(thread, plan.rows, held) for thread in range(2)]
    moved = [
        (a.operation, i)
        for a, b in zip(*tables, strict=True)
        for i, (one, other) in enumerate(zip(a.numbers(), b.numbers(), strict=True))
        if one != other
    ]
    assert moved == [("gather_rows", 0), ("convolve", 0), ("weight_gradient", 0)]  # the offset of the first view alone
    assert samples(nets.mlp(), 1, 64)[1].copy_stride == 0  # who is alone has no others to read it
    large = Net("large", (1, 64, 65), (*nets.mlp((1, 64, 65)).layers,), CrossEntropyLoss())
    plan, held = samples(large, 2, 64)
    assert plan.sharing.together and CACHE < 64 * 64 * 65 and held.copy_stride == 0
