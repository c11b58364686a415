"""The persistent rung's products on tensor cores: training as NumPy's, no race, planted faults that are seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from edits import planted
from same_training import assert_trained_alike, close

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.limits import Limits
from warpladder.errors import KernelError
from warpladder.ladder import find
from warpladder.machine.peaks import Peaks
from warpladder.nets import CrossEntropyLoss, Layer, Linear, MSELoss, Net, ReLU
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.trainers.base import State
from warpladder.trainers.persistent import plan as planning
from warpladder.trainers.persistent import products, tiles
from warpladder.trainers.persistent.phase_lines import factor_maps
from warpladder.trainers.persistent.plan import Requested, plans
from warpladder.trainers.persistent.products import fastest
from warpladder.trainers.persistent.source import waits
from warpladder.trainers.persistent.tiles import THREADS, HeadTile, PhaseTile, TensorPhaseTile
from warpladder.trainers.persistent.trainer import PersistentTrainer

needs_compiler = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def chain(inputs, *widths, loss=None, last_relu=False):
    layers: list[Layer] = []
    for number, width in enumerate(widths):
        layers.append(Linear(out_features=width))
        if number < len(widths) - 1 or last_relu:
            layers.append(ReLU())
    return Net("chain", (inputs,), tuple(layers), loss or CrossEntropyLoss())


#: Net, optimizer, batch, samples, floats: several pieces of k and several tiles for a block, ragged widths, partial
#: batches, classifiers with their last layer in one phase with the loss, and layers whose gradients come last.
CASES = {
    "ragged": (chain(41, 36, 21, 5, last_relu=True), Adam(0.01), 19, 50, True),
    "bytes": (chain(128, 40, 12), SGD(0.1, momentum=0.9), 40, 90, False),
    "many tiles": (chain(70, 90, 80, 40, 7), Adam(0.01), 40, 90, True),
    "one layer": (chain(52, 70), AdamW(0.01), 7, 21, False),
    "images": (chain(24, 9, 24, loss=MSELoss()), SGD(0.1, momentum=0.9, nesterov=True), 10, 25, False),
}

#: How blocks wait for each other.
WAITS: dict[str, dict[str, Any]] = {
    "grid": {"blocks": 3, "wait": "grid"},
    "pairs": {"blocks": 6, "wait": "both", "cluster": 2},
    "cluster": {"blocks": 2, "wait": "cluster"},
}


def trained(case, wait=None, mode="fast", **device):
    """The case's net after two epochs: by tensor cores of emulated blocks, or by NumPy without `wait`."""
    net, optimizer, batch, samples, floats = CASES[case]
    rng, size = np.random.default_rng(3), (samples, *net.in_shape)
    x = rng.random(size, np.float32) if floats else rng.integers(0, 256, size, dtype=np.uint8)
    y = rng.integers(0, net.out_shape[0], samples) if isinstance(net.loss, CrossEntropyLoss) else None
    data = Dataset("made", x, y, x[:4], None if y is None else y[:4], scale=1.0 if floats else 1 / 255)
    config = TrainConfig(batch_size=batch, epochs=2, optimizer=optimizer)
    start = State(np.random.default_rng(4).normal(0, 0.3, net.param_count).astype(np.float32))
    if wait is None:
        trainer = find("numpy").build(net, config, start)
    else:
        on = EmulatedDevice(mode=mode, **device)
        trainer = PersistentTrainer(net, config, start, on, **WAITS[wait], weights="global", multiply="tensor")
    trainer.load(data)
    return trainer, trainer.run_epochs([Order(0, epoch, samples) for epoch in range(2)])


BY_DAY = {("ragged", "grid"), ("bytes", "pairs"), ("images", "cluster"), ("one layer", "grid"), ("many tiles", "grid")}


@needs_compiler
@pytest.mark.parametrize(
    ("case", "wait"),
    [
        pytest.param(case, wait, marks=() if (case, wait) in BY_DAY else pytest.mark.slow)
        for case in CASES
        for wait in WAITS
    ],
)
def test_trains_as_numpy_does(case, wait):
    ours, logs = trained(case, wait)
    assert ours.plan.on_tensor_cores
    assert_trained_alike(ours, logs, *trained(case))


