"""The native trainer's register tiles: their machine code, and outputs that fill no whole vector."""

from __future__ import annotations

import numpy as np
import pytest
from innermost_loops import innermost
from numba import njit
from strategies import case

from warpladder.config import TrainConfig
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.ops.jit.target import target
from warpladder.optimizers import SGD, Adam, Optimizer
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.native.compiler.vectors import LANES, VECTORS, WIDE
from warpladder.trainers.native.kernels.convolution import broad_rows
from warpladder.trainers.native.kernels.matmul_tile import NO_STEP, make_tile
from warpladder.trainers.native.kernels.tile_sizes import ADD, BROAD_ROWS, ROWS, STEP, STORE, ZERO
from warpladder.trainers.native.program.plan import NativePlan
from warpladder.trainers.native.trainer import NativeTrainer


@pytest.mark.parametrize("strided", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_gradients_tile_has_all_that_it_counts_in_registers(strided: bool) -> None:
    """An argument is the distance of its rows; LLVM would step a pointer for each of them, and keep these on the
    stack.
    """
    tile = make_tile(ROWS, VECTORS, (ZERO, ADD), (STORE, STEP), strided)

    @njit
    def gradient(at, a, a_k, a_run, b, b_k, b_run, length, runs, c, ends, tiles):
        for m in range(0, tiles * ROWS, ROWS):
            left, right = (a, 0, a_k, a_run), (b, 0, b_k, b_run, LANES)
            tile((at, 64, m), left, right, (length, runs), (c, 0, LANES), (ends[0], c, 0, ends[1], c, 0), NO_STEP)

    floats = np.zeros(4 * LANES, np.float32)
    gradient(np.zeros(3 * 64, np.int64), floats, 1, 1, floats, 1, 1, 1, 1, floats, (ZERO, STORE), 1)
    loops = [loop for assembly in gradient.inspect_asm().values() for loop in innermost(assembly) if "vfmadd" in loop]
    if not loops:
        pytest.skip("no x86-64 with FMA, whose assembly this test reads")
    assert all(loop.count("vfmadd") % (ROWS * VECTORS) == 0 for loop in loops)
    assert not any("imul" in loop for loop in loops)  # how far k has come is added up
    if strided or (
        WIDE and target()[0].startswith("znver")
    ):  # for other cores LLVM weighs otherwise; and six rows leave registers enough here
        assert any("%rsp" in loop for loop in loops) != strided


@pytest.mark.parametrize(("first", "last"), [(12, 3), (130, 22)])
@pytest.mark.by_day("130-22")
def test_few_outputs_of_any_number_leave_their_neighbours_alone(first: int, last: int) -> None:
    """Layers with few outputs are stored a vector at a time, of which some lanes belong to the next sample or to
    padding, which must stay zero.
    """
    net = Net(
        "few",
        (1, 9, 16),
        (Flatten(), Linear(out_features=first), ReLU(), Linear(out_features=last)),
        CrossEntropyLoss(),
    )

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    verdict = verify(build, net, TrainConfig(batch_size=7, learning_rate=1e-2), bitwise=True)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("optimizer", "operation"), [(SGD(0.1), "weight_gradient"), (Adam(0.1), "weight_step")])
def test_weights_are_stepped_by_the_thread_that_multiplies_by_them(optimizer: Optimizer, operation: str) -> None:
    """Two threads with three panels each, a pair and one alone, end in the bits of one thread."""
    net = Net(
        "panels", (1, 5, 10), (Flatten(), Linear(out_features=96), ReLU(), Linear(out_features=10)), CrossEntropyLoss()
    )
    drawn = case(net, TrainConfig(batch_size=1, optimizer=optimizer), seed=3, samples=5)
    ended = []
    for threads, divided in ((1, True), (2, True), (4, False)):
        rows = {row.operation: row.operands for row in NativePlan(net, drawn.config, threads, 1).rows}
        assert bool(rows[operation].by_panel) == divided
        with NativeTrainer(net, drawn.config, drawn.state, threads) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 5)
            ended.append(trainer.state().bits())
    assert ended[1:] == ended[:1] * 2


def test_tiles_of_six_rows_leave_whole_tiles_of_eight() -> None:
    """A row that does not count repeats one of its own tile: a tile of nothing but repeated rows would step weights a
    second time.
    """
    assert not any(broad_rows.py_func(rows) for rows in range(-ROWS, BROAD_ROWS))
    for rows in range(1, 300):
        taken = broad_rows.py_func(rows)
        padded = -(-rows // ROWS) * ROWS
        assert taken % BROAD_ROWS == 0 and 0 <= taken <= rows and (padded - taken) % ROWS == 0
    assert [broad_rows.py_func(rows) for rows in (64, 96, 784)] == ([48, 96, 768] if ROWS == 8 else [60, 96, 780])


@pytest.mark.parametrize("inputs", [41, 48, 54, 96, 100])
@pytest.mark.parametrize("outputs", [64, 80, 112])
@pytest.mark.by_day("64-41")
def test_layers_of_four_panels_and_more_step_each_weight_once(inputs: int, outputs: int) -> None:
    """Four panels, five and seven; inputs that tiles of six and of eight rows divide differently, and two threads by
    panels and by rows.
    """
    net = Net("fours", (inputs,), (Linear(out_features=outputs), ReLU(), Linear(out_features=10)), CrossEntropyLoss())

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 2)

    for batch in (1, 6, 7, 30):
        verdict = verify(build, net, TrainConfig(batch_size=batch, learning_rate=1e-2))
        assert verdict.passed, (batch, verdict.reason)
