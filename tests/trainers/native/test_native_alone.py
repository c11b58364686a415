"""What threads that work together do without waiting for each other: in every order in which they could, to the same
bits.
"""

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
from warpladder.trainers.native.program import alone
from warpladder.trainers.native.program.job import (
    GOES_ON,
    J_LENGTH,
    J_PARTS,
    J_SECTIONS,
    J_TERMS,
    OPERANDS,
    TO_NEXT_STEP,
    Call,
)
from warpladder.trainers.native.program.plan import CACHE, Plan
from warpladder.trainers.native.threads.run import _opened, run
from warpladder.trainers.native.threads.workers import Workers
from warpladder.trainers.native.trainer import NativeTrainer

THREADS = 3
BATCH = 5  # less than two samples for each of three threads, so that nets this small are trained together
PANELS = 4  # threads that divide mlp's hidden layer by its panels

#: a wide and a thin layer, two wide ones, two thin ones, and a target that is the input
NETS = (
    nets.mlp((1, 5, 5)),
    Net(
        "wide",
        (40,),
        (Linear(out_features=70), ReLU(), Linear(out_features=40), ReLU(), Linear(out_features=10)),
        CrossEntropyLoss(),
    ),
    Net("thin", (40,), (Linear(out_features=6), ReLU(), Linear(out_features=4)), CrossEntropyLoss()),
    Net("back", (40,), (Linear(out_features=48), ReLU(), Linear(out_features=40)), MSELoss()),
)


@njit
def of_part(at, part, n, add, step, first, last):
    """Run the rows from `first` to before `last` for one part, by its own table; the job's first section is theirs
    afterwards.
    """
    job, program, memory, settings = _opened(part, at)
    job[J_SECTIONS], job[J_SECTIONS + 1] = first, last
    inverse = np.float32(1.0 / (max(n, 1) * job[J_TERMS]))
    run(
        program,
        job,
        0,
        0,
        memory,
        Call(0, part, part, job[J_PARTS], step * BATCH, n, add, step, inverse, settings),
        part + 1,
        1,
    )


def one_after_the_other(trainer: NativeTrainer, orders: Iterator[list[int]]) -> Callable[..., None]:
    """Stands for `Workers.train`: between two waits each part does all that it may, and the parts do so one after the
    other, in the next of `orders`.
    """

    def train(_: object, entry: object, job: np.ndarray, sync: np.ndarray, steps: int) -> None:
        assert job[J_LENGTH] == len(trainer.plan.rows) * OPERANDS and trainer.plan.together
        for segment in segments(trainer.plan, steps):
            for part in next(orders):
                for step, row, n, add in segment:
                    of_part(job.ctypes.data, part, n, add, step, row, row + 1)

    return train


def segments(plan: Plan, steps: int) -> Iterator[list[tuple[int, int, int, int]]]:
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
                goes_on = plan.rows[row][1][GOES_ON]
                if not goes_on or (row == end - 1 and goes_on != TO_NEXT_STEP):
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
    plan = Plan(net, TrainConfig(batch_size=BATCH, optimizer=optimizer), threads, BATCH)
    waits = [row for row, (_, operands) in enumerate(plan.rows) if not operands[GOES_ON]]
    assert len(waits) == (2 if threads == PANELS else 3)
    for row in waits:
        marked = alone.go_on

        def without(rows, sections, samples, row=row, marked=marked):
            marked(rows, sections, samples)
            if len(rows) == len(plan.rows):  # a plan is first made without steps in the gradients
                rows[row][1][GOES_ON] = TO_NEXT_STEP

        with monkeypatch.context() as patched:
            patched.setattr("warpladder.trainers.native.program.plan.go_on", without)
            found = [
                trained(net, optimizer, monkeypatch, order, threads=threads) for order in ("forwards", "backwards")
            ]
        assert any((each != wanted).any() for each in found), plan.rows[row][0]


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=["sgd", "adam"])
def test_where_threads_of_mlp_wait(optimizer: Optimizer) -> None:
    """Behind the product that all read, and behind the loss; where the hidden layer is not divided by panels, behind
    the gradient of it, and at a step's end.
    """

    def waits(threads: int) -> list[str]:
        plan = Plan(nets.mlp(), TrainConfig(batch_size=64, optimizer=optimizer), threads, 64)
        return [does for does, operands in plan.rows if not operands[GOES_ON]]

    assert waits(2) == waits(8) == ["convolve", "cross_entropy"]
    assert waits(3) == ["convolve", "thin_input_gradient", "sgd" if optimizer == SGD() else "by_rule"]


def test_only_with_one_hidden_layer_a_thread_begins_its_next_step_alone() -> None:
    """A second hidden layer's gradient reads all of the first, which the next step's product would overwrite."""
    two = Net(
        "two",
        (784,),
        (Linear(out_features=256), ReLU(), Linear(out_features=256), ReLU(), Linear(out_features=10)),
        CrossEntropyLoss(),
    )
    for net, threads, last in ((nets.mlp(), 2, TO_NEXT_STEP), (nets.mlp(), 1, 0), (two, 2, 0), (nets.mlp(), 3, 0)):
        plan = Plan(net, TrainConfig(batch_size=64), threads, 64)
        assert plan.together and plan.rows[-1][1][GOES_ON] == last, (net.name, threads)


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
