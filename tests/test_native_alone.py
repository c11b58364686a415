"""What threads that work together do without waiting for each other: in every order in which they could, to the same bits."""

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
from warpladder.trainers.native import alone
from warpladder.trainers.native.plan import CACHE, Plan
from warpladder.trainers.native.program import GOES_ON, J_LENGTH, J_PARTS, J_SECTIONS, J_TERMS, OPERANDS, Call, Sections
from warpladder.trainers.native.run import _opened, run
from warpladder.trainers.native.trainer import NativeTrainer
from warpladder.trainers.native.workers import Workers

THREADS = 3
BATCH = 5  # less than two samples for each thread, so that nets this small are trained together

#: a wide and a thin layer, two wide ones, two thin ones, and a target that is the input
NETS = (
    nets.mlp((1, 5, 5)),
    Net("wide", (40,), (Linear(out_features=70), ReLU(), Linear(out_features=40), ReLU(), Linear(out_features=10)), CrossEntropyLoss()),
    Net("thin", (40,), (Linear(out_features=6), ReLU(), Linear(out_features=4)), CrossEntropyLoss()),
    Net("back", (40,), (Linear(out_features=48), ReLU(), Linear(out_features=40)), MSELoss()),
)


@njit
def of_part(at, part, n, add, step, first, last):
    """Run the rows from `first` to before `last` for one part, by its own table; the job's first section is theirs afterwards."""
    job, program, memory, settings = _opened(part, at)
    job[J_SECTIONS], job[J_SECTIONS + 1] = first, last
    inverse = np.float32(1.0 / (max(n, 1) * job[J_TERMS]))
    run(program, job, 0, 0, memory, Call(0, part, part, job[J_PARTS], step * BATCH, n, add, step, inverse, settings), part + 1, 1)


def one_after_the_other(trainer: NativeTrainer, orders: Iterator[list[int]]) -> Callable[..., None]:
    """Stands for `Workers.train`: between two waits each part does all that it may, and the parts do so one after the other, in the next of `orders`."""

    def train(_: object, entry: object, job: np.ndarray, sync: np.ndarray, steps: int) -> None:
        sections = Sections(*trainer.plan.sections)
        rows = trainer.plan.rows
        assert job[J_LENGTH] == len(rows) * OPERANDS and trainer.plan.together
        for step in range(steps):
            spans = (
                (sections.prepare, 0, 0),
                ((sections.forward[0], sections.backward[1]), BATCH, 0),
                (sections.collect, 0, 0),
                (sections.update, 0, 1),
            )
            for (begin, end), n, add in spans:
                for first, last in segments([operands[GOES_ON] for _, operands in rows], begin, end):
                    for part in next(orders):
                        of_part(job.ctypes.data, part, n, add, step, first, last)

    return train


def segments(goes_on: list[int], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The rows between two waits."""
    first = begin
    for row in range(begin, end):
        if not goes_on[row] or row == end - 1:
            yield first, row + 1
            first = row + 1


def trained(net: Net, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch, order: str | None, seed: int = 0) -> np.ndarray:
    """Parameters after three steps; order: of the parts between two waits, or None for threads."""
    drawn = case(net, TrainConfig(batch_size=BATCH, optimizer=optimizer), seed=3, samples=3 * BATCH)
    random = np.random.default_rng(seed)
    choices = {"forwards": lambda: [0, 1, 2], "backwards": lambda: [2, 1, 0], "drawn": lambda: random.permutation(THREADS).tolist()}
    with NativeTrainer(net, drawn.config, drawn.state, THREADS) as trainer, monkeypatch.context() as patched:
        trainer.load(drawn.dataset)
        if order:
            patched.setattr(Workers, "train", one_after_the_other(trainer, iter(choices[order], None)))
        trainer.run(drawn.order, 0, 3)
        return trainer.state().params


@pytest.mark.parametrize("optimizer", [SGD(0.1), SGD(0.1, momentum=0.9), Adam(0.01)], ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_between_two_waits_no_order_of_the_threads_matters(net: Net, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = trained(net, optimizer, monkeypatch, None)
    assert np.isfinite(wanted).all()
    for order, seed in (("forwards", 0), ("backwards", 0), ("drawn", 1), ("drawn", 2)):
        np.testing.assert_array_equal(trained(net, optimizer, monkeypatch, order, seed), wanted, order)


def test_every_wait_of_mlp_that_is_left_out_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wait after the other is left out inside forward and backward pass: some order of the threads then gives other numbers."""
    net = NETS[0]
    wanted = trained(net, SGD(0.1), monkeypatch, "forwards")
    plan = Plan(net, TrainConfig(batch_size=BATCH, optimizer=SGD(0.1)), THREADS, BATCH)
    begin, end = plan.sections.forward[0], plan.sections.backward[1]
    waits = [row for row in range(begin, end - 1) if not plan.rows[row][1][GOES_ON]]
    assert len(waits) == 2
    for row in waits:
        marked = alone.go_on

        def without(rows, samples, row=row, marked=marked):
            marked(rows, samples)
            rows[row][1][GOES_ON] = 1

        with monkeypatch.context() as patched:
            patched.setattr("warpladder.trainers.native.plan.go_on", without)
            found = [trained(net, SGD(0.1), monkeypatch, order) for order in ("forwards", "backwards")]
        assert any((each != wanted).any() for each in found), plan.rows[row][0]


def test_where_threads_of_mlp_wait() -> None:
    """Behind the product that all read, before weights are stepped, and at the end: the rest a thread does alone."""
    plan = Plan(nets.mlp(), TrainConfig(batch_size=64), 2, 64)
    assert [does for does, operands in plan.rows if not operands[GOES_ON]] == ["convolve", "thin_input_gradient", "bias_gradient", "sgd"]


def test_a_copy_of_the_samples_for_each_thread_where_it_is_small() -> None:
    def samples(net: Net, threads: int, batch: int):
        plan = Plan(net, TrainConfig(batch_size=batch), threads, batch)
        return plan, plan.values[plan.enter]

    plan, held = samples(nets.mlp(), 2, 64)
    assert held.apart >= 64 * 784
    tables = [alone.rows_of(thread, plan.rows, held) for thread in range(2)]
    moved = [(a[0], i) for a, b in zip(*tables, strict=True) for i in range(len(a[1])) if a[1][i] != b[1][i]]
    assert moved == [("gather_rows", 0), ("convolve", 0), ("weight_gradient", 0)]  # the offset of the first view alone
    assert samples(nets.mlp(), 1, 64)[1].apart == 0  # who is alone has no others to read it
    large = Net("large", (1, 64, 65), (*nets.mlp((1, 64, 65)).layers,), CrossEntropyLoss())
    plan, held = samples(large, 2, 64)
    assert plan.together and CACHE < 64 * 64 * 65 and held.apart == 0
