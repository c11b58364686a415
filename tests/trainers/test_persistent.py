"""The persistent rung: the same training as NumPy's, no race, no lost wait; what is planned and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edits import edited, planted
from same_training import assert_trained_alike, close

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.limits import Limits
from warpladder.errors import KernelError, LaunchError, RungError
from warpladder.ladder import find
from warpladder.machine.peaks import Peaks
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MSELoss, Net, ReLU
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise import where
from warpladder.trainers.persistent import plan as planning
from warpladder.trainers.persistent import products, tiles
from warpladder.trainers.persistent import trainer as module
from warpladder.trainers.persistent.plan import Requested, plans
from warpladder.trainers.persistent.trainer import PersistentTrainer

needs_compiler = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(autouse=True)
def long_rows(monkeypatch):
    monkeypatch.setattr(planning, "LONG_ROW", 8)


def net(inputs, *widths, loss=None, last_relu=False):
    layers: list[Layer] = []
    for number, width in enumerate(widths):
        layers.append(Linear(out_features=width))
        if number < len(widths) - 1 or last_relu:
            layers.append(ReLU())
    return Net("chain", (inputs,), tuple(layers), loss or CrossEntropyLoss())


def dataset(chain, samples, floats=False):
    rng = np.random.default_rng(3)
    size = samples, *chain.in_shape
    x = rng.random(size, np.float32) if floats else rng.integers(0, 256, size, dtype=np.uint8)
    y = rng.integers(0, chain.out_shape[0], samples) if isinstance(chain.loss, CrossEntropyLoss) else None
    scale = 1.0 if floats else 1 / 255
    return Dataset(name="made", train_x=x, train_y=y, test_x=x[:4], test_y=None if y is None else y[:4], scale=scale)


def start(chain):
    return State(np.random.default_rng(4).normal(0, 0.3, chain.param_count).astype(np.float32))


#: Net, optimizer, batch, samples, floats: widths that four divides and others, one layer and several, full and partial
#: last batches, bytes and floats, both losses, a ReLU at the end.
CASES = {
    "softmax": (net(20, 70), AdamW(0.01), 7, 21, False),
    "deep": (net(13, 7, 5, 3, last_relu=True), Adam(0.01), 8, 29, True),
    "images": (net(16, 12, 16, loss=MSELoss()), SGD(0.1, momentum=0.9), 10, 25, False),
    "odd images": (
        net(9, 6, 9, loss=MSELoss(), last_relu=True), SGD(0.1, momentum=0.9, nesterov=True), 5, 12, True,
    ),
    "odd softmax": (net(13, 5, last_relu=True), Adam(0.01), 6, 21, True),
    "batch of one": (net(8, 4, 2), SGD(0.1, weight_decay=0.01), 1, 3, False),
}  # fmt: skip


#: Those that scripts/test runs.
BY_DAY = {
    ("softmax", "grid"),
    ("deep", "pairs"),
    ("images", "cluster"),
    ("batch of one", "alone"),
    ("odd images", "held pairs"),
    ("deep", "sent fours"),
}


def trained(case, build, epochs=2):
    chain, optimizer, batch, samples, floats = CASES[case]
    config = TrainConfig(batch_size=batch, epochs=epochs, optimizer=optimizer)
    trainer = build(chain, config, start(chain))
    trainer.load(dataset(chain, samples, floats))
    logs = trainer.run_epochs([Order(0, epoch, samples) for epoch in range(epochs)])
    return trainer, logs


#: Waits: of one cluster or of the grid; of both, with blocks alone or in clusters of two that divide the batch.
WAITS: dict[str, dict[str, Any]] = {
    "grid": {"blocks": 3, "wait": "grid", "multiply": "fma"},
    "cluster": {"blocks": 3, "wait": "cluster", "weights": "global", "multiply": "fma"},
    "alone": {"blocks": 3, "wait": "both", "cluster": 1, "weights": "global", "multiply": "fma"},
    "pairs": {"blocks": 6, "wait": "both", "cluster": 2, "weights": "global", "multiply": "fma"},
    "held pairs": {"blocks": 6, "wait": "both", "cluster": 2, "weights": "shared"},
    "held alone": {"blocks": 3, "wait": "both", "cluster": 1, "weights": "shared"},
    "held fours": {"blocks": 8, "wait": "both", "cluster": 4, "weights": "shared"},
    "sent alone": {"blocks": 3, "wait": "both", "cluster": 1, "weights": "shared", "exchange": "sent"},
    "sent pairs": {"blocks": 6, "wait": "both", "cluster": 2, "weights": "shared", "exchange": "sent"},
    "sent fours": {"blocks": 8, "wait": "both", "cluster": 4, "weights": "shared", "exchange": "sent"},
}

#: Cases that run with weights in shared memory.
HELD = {
    "held pairs": ("deep", "odd images", "softmax"), "held alone": ("deep", "images"), "held fours": ("batch of one",),
    "sent alone": ("deep", "images"), "sent pairs": ("deep", "odd images", "softmax"), "sent fours": ("deep", "batch of one"),
}  # fmt: skip


def persistent(mode="fast", wait="grid", **device):
    return lambda chain, config, state: PersistentTrainer(
        chain, config, state, EmulatedDevice(mode=mode, **device), **WAITS[wait]
    )


@needs_compiler
@pytest.mark.parametrize(
    ("case", "wait"),
    [
        pytest.param(case, wait, marks=() if (case, wait) in BY_DAY else pytest.mark.slow)
        for wait in WAITS
        for case in HELD.get(wait, [case for case in CASES if case != "odd softmax"])
    ],
)
def test_trains_as_numpy_does(case, wait):
    ours, logs = trained(case, persistent(wait=wait))
    theirs, expected = trained(case, find("numpy").build)
    assert_trained_alike(ours, logs, theirs, expected)


@needs_compiler
def test_any_cut_of_the_steps_gives_the_same_bits():
    together, logs = trained("deep", persistent())
    chain, optimizer, batch, samples, floats = CASES["deep"]
    config = TrainConfig(batch_size=batch, epochs=2, optimizer=optimizer)
    apart = persistent()(chain, config, start(chain))
    apart.load(dataset(chain, samples, floats))
    for epoch, whole in enumerate(logs):
        parts = [apart.run(Order(0, epoch, samples), *steps) for steps in ((0, 1), (1, 3), (3, 4))]
        assert np.concatenate([log.loss for log in parts]).tobytes() == whole.loss.tobytes()
    assert apart.state().bits() == together.state().bits()
    assert trained("deep", persistent())[0].state().bits() == together.state().bits()


@needs_compiler
@pytest.mark.parametrize(
    ("case", "wait"),
    [
        ("softmax", "held pairs"),
        pytest.param("deep", "held pairs", marks=pytest.mark.slow),
        pytest.param("odd images", "held fours", marks=pytest.mark.slow),
        ("deep", "sent fours"),
        pytest.param("odd images", "sent pairs", marks=pytest.mark.slow),
        pytest.param("deep", "sent alone", marks=pytest.mark.slow),
        pytest.param("softmax", "sent pairs", marks=pytest.mark.slow),
    ],
)
def test_no_access_of_held_weights_is_wrong_and_repeats_are_equal(case, wait):
    first, logs = trained(case, persistent("check", wait, order="random", seed=5))
    again, others = trained(case, persistent("check", wait, order="random", seed=6))
    assert first.state().bits() == again.state().bits()
    assert all(log.loss.tobytes() == other.loss.tobytes() for log, other in zip(logs, others, strict=True))


@needs_compiler
@pytest.mark.parametrize("order", [pytest.param("forward", marks=pytest.mark.slow), "random"])
@pytest.mark.parametrize(
    "wait", [*(pytest.param(wait, marks=pytest.mark.slow) for wait in ("cluster", "grid")), "pairs"]
)
@pytest.mark.parametrize(
    "case",
    ["deep", *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case not in ("deep", "odd softmax"))],
)
def test_no_access_is_wrong(case, wait, order):
    trained(case, persistent("check", wait, order=order, seed=5))


@needs_compiler
def test_biases_that_have_sums_of_their_own_step_as_numpy_steps_them(monkeypatch):
    monkeypatch.setattr(tiles, "BIAS", -1e6)
    products.fastest.cache_clear()
    ours, logs = trained("images", persistent("check", "held pairs", order="random", seed=5))
    products.fastest.cache_clear()
    assert all(tile.separate for tile in ours.plan.weights)
    theirs, expected = trained("images", find("numpy").build)
    assert close(ours.state().params, theirs.state().params)
    assert close(np.concatenate([log.loss for log in logs]), np.concatenate([log.loss for log in expected]))


@needs_compiler
def test_a_missing_wait_is_a_race(monkeypatch):
    wait = "if (more) next = gather.start(step + 1); team.wait(1);"
    planted(monkeypatch, wait, "if (more) next = gather.start(step + 1);")
    with pytest.raises(KernelError, match=r"race|before|concurrently|nothing was ever written"):
        trained("deep", persistent("check"))


@needs_compiler
def test_a_lost_arrival_ends_in_an_error_that_names_the_wait(monkeypatch):
    guard, arrival = "if (threadIdx.x == 0) add_release(arrived);", "step != 2 || blockIdx.x != 1"
    edits = {
        "constexpr long long PATIENCE = 4000000000;": "constexpr long long PATIENCE = 100000000;",
        "!defined(__CUDA_EMU__) || defined(POLLED_WAITS)": "1",
        "defined(__CUDA_EMU__) && !defined(POLLED_WAITS)": "0",
    }
    real = sources.assembled

    def assembled(path, text):
        found = real(path, text)
        changed = found.text
        for before, after in edits.items():
            assert before in changed
            changed = changed.replace(before, after)
        return replace(
            found, text=edited(changed, guard, f"if (threadIdx.x == 0 && ({arrival})) add_release(arrived);")
        )

    monkeypatch.setattr(sources, "assembled", assembled)
    with pytest.raises(KernelError, match=r"waited in vain after the forward pass of layer 0 in step 2"):
        trained("softmax", persistent())


#: Faults of results that blocks send each other: what is edited, what takes its place, and what the emulator reports.
UNSENT = {
    "a lost row": ("if (first + 4 * quad >= WHOLE) continue;", "if (first + 4 * quad >= WHOLE || m == 1) continue;",
                   r"lacks \d+ bytes"),
    "the phase before": ("while (!barrier_ended_in_cluster(at(number), parity))",
                         "while (!barrier_ended_in_cluster(at(number), parity ^ 1))", r"before the .* has arrived|race"),
    "absent blocks that do not arrive": ("if (first >= OUT) return to.template nothing<BLOCKS>();",
                                         "if (first >= OUT) return;", r"lacks \d+ of \d+ arrivals"),
    "weights that nobody waits for": ("barrier_wait(at(number), parity); }", "}", r"before the tile has arrived"),
}  # fmt: skip


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("fault", UNSENT)
def test_faults_of_what_blocks_send_are_named(monkeypatch, fault):
    before, after, message = UNSENT[fault]
    planted(monkeypatch, before, after)
    with pytest.raises(KernelError, match=message):
        trained("deep", persistent("check", "sent fours"))


#: Faults that arithmetic shows: what is edited, and what takes its place.
WRONG = {
    "a stale batch": ("const float* const x = odd ? x_odd : x_even;", "const float* const x = x_even;"),
    "a lost group's sum": ("float sum = *first;", "float sum = 0.0f;"),
    "a sample read twice": ("hold(ahead >= 0 ? ahead : rows[at]);", "hold(at == n - 1 ? rows[0] : rows[at]);"),
    "no bias": ("v[array][k] = count > 0 ? *from : 0.0f;", "v[array][k] = 0.0f;"),
    "no ReLU mask": ("if (!(inputs[j] > 0.0f)) sum[j] = 0.0f;", ";"),
    "a stale slice of weights": ("present ? from + row * LINE + 4 * quad : from, present ? 4 : 0", "from, 4"),
    "another block's rows": ("(rank + other) % BLOCKS,", "rank,"),
    "the mean of a full batch": ("(c == label ? 1.0f : 0.0f)) / batch;", "(c == label ? 1.0f : 0.0f)) / 8;"),
}


@needs_compiler
@pytest.mark.parametrize(
    "fault", ["a stale batch", *(pytest.param(f, marks=pytest.mark.slow) for f in WRONG if f != "a stale batch")]
)
def test_planted_faults_change_the_weights(monkeypatch, fault):
    case = "softmax" if fault == "no bias" else "deep"
    expected = trained(case, find("numpy").build)[0].state().params
    planted(monkeypatch, *WRONG[fault])
    held = {"a stale slice of weights": "held pairs", "another block's rows": "held pairs"}
    wait = held.get(fault, "grid")
    assert not close(trained(case, persistent(wait=wait))[0].state().params, expected)


def kind(plan):
    """The plan's `wait`, or "held" or "registers", where the weights are."""
    if plan.registers is not None:
        return "registers"
    if plan.held is not None:
        return "held"
    return "both" if plan.rows is not None else "grid" if plan.in_grid else "cluster"


