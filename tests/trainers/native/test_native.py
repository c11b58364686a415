"""The native trainer's own parts: threads, the two sharings of work, layouts, and vector code."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from strategies import ZOO, Case, case

from warpladder import data, nets, train
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, Upsample2d, params
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.proof import verify
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.trainers.base import State, StepLog
from warpladder.trainers.native.compiler.functions import shared
from warpladder.trainers.native.program.fuse import fuse
from warpladder.trainers.native.program.job import ARRIVED, GENERATION, SLEEPERS
from warpladder.trainers.native.program.layout import WeightLayout
from warpladder.trainers.native.program.memory import Pages, padded_bytes
from warpladder.trainers.native.program.plan import NativePlan
from warpladder.trainers.native.program.rows import BY_LOOP, IN_REGISTERS
from warpladder.trainers.native.threads.barrier import SPINS, atomic_add, atomic_load, barrier
from warpladder.trainers.native.trainer import NativeTrainer

SETTINGS = TrainConfig(batch_size=8, learning_rate=1e-2)


def trained(drawn: Case, threads: int | None = None, **changes: object) -> tuple[State, np.ndarray]:
    """State and losses after an epoch."""
    with NativeTrainer(drawn.net, drawn.config.but(**changes), drawn.state, threads) as trainer:
        trainer.load(drawn.dataset)
        log = trainer.run(drawn.order, 0, drawn.steps)
        return trainer.state(), log.loss


def distance(found: State, wanted: State) -> float:
    return float(np.linalg.norm(found.params - wanted.params) / np.linalg.norm(wanted.params))


def test_like_terms_are_added_in_two_levels() -> None:
    """Six thousand times the same image: a weight's gradient has 1.5 million like terms, which one accumulator is off
    by more than the bound.
    """
    net = Net(
        "edges",
        (1, 16, 16),
        (Conv2d(out_channels=2, kernel_size=3, padding=1), ReLU(), Flatten(), Linear(out_features=2)),
        CrossEntropyLoss(),
    )
    x, y = np.full((6000, *net.in_shape), 77, np.uint8), np.zeros(6000, np.int32)
    like, config = (
        data.Dataset("like", x, y, x[:1], y[:1], 1 / 255),
        TrainConfig(batch_size=None, learning_rate=1.0, shuffle=False),
    )
    start, moved = State(params.initial(net, 3)), []
    for trainer in (NativeTrainer(net, config, start, 1), ReferenceTrainer(net, config, start)):
        with trainer:
            trainer.load(like)
            trainer.run(Order(0, 0, len(x)), 0, 1)
            moved.append(params.views(net, np.asarray(trainer.state().params, np.float64) - start.params))
    for name in ("0.weight", "0.bias"):
        error = np.linalg.norm(moved[0][name] - moved[1][name]) / np.linalg.norm(moved[1][name])
        assert error < bound("float32", len(x) * 256) / 2, name


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
def test_any_number_of_threads(net: Net, threads: int) -> None:
    """More threads than cores, and than the last batch has samples: every time the same bits, and the same numbers as
    one thread.
    """
    drawn = case(net, SETTINGS, seed=1, samples=18)
    first, again, alone = trained(drawn, threads=threads), trained(drawn, threads=threads), trained(drawn, threads=1)
    assert first[0].params.tobytes() == again[0].params.tobytes()
    assert first[1].tolist() == again[1].tolist()
    assert distance(first[0], alone[0]) <= bound("float32", 1000, steps=drawn.steps)


def test_losses_of_many_threads_are_added_alike_in_calls_of_any_length() -> None:
    """Sixteen threads' parts of a loss: NumPy adds eight or more numbers in pairs, but row after row where there are
    several steps.
    """
    drawn = case(nets.softmax((1, 8, 8)), SETTINGS.but(batch_size=64), seed=4, samples=320)
    with NativeTrainer(drawn.net, drawn.config, drawn.state, 16) as trainer:
        trainer.load(drawn.dataset)
        together = trainer.run(drawn.order, 0, 5)
        trainer.set_state(drawn.state)
        single = StepLog.joined([trainer.run(drawn.order, step, step + 1) for step in range(5)])
    assert together.loss.tobytes() == single.loss.tobytes() and together.correct.tolist() == single.correct.tolist()


def test_the_two_ways_to_share_work_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(nets.cnn((1, 10, 10)), SETTINGS, seed=2, samples=24)
    separate = trained(drawn, threads=2)
    assert not NativePlan(drawn.net, drawn.config, 2, 8).sharing.together
    monkeypatch.setattr("warpladder.trainers.native.program.plan.SMALL", 0)
    monkeypatch.setattr(Net, "train_flops", property(lambda net: 0))
    assert NativePlan(drawn.net, drawn.config, 2, 8).sharing.together
    assert distance(trained(drawn, threads=2)[0], separate[0]) <= bound("float32", 1000, steps=3)


def test_a_step_inside_the_gradient_is_the_same_step() -> None:
    """Without momentum a Linear layer steps its weights as its gradient leaves the registers; with a vanishing one,
    after some tiles.
    """
    drawn = case(nets.mlp((1, 8, 8)), SETTINGS.but(weight_decay=0.01, clip_value=0.02), seed=3, samples=16)
    assert NativePlan(drawn.net, drawn.config.but(), 2, 1).sharing.steps_weights == IN_REGISTERS
    inside = trained(
        drawn.__class__(drawn.net, drawn.config.but(batch_size=1), drawn.dataset, drawn.state, drawn.order)
    )
    still = replace(drawn, config=drawn.config.but(batch_size=1, momentum=1e-30), state=State(drawn.state.params))
    assert NativePlan(still.net, still.config, 2, 1).sharing.steps_weights == BY_LOOP
    assert distance(inside[0], trained(still)[0]) <= bound("float32", 100, steps=16)


@pytest.mark.parametrize("features", [16, 48, 50, 784])
def test_bytes_and_floats_train_alike(features: int) -> None:
    """A first layer with few outputs reads bytes in place; floats and ragged numbers of features are gathered."""
    net = Net("few", (features,), (Linear(out_features=10),), CrossEntropyLoss())
    drawn = case(net, SETTINGS, seed=4, samples=20)
    data = drawn.dataset
    floats = replace(
        drawn, dataset=data.but(train_x=data.train_x.astype(np.float32), test_x=data.test_x.astype(np.float32))
    )
    assert distance(trained(drawn)[0], trained(floats)[0]) <= bound("float32", features, steps=3)


@pytest.mark.parametrize("net", [*ZOO, nets.cnn(), nets.autoencoder()], ids=lambda net: f"{net.name}{net.in_shape}")
def test_the_layout_loses_nothing(net: Net) -> None:
    layout = WeightLayout(net)
    flat = np.arange(1, net.param_count + 1, dtype=np.float32)
    native = np.full(layout.count, np.nan, np.float32)
    layout.from_flat(flat, native)
    assert layout.to_flat(native).tolist() == flat.tolist()
    assert np.count_nonzero(native) == net.param_count


@pytest.mark.parametrize(
    "optimizer", [SGD(1e-2, momentum=0.9), Adam(1e-2), AdamW(1e-2)], ids=lambda optimizer: optimizer.name
)
def test_padding_stays_zero(optimizer: SGD | Adam | AdamW) -> None:
    """Three channels in panels of sixteen and more: what pads them must never learn, whatever the optimizer."""
    net = Net(
        "odd",
        (2, 6, 6),
        (
            Conv2d(out_channels=3, kernel_size=3, padding=1),
            ReLU(),
            Conv2d(out_channels=5, kernel_size=2),
            Flatten(),
            Linear(out_features=7),
        ),
        CrossEntropyLoss(),
    )
    drawn = case(net, SETTINGS.but(optimizer=replace(optimizer, weight_decay=0.1), clip_value=0.5), seed=5, samples=16)
    with NativeTrainer(net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 2)
        layout = trainer.plan.layout
        padding = np.flatnonzero(layout.place < 0)
        assert padding.size
        for array in (trainer._memory.weights, *(held for _, held in trainer._slots())):
            assert array.any() and not array[padding].any()


def test_what_is_fused() -> None:
    enter, nodes = fuse(nets.autoencoder())
    assert enter == 0
    assert [(type(node.layer).__name__, node.has_relu, node.is_folded) for node in nodes] == [
        ("Conv2d", True, False),
        ("MaxPool2d", False, False),
        ("Conv2d", True, False),
        ("MaxPool2d", False, False),
        ("Conv2d", True, False),
        ("Conv2d", True, True),
        ("Conv2d", False, True),
    ]
    net = Net(
        "other",
        (1, 4, 4),
        (Upsample2d(scale_factor=2), Conv2d(out_channels=2, kernel_size=3), Flatten(), Linear(out_features=2)),
        CrossEntropyLoss(),
    )
    assert not any(node.is_folded for node in fuse(net)[1])  # no padding: another operation


def test_nothing_is_allocated_by_a_step() -> None:
    import tracemalloc

    drawn = case(nets.mlp((1, 8, 8)), SETTINGS, seed=6, samples=800)
    with NativeTrainer(drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 2)
        tracemalloc.start()
        trainer.run(drawn.order, 0, drawn.steps)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # the order's indices and the log of a range, and nothing that grows with the net
    assert peak < 64 * 1024 + 100 * len(drawn.dataset.train_x)


def test_not_finite_weights_are_seen() -> None:
    """A NaN must reach the loss through every layer: ReLU and pooling may not swallow it."""
    drawn = case(nets.cnn((1, 8, 8)), SETTINGS, seed=7, samples=8)
    for name in ("0.weight", "2.bias", "6.weight"):
        broken = drawn.state.params.copy()
        params.views(drawn.net, broken)[name].flat[0] = math.nan
        with NativeTrainer(drawn.net, drawn.config, State(broken)) as trainer:
            trainer.load(drawn.dataset)
            assert math.isnan(trainer.run(drawn.order, 0, 1).loss[0]), name


def test_pages_are_aligned_and_apart() -> None:
    pages = Pages(padded_bytes((100,), np.float32) + padded_bytes((3, 7), np.int64))
    first, second = pages.array((100,), np.float32), pages.array((3, 7), np.int64)
    assert first.ctypes.data % 64 == second.ctypes.data % 64 == 0
    first[:] = 1
    assert not second.any()


def test_many_classes() -> None:
    """The product that one logarithm serves for many samples must not overflow."""
    net = Net("wide", (4,), (Linear(out_features=2000),), CrossEntropyLoss())
    drawn = case(net, TrainConfig(batch_size=None), seed=8, samples=300)
    state = State(np.zeros_like(drawn.state.params))
    loss = trained(replace(drawn, state=state))[1]
    assert abs(loss[0] - math.log(2000)) <= 1e-6


@pytest.mark.parametrize(
    ("shape", "layers"),
    [
        # lines of pixels with a border between them, longer than a vector and no whole number of them; 20 channels, of
        # which a square takes 16
        ((1, 22, 22), (Conv2d(out_channels=16, kernel_size=3), ReLU(), Conv2d(out_channels=20, kernel_size=3), ReLU())),
        # windows of four pixels that overlap, and such that do not and leave a row and a column over
        (
            (3, 17, 17),
            (
                Conv2d(out_channels=33, kernel_size=3),
                MaxPool2d(2, stride=1),
                Conv2d(out_channels=16, kernel_size=2),
                ReLU(),
                MaxPool2d(2),
            ),
        ),
    ],
    ids=["squares", "windows"],
)
@pytest.mark.by_day("windows")
def test_pixels_are_turned_and_pooled_in_whole_vectors_and_what_is_left(
    shape: tuple[int, ...], layers: tuple[Layer, ...]
) -> None:
    net = Net("ends", shape, (*layers, Flatten(), Linear(out_features=10)), CrossEntropyLoss())

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, 3)

    verdict = verify(build, net, SETTINGS.but(batch_size=5), bitwise=True)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.by_day("1")
def test_panels_in_pairs_and_a_last_one_alone(threads: int) -> None:
    """Where a tile takes two panels of sixteen channels, an odd number of them leaves one: three, one and five, in
    either kind of layer and both shares of work.
    """
    layers = (
        Conv2d(out_channels=40, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=12, kernel_size=2), ReLU(), Flatten(),
        Linear(out_features=72), ReLU(), Linear(out_features=33), ReLU(), Linear(out_features=10),
    )  # fmt: skip
    net = Net("odd panels", (3, 7, 9), layers, CrossEntropyLoss())

    def build(net: Net, config: TrainConfig, state: State) -> NativeTrainer:
        return NativeTrainer(net, config, state, threads)

    for batch in (7, 2):  # with three threads: each its own samples, or each a part of every product
        verdict = verify(build, net, SETTINGS.but(batch_size=batch), bitwise=True)
        assert verdict.passed, verdict.reason


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the processors are x86-64's")
@pytest.mark.parametrize(("processor", "lanes"), [("haswell", 8), ("znver3", 8), ("skylake-avx512", 16)])
def test_vectors_are_those_of_the_processor_that_numba_compiles_for(processor: str, lanes: int) -> None:
    """Not those of the machine at hand; panels of weights are sixteen channels wide on all of them."""
    environment = os.environ | {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    code = (
        "from warpladder.trainers.native.compiler.vectors import LANES, TOGETHER, WIDTH; print(LANES, WIDTH, TOGETHER)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(lanes), "16", str(lanes // 8)]


def test_more_threads_than_cores_do_not_wait_by_spinning() -> None:
    """Eight threads on two cores: the processor's time is a few times that of one thread's waits, which spinning would
    make a hundredfold.
    """
    calls, threads, cores = 2000, 8, 2
    sync = np.zeros(16, np.int64)
    meet_often(sync, 1, 1)  # compiled

    def meet() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, here[:cores])  # of this thread alone
        meet_often(sync, threads, calls)

    here = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    workers = [threading.Thread(target=meet, daemon=True) for _ in range(threads)]
    used = time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    assert sync[GENERATION] == calls and sync[ARRIVED] == sync[SLEEPERS] == 0
    # a thread that spins to the end for all others, SPINS of 25 ns or more in each of `threads` waits, needs some
    # 100 us a wait
    assert time.process_time() - used < 0.25 * calls * threads * SPINS * 25e-9


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_nobody_passes_a_barrier_before_all_have_come(threads: int) -> None:
    """Each adds one to a shared number, waits, and finds the sum of all, whichever threads sleep."""
    seen = np.zeros((threads, 300), np.int64)
    number, sync = np.zeros(1, np.int64), np.zeros(16, np.int64)
    count_together(number, np.zeros(16, np.int64), 1, np.zeros(1, np.int64))  # compiled
    number[:] = 0
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(count_together, number, sync, threads, seen[i]) for i in range(threads)]:
            future.result(60)
    assert (seen == threads * np.arange(1, 301)).all()


_wait = shared(barrier)


@njit(nogil=True)
def meet_often(sync, threads, calls):
    for _ in range(calls):
        _wait(sync, threads)


@njit(nogil=True)
def count_together(number, sync, threads, seen):
    for i in range(seen.shape[0]):
        atomic_add(number, 0, 1)
        _wait(sync, threads)
        seen[i] = atomic_load(number, 0)
        _wait(sync, threads)


ASSISTED = """
from warpladder import machine
machine.cores = lambda: 3
from warpladder import TrainConfig, data, nets, train
from warpladder.trainers.native.compiler import functions
compile_now, compiled = functions.compile_now, []
functions.compile_now = lambda function: compiled.append(function) or compile_now(function)
from warpladder.trainers.native.compiler.machine_code import CompiledFunction, is_stored
from warpladder.trainers.native.compiler.vectors import TOGETHER
run = train(nets.softmax((1, 8, 8)), data.load("digits"), TrainConfig(epochs=1), rung="native:threads=2")
product = "multiply" if TOGETHER > 1 else "convolve"
from warpladder.trainers.native.program.operands import OPERATIONS
names = ["gather_rows", product, "weight_gradient", "cross_entropy", "bias_gradient", "sgd"]
home = "warpladder.trainers.native.kernels."
wanted = [CompiledFunction(home + OPERATIONS[name], name, "operation") for name in names]
wanted += [CompiledFunction("warpladder.trainers.native.threads.run", "steps", "entry")]
print([function.name for function in wanted if not is_stored(function)], run.history[0].train_loss, len(compiled))
"""


@pytest.mark.slow
def test_what_other_processes_compile_is_kept_and_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpladder.machine.facts.cores", lambda: 2)  # whatever this process is given among others
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    printed = subprocess.run(
        [sys.executable, "-c", ASSISTED], env=environment, capture_output=True, text=True, check=True
    ).stdout
    run = train(nets.softmax((1, 8, 8)), data.load("digits"), TrainConfig(epochs=1), rung="native:threads=2")
    left, loss, here = printed.split()
    assert left == "[]" and float(loss) == run.history[0].train_loss
    assert 0 < int(here) < len(list(tmp_path.rglob("*.o")))