@needs_compiler
@pytest.mark.parametrize(
    ("case", "wait"),
    [
        pytest.param(case, wait, marks=() if (case, wait) == ("bytes", "grid") else pytest.mark.slow)
        for case in CASES
        for wait in WAITS
    ],
)
def test_no_access_is_wrong_and_repeats_are_equal(case, wait):
    first, logs = trained(case, wait, "check", order="random", seed=5)
    again, others = trained(case, wait, "check", order="random", seed=6)
    assert first.state().bits() == again.state().bits()
    assert all(log.loss.tobytes() == other.loss.tobytes() for log, other in zip(logs, others, strict=True))


def alternating(monkeypatch, first):
    """Let phases multiply by multiply-adds and on tensor cores in turn."""
    turn = [first]

    def in_turn(phase, capacity, blocks, teams, places):
        turn[0] += 1
        return fastest(phase, capacity, blocks, ("fma", "tensor")[turn[0] % 2], teams, places)

    monkeypatch.setattr(
        planning,
        "all_fastest",
        lambda phases, capacity, shares, kind, places=THREADS: [
            in_turn(phase, capacity, share[0], share[1], places) for phase, share in zip(phases, shares, strict=True)
        ],
    )


@needs_compiler
@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wait", ["grid", pytest.param("pairs", marks=pytest.mark.slow)])
def test_kinds_of_tiles_in_one_kernel_leave_each_other_their_memory(monkeypatch, first, wait):
    alternating(monkeypatch, first)
    ours, logs = trained("ragged", wait, "check", order="random", seed=5)
    assert {type(tile) for tile in (*ours.plan.forward, *ours.plan.weights)} >= {PhaseTile, TensorPhaseTile}
    assert_trained_alike(ours, logs, *trained("ragged"))


def forget_tiles():
    """Let plans be made anew."""
    products.fastest.cache_clear()
    products._by_code.cache_clear()


@needs_compiler
def test_chunks_take_turns_where_not_all_pieces_fit(monkeypatch):
    monkeypatch.setattr(tiles, "PIECE_BARRIERS", 2)
    forget_tiles()
    ours, logs = trained("bytes", "grid", "check", order="random", seed=5)
    forget_tiles()
    assert (ours.plan.forward[0].chunk, ours.plan.forward[0].buffers) == (1, 2)
    assert_trained_alike(ours, logs, *trained("bytes"))


#: Faults that the checker names: what is edited, what takes its place, and the report.
NAMED = {
    "the phase before": ("parity >> at & 1", "~parity >> at & 1", r"before|phase|deadlock|arriv"),
    "a piece that nobody waits for": (
        "barrier_wait(piece_barriers().at + at, parity >> at & 1);", "", r"before the tile has arrived",
    ),
    "pieces of the first tile again": (
        "stream.tile + chunk / chunks() * stream.blocks", "stream.tile", "in a phase in which all 2 arrivals have come",
    ),
    "pieces over those that are multiplied": (
        "__syncthreads();  // all have left the buffer", "", "before|race|barrier",
    ),
}  # fmt: skip