#: Steps of benchmarks/h200/persistent.json by name of the net: widths and batch.
MEASURED = {
    "softmax": ((784, 10), 128),
    "mlp": ((784, 256, 10), 64),
    "wide": ((784, 512, 512, 512, 10), 256),
    "deep": ((784, *[128] * 8, 10), 128),
    "table": ((54, 128, 64, 7), 256),
}


@pytest.mark.parametrize("name", MEASURED)
def test_the_wait_that_is_planned_is_at_most_four_percent_slower_than_the_fastest_measured(name):
    widths, batch = MEASURED[name]
    found = plans(
        net(*widths),
        batch,
        Limits("an H200", multiprocessors=132, memory=1 << 36),
        Requested(weights="global", multiply="fma"),
    )
    assert sorted(kind(plan) for plan in found) == ["both", "cluster", "grid"]
    stored = json.loads((Path(__file__).parents[2] / "benchmarks/h200/persistent_waits.json").read_text())
    times = {rung: row["us"] for rung, row in stored["us a step"][name].items() if rung.startswith("persistent")}
    planned = "grid" if kind(found[0]) == "grid" else f"both:cluster={found[0].cluster}"
    assert times[f"persistent:wait={planned}"] <= 1.04 * min(times.values())
    assert found[0].cycles / 1750 == pytest.approx(times[f"persistent:wait={planned}"], rel=0.3)


@needs_compiler
def test_a_plan_whose_clusters_do_not_fit_gives_its_place_to_the_next(monkeypatch):
    chain, config = net(20, 70), TrainConfig(batch_size=7, epochs=1, optimizer=SGD(0.1))
    real, held = PersistentTrainer._bound, []

    def bound(self, *steps):
        held.append(kind(self.plan))
        if len(held) == 1:
            raise LaunchError("fewer clusters at the same time")
        return real(self, *steps)

    monkeypatch.setattr(PersistentTrainer, "_bound", bound)
    first, second, *_ = plans(chain, 7, EmulatedDevice().limits, slots=0)
    trainer = PersistentTrainer(chain, config, start(chain), EmulatedDevice(mode="fast"))
    trainer.load(dataset(chain, 21))
    assert held == [kind(first), kind(second)]
    assert trainer.plan == second
    held.clear()
    with pytest.raises(LaunchError, match="fewer clusters"):
        persistent()(chain, config, start(chain)).load(dataset(chain, 21))


def test_plans_prefer_the_faster_estimate_and_fit():
    limits = Limits("a GPU", multiprocessors=132, memory=1 << 36)
    for widths, batch in (((784, 10), 128), ((784, 256, 10), 64), ((54, 128, 64, 7), 256), ((37, 2000, 300), 1000)):
        found = plans(net(*widths), batch, limits)
        assert found[0].cycles <= found[-1].cycles
        assert {plan.in_grid for plan in found} == {True, False}
        assert all(plan.shared <= limits.shared_opt_in for plan in found)
    assert [
        kind(plan)
        for plan in plans(net(8, 2), 4, replace(limits, cluster=1), Requested(weights="global", multiply="fma"))
    ] == ["grid", "both"]
    assert [
        kind(plan)
        for plan in plans(net(8, 3, 2), 4, limits, Requested(wait="cluster", weights="global", multiply="fma"))
    ] == ["cluster"]
    assert [plan.blocks for plan in plans(net(8, 2), 4, limits, Requested(7, "grid", multiply="fma"))] == [7]