#: Faults that arithmetic shows: what is edited, and what takes its place.
WRONG = {
    "no low half": ("multiply(low, high_a, low_b);", ""),
    "samples beyond the batch": ("left >= 8 ||", "true ||"),
    "a lost group's sum": (
        "for (int part = 1; part < T::PARTS; ++part) {",
        "for (int part = 2; part < T::PARTS; ++part) {",
    ),
    "a lost bias gradient": ("sums.row_sum(threadIdx.x)", "0.0f"),
    "the samples of the step before": ("tile_maps + (odd ?", "tile_maps + (!odd ?"),
    "half of the head's lanes": (
        "sum[o] += __shfl_xor_sync(EVERY_LANE, sum[o], offset);",
        "if (offset < 8) sum[o] += __shfl_xor_sync(EVERY_LANE, sum[o], offset);",
    ),
    "no mask after the head": ("if (!(inputs[k][j] > 0.0f)) out[j] = 0.0f;", ""),
    "a head without its bias": ("IN % 4 == 0 ? held[o * line(IN) + IN] : 0.0f", "0.0f"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("fault", [pytest.param(each, marks=pytest.mark.slow) for each in NAMED])
def test_faults_of_the_copies_are_named(monkeypatch, fault):
    before, after, message = NAMED[fault]
    planted(monkeypatch, before, after)
    with pytest.raises(KernelError, match=message):
        trained("many tiles", "grid", "check")


@needs_compiler
@pytest.mark.parametrize(
    "fault", ["no low half", *(pytest.param(each, marks=pytest.mark.slow) for each in WRONG if each != "no low half")]
)
def test_planted_faults_change_the_weights(monkeypatch, fault):
    expected = trained("bytes")[0].state().params
    planted(monkeypatch, *WRONG[fault])
    assert not close(trained("bytes", "grid")[0].state().params, expected)


def test_wide_nets_multiply_on_tensor_cores_of_a_gpu_that_has_them():
    hopper = Limits("an H200", multiprocessors=132, memory=1 << 36, peaks=Peaks((9, 0), 132, 1.98e9))
    wide = chain(784, 512, 512, 512, 10)
    found = plans(wide, 256, hopper, Requested(weights="global"))
    assert found[0].on_tensor_cores and len(factor_maps(found[0])) > 10
    assert all(plan.shared <= hopper.shared_opt_in for plan in found)
    older = replace(hopper, peaks=Peaks((8, 0), 132, 1.4e9), cluster=1)
    assert not any(plan.on_tensor_cores for plan in plans(wide, 256, older, Requested(weights="global")))


def test_small_last_layers_have_a_phase_by_samples_and_their_weight_gradients_come_last():
    hopper = Limits("an H200", multiprocessors=132, memory=1 << 36)
    plan = plans(chain(784, 512, 512, 512, 10), 256, hopper, Requested(wait="grid", multiply="tensor"))[0]
    assert plan.forward[-1] == HeadTile(2, 10, 512) and plan.late == (4,)
    assert [name for name in waits(plan) if "layer 4" in name or "layer 6" in name] == [
        "the forward pass of layer 4", "the forward pass of layer 6", "the input gradient of layer 4",
    ]  # fmt: skip
    many = plans(chain(784, 512, 512, 100), 256, hopper, Requested(wait="grid", multiply="tensor"))[0]
    image = chain(64, 40, 64, loss=MSELoss())
    assert not many.has_head and not plans(image, 16, hopper, Requested(wait="grid", multiply="tensor"))[0].has_head


#: Microseconds of a step on one H200, phases on tensor cores (benchmarks/h200/persistent_tensor.md): net, batch, slots.
MEASURED = {
    "wide": (chain(784, 512, 512, 512, 10), 256, 2, 67.9),
    "funnel": (chain(784, 512, 256, 128, 10), 128, 2, 39.5),
    "broad": (chain(300, 1000, 20), 512, 1, 36.3),
    "tab300": (chain(120, 300, 300, 40), 200, 1, 27.2),
    "tab400": (chain(90, 400, 200, 30), 300, 2, 29.2),
    "deep": (chain(784, *[128] * 8, 10), 128, 2, 44.0),
    "mlp": (chain(784, 256, 10), 64, 0, 11.5),
    "two of 512": (chain(784, 512, 512, 10), 64, 2, 29.5),
    "two of 640": (chain(40, 640, 640, 5), 1000, 2, 108.2),
    "two of 1024": (chain(784, 1024, 1024, 10), 512, 0, 148.0),
    "three of 350": (chain(200, 350, 350, 350, 12), 180, 2, 35.8),
    "two of 256": (chain(64, 256, 256, 20), 512, 2, 25.2),
    "four of 200": (chain(20, 200, 200, 200, 200, 2), 100, 2, 31.5),
}


@pytest.mark.parametrize("name", MEASURED)
def test_estimates_are_within_a_fifth_of_what_was_measured(name):
    net, batch, slots, us = MEASURED[name]
    limits = Limits("an H200", multiprocessors=132, memory=1 << 36)
    found = plans(net, batch, limits, Requested(weights="global", multiply="tensor"), slots)
    assert found[0].cycles / 1750 == pytest.approx(us, rel=0.2)