@pytest.mark.parametrize("batch", [1, 7, 64, 250])
def test_held_weights_fit_or_are_not_planned(batch):
    limits = Limits("a GPU", multiprocessors=132, memory=1 << 36)
    for widths in ((54, 128, 64, 7), (784, *[64] * 8, 10), (5, 3)):
        found = plans(net(*widths), batch, limits, Requested(wait="both", weights="shared"))
        assert found
        for plan in found:
            assert plan.held is not None
            assert plan.rows is not None
            assert batch <= plan.blocks // plan.cluster * plan.rows
            assert plan.blocks <= (132 if plan.cluster == 1 else 132 // 18 * (18 // plan.cluster) * plan.cluster)
            assert 4 * plan.held.floats < plan.shared <= limits.shared_opt_in
    assert plans(net(784, 4000, 4000, 10), batch, limits, Requested(wait="both", weights="shared")) == []


@pytest.mark.parametrize("batch", [1, 7, 64, 250])
def test_clusters_that_divide_a_batch_cover_it_and_fit(batch):
    limits = Limits("a GPU", multiprocessors=132, memory=1 << 36)
    found = plans(net(54, 128, 64, 7), batch, limits, Requested(wait="both", weights="global"))
    assert {plan.cluster for plan in found} == {1, 2, 4, 8, 16}
    for plan in found:
        clusters = plan.blocks // plan.cluster
        assert plan.rows is not None
        assert (clusters - 1) * plan.rows < batch <= clusters * plan.rows
        assert clusters <= (132 if plan.cluster == 1 else 132 // 18 * (18 // plan.cluster))


def test_nets_without_phases_are_refused_with_the_layer():
    convolutional = Net(
        "conv",
        (1, 6, 6),
        (Conv2d(out_channels=2, kernel_size=3), Flatten(), Linear(out_features=2)),
        CrossEntropyLoss(),
    )
    reason = find("persistent", device="emulated").unsupported(convolutional, TrainConfig(batch_size=4, epochs=1))
    assert reason is not None and "layer 0 is Conv2d" in reason
    assert "graph" in reason


@pytest.mark.parametrize(
    ("options", "capability", "reason"),
    [
        ({"cluster": 4}, (9, 0), "give wait=both as well"),
        ({"cluster": 4, "wait": "grid"}, (9, 0), "give wait=both as well"),
        ({"cluster": 4, "wait": "both"}, (8, 0), "cluster=1 runs on this one"),
        ({"wait": "cluster"}, (8, 0), "wait=grid runs on this one"),
        ({"cluster": 1, "wait": "both"}, (8, 0), None),
        ({"cluster": 4, "wait": "both"}, (9, 0), None),
        ({"weights": "shared", "wait": "grid"}, (9, 0), "wait=grid is not: leave wait out"),
        ({"weights": "shared", "wait": "cluster"}, (9, 0), "wait=cluster is not: leave wait out"),
        ({"multiply": "tensor"}, (8, 0), "multiply=fma runs on this one"),
        ({"multiply": "tensor", "weights": "shared"}, (9, 0), "leave weights=shared out"),
        ({}, (8, 0), None),
    ],
)
@needs_compiler
def test_clusters_that_cannot_be_are_refused_in_one_line(monkeypatch, options, capability, reason):
    monkeypatch.setattr(where, "peaks", lambda _: Peaks(capability, 132, 1.5e9))
    found = find("persistent", device="emulated", **options).unsupported(
        net(8, 3, 2), TrainConfig(batch_size=4, epochs=1)
    )
    assert found is None if reason is None else reason in str(found)


@needs_compiler
def test_too_many_classes_are_refused_in_one_line():
    chain = net(4, 1025)
    trainer = persistent()(chain, TrainConfig(batch_size=2, epochs=1, optimizer=SGD(0.1)), start(chain))
    with pytest.raises(RungError, match="1,024 classes"):
        trainer.load(dataset(chain, 8))


@needs_compiler
def test_sources_are_files_that_exist():
    trainer, _ = trained("softmax", persistent(), epochs=1)
    assert all(each.is_file() for each in trainer.sources() if isinstance(each, Path))
    assert module.STEPS >= 1
    assert sum(trainer.memory().values()) > trainer.params.nbytes
