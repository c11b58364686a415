"""The persistent rung with weights in registers, of one layer or two: trains as NumPy does, no race, faults are seen,
what is refused.
"""

from __future__ import annotations

from dataclasses import replace

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
from warpladder.optimizers import SGD, Adam, AdamW, RMSprop
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise import where
from warpladder.trainers.persistent.plan import Requested, plans
from warpladder.trainers.persistent.registers.by_units import input_scales, stored_rows
from warpladder.trainers.persistent.trainer import PersistentTrainer

needs_compiler = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def net(inputs, *widths, between=True, last=False):
    layers: list[Layer] = []
    for number, width in enumerate(widths, start=1):
        layers += [Linear(out_features=width), *([ReLU()] if (between if number < len(widths) else last) else [])]
    return Net("chain", (inputs,), tuple(layers), CrossEntropyLoss())


#: Net, optimizer, batch, samples, floats: two layers and one, sizes that tiles divide and others, one pass over the
#: weights and two, fewer samples than blocks, full and partial last batches, every number of slots, a ReLU missing and
#: one at the end.
CASES = {
    "bytes": (net(21, 20, 3), SGD(0.1), 16, 40, False),
    "floats": (net(20, 19, 5, last=True), Adam(0.01), 7, 24, True),
    "two passes": (net(70, 33, 16), SGD(0.1, momentum=0.9, nesterov=True), 70, 150, False),
    "batch of one": (net(13, 5, 2, between=False), RMSprop(0.01), 1, 3, True),
    "many tiles": (net(290, 40, 7), AdamW(0.01), 24, 50, False),
    "one layer": (net(21, 3), SGD(0.1), 16, 40, False),
    "one layer of floats": (net(70, 20, last=True), Adam(0.01), 22, 60, True),
    "many groups": (net(100, 10), SGD(0.1, momentum=0.9), 150, 320, False),
    "one at a time": (net(37, 5), AdamW(0.01), 1, 5, True),
    "many bands": (net(160, 40), RMSprop(0.001), 33, 70, False),
}


#: Those that scripts/test runs.
BY_DAY = ("bytes", "floats", "one layer", "one layer of floats")


def dataset(chain, samples, floats):
    rng, size = np.random.default_rng(3), (samples, *chain.in_shape)
    x = rng.normal(size=size).astype(np.float32) if floats else rng.integers(0, 256, size, dtype=np.uint8)
    y = rng.integers(0, chain.out_shape[0], samples)
    return Dataset("made", x, y, x[:4], y[:4], 1.0 if floats else 1 / 255)


def registers(mode="fast", **device):
    return lambda chain, config, state: PersistentTrainer(
        chain, config, state, EmulatedDevice(mode=mode, **device), weights="registers"
    )


def trained(case, build, epochs=2):
    chain, optimizer, batch, samples, floats = CASES[case]
    config = TrainConfig(batch_size=batch, epochs=epochs, optimizer=optimizer)
    state = State(np.random.default_rng(4).normal(0, 0.3, chain.param_count).astype(np.float32))
    trainer = build(chain, config, state)
    trainer.load(dataset(chain, samples, floats))
    return trainer, trainer.run_epochs([Order(0, epoch, samples) for epoch in range(epochs)])


@needs_compiler
@pytest.mark.parametrize(
    "case", [case if case in BY_DAY else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_trains_as_numpy_does(case):
    ours, logs = trained(case, registers())
    theirs, expected = trained(case, find("numpy").build)
    assert ours.plan.registers is not None
    assert_trained_alike(ours, logs, theirs, expected)


@needs_compiler
@pytest.mark.parametrize("case", ["bytes", "one layer"])
def test_any_cut_of_the_steps_gives_the_same_bits(case):
    together, logs = trained(case, registers())
    chain, optimizer, batch, samples, floats = CASES[case]
    state = State(np.random.default_rng(4).normal(0, 0.3, chain.param_count).astype(np.float32))
    apart = registers()(chain, TrainConfig(batch_size=batch, epochs=2, optimizer=optimizer), state)
    apart.load(dataset(chain, samples, floats))
    for epoch, whole in enumerate(logs):
        parts = [apart.run(Order(0, epoch, samples), *steps) for steps in ((0, 1), (1, 3))]
        assert np.concatenate([log.loss for log in parts]).tobytes() == whole.loss.tobytes()
    assert apart.state().bits() == together.state().bits()


@needs_compiler
@pytest.mark.parametrize(
    "case", [case if case in ("floats", "one layer") else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_no_access_is_wrong_and_repeats_are_equal(case):
    first, logs = trained(case, registers("check", order="random", seed=5))
    again, others = trained(case, registers("check", order="random", seed=6))
    assert first.state().bits() == again.state().bits()
    assert all(log.loss.tobytes() == other.loss.tobytes() for log, other in zip(logs, others, strict=True))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "batch", "optimizer", "floats"),
    [
        (net(30, 20, 4), 9, SGD(0.1, momentum=0.9), False),
        (net(17, 36, 5), None, Adam(0.01), True),
        (net(50, 12), 9, SGD(0.1, momentum=0.9), False),
        (net(17, 5), None, Adam(0.01), True),
        (net(20, 3, last=True), 1, RMSprop(0.01), True),
    ],
)
def test_proofs_hold(chain, batch, optimizer, floats):
    config = TrainConfig(batch_size=batch, optimizer=optimizer)
    build = find("persistent", device="emulated", weights="registers").build
    found = verify(build, chain, config, dataset=dataset(chain, 60, floats), seed=3)
    assert found.passed, found.reason


@needs_compiler
@pytest.mark.parametrize("chain", [net(8, 6, 3), net(8, 3)], ids=["two layers", "one layer"])
def test_stale_samples_beyond_a_partial_batch_do_not_count(chain):
    config = TrainConfig(batch_size=4, epochs=1, optimizer=SGD(0.1))
    data = dataset(chain, 6, True)
    order = np.argsort([Order(0, 0, 6)[place] for place in range(6)])
    x = data.train_x.copy()
    x[np.flatnonzero(order < 4)[0]] = np.inf  # in the first batch: its row keeps it in the second one
    start = State(np.zeros(chain.param_count, np.float32))
    trainer = registers()(chain, config, start)
    trainer.load(replace(data, train_x=x, test_x=x[:1], test_y=data.train_y[:1]))
    trainer.run(Order(0, 0, 6), 1, 2)
    assert np.isfinite(trainer.state().params).all()


#: Faults that arithmetic shows: what is edited, and what takes its place.
WRONG = {
    "a lost warp's sums": ("other < U::BUSY; ++other) { const", "other < U::BUSY - 1; ++other) { const"),
    "no low half of weights": ("part == 1 ? 1 : 0], part == 0", "0], part == 0"),
    "the batch before": ("gatherer.wait(number); const unsigned char* const batch_x = reinterpret_cast<const unsigned "
                         "char*>(stages) + stage * Divided::LINE;",
                         "gatherer.wait(number); const unsigned char* const batch_x = reinterpret_cast<const unsigned "
                         "char*>(stages);"),
    "no bias of the second layer": ("float logit = lane < U::OUT ? b2[c] : 0.0f;", "float logit = 0.0f;"),
    "no ReLU mask": ("if (U::RELU && !(z[i] > 0.0f)) own[i] = 0.0f;", ""),
    "the scale of one warp": ("warp < U::WARPS; ++warp) exponent[half]", "warp < 1; ++warp) exponent[half]"),
    "a lost block's part": ("other < U::BLOCKS / 2; ++other)", "other < U::BLOCKS / 2 - 1; ++other)"),
    "the mean of a full batch": ("(c == wanted ? 1.0f : 0.0f)) / n;", "(c == wanted ? 1.0f : 0.0f)) / U::BATCH;"),
    "one layer without a block's part": ("other < D::BLOCKS; ++other) half", "other < D::BLOCKS - 1; ++other) half"),
    "one layer without low halves": ("mma_half(one[e], part == 1 ? a_low : a_high,", "mma_half(one[e], a_high,"),
    "one layer without low halves of gradients": ("part == 1 ? a[one][b].low : a[one][b].high", "a[one][b].high"),
    "one layer's batch before": ("x.rows = reinterpret_cast<const unsigned char*>(stages) + stage * Divided::LINE;",
                                 "x.rows = reinterpret_cast<const unsigned char*>(stages);"),
    "one layer without its bias": ("float half[2] = {bias[16 * b + c], 0.0f};", "float half[2] = {0.0f, 0.0f};"),
    "one layer's groups without a last one": ("first < groups; ++first) add_groups<1>(d",
                                              "first + 1 < groups; ++first) add_groups<1>(d"),
    "one layer's mean of a full batch": ("== wanted ? 1.0f : 0.0f)) / n;", "== wanted ? 1.0f : 0.0f)) / D::BATCH;"),
    "one layer's masked ReLU": ("if ((D::RELU && !(z[b] > 0.0f)) || m >= n", "if (m >= n"),
}  # fmt: skip

#: Cases of faults; "bytes" and "one layer" for others.
SHOWN_BY = {
    **dict.fromkeys(("a lost warp's sums", "no low half of weights", "the scale of one warp"), "many tiles"),
    "one layer without low halves": "many groups", "one layer without low halves of gradients": "many groups",
    "one layer's masked ReLU": "one layer of floats", "one layer's groups without a last one": "one layer of floats",
}  # fmt: skip


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_planted_faults_change_the_weights(monkeypatch, fault):
    case = SHOWN_BY.get(fault, "one layer" if fault.startswith("one layer") else "bytes")
    expected = trained(case, find("numpy").build)[0].state().params
    planted(monkeypatch, *WRONG[fault], once=True)
    assert not close(trained(case, registers())[0].state().params, expected)


#: Faults that the emulator names: what is edited, what takes its place, and the report.
NAMED = {
    "outputs that nobody waits for": ("crew.wait(1);", "", r"before the .* has arrived|race"),
    "losses that the next step overtakes": ("if (number > 0) clerk.wait(1);", "",
                                            r"arrivals have come|has got \d+ bytes"),
    "a lost sample's gradient": ("for (int i = lane; i < U::BLOCKS * QUADS; i += 32) {",
                                 "for (int i = lane; i < U::BLOCKS * QUADS && m != 1; i += 32) {", r"lacks \d+ bytes"),
    "samples requested too early": ("crew.wait(2); // All blocks have sent outputs, and read the batch before this one "
                                    "no more.", "", r"race|has arrived"),
    "one layer's outputs that nobody waits for": ("crew.wait(1);", "", r"before the .* has arrived|race"),
    "one layer's losses that the next step overtakes": ("if (Divided::clerk()) clerk.wait(1);", "",
                                                        r"arrivals have come|has got \d+ bytes"),
    "one layer's lost gradient": ("if (16 * b + 8 * odd + g < D::OUT)", "if (16 * b + 8 * odd + g < D::OUT && g != 1)",
                                  r"lacks \d+ bytes"),
    "one layer's dx that nobody waits for": ("} __syncthreads(); if (Divided::computes()) { for", "for", "race"),
    "one layer's samples that nobody waits for": ("wait_for_copies<1>(); } rule = next;",
                                                  "} rule = next;", r"before|race|copy"),
}  # fmt: skip


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("fault", NAMED)
def test_faults_of_the_exchange_are_named(monkeypatch, fault):
    before, after, message = NAMED[fault]
    planted(monkeypatch, before, after, once=True)
    with pytest.raises(KernelError, match=message):
        trained("one layer" if fault.startswith("one layer") else "bytes", registers("check", order="random", seed=2))


def test_samples_are_rows_of_whole_pieces():
    x = np.arange(30, dtype=np.uint8).reshape(2, 3, 5)
    rows = stored_rows(x)
    assert rows.shape == (2, 16)
    assert (rows[:, :15] == x.reshape(2, 15)).all()
    assert (rows[:, 15] == 0).all()
    assert stored_rows(np.zeros((3, 5), np.float32)).shape == (3, 8)
    assert stored_rows(np.zeros((3, 4), np.float32)).shape == (3, 4)


def test_each_input_has_a_scale_of_its_own():
    x = np.array([[1e30, 0.0, -3.0, 1e-40], [np.inf, 0.0, 1.0, 0.0], [np.nan, 0.0, 2.0, 0.0]], np.float32)
    up, down = input_scales(x)
    assert up.shape == (16,)
    assert (up * down == 1).all()
    assert 2**14 <= 1e30 * up[0] < 2**15
    assert 2**14 <= 3 * up[2] < 2**15
    assert up[1] == up[7] == 1
    assert np.isfinite(up).all()


#: Microseconds of a step on an H200 by net, batch, slots and bytes of a number (docs/notes/persistent.md).
MEASURED = [
    ((784, 256, 10), 64, 0, 1, 6.14), ((784, 256, 10), 64, 1, 1, 7.04), ((784, 256, 10), 64, 2, 1, 9.72),
    ((784, 256, 10), 128, 0, 1, 12.04), ((30, 100, 5), 64, 2, 4, 5.08), ((54, 128, 7), 256, 2, 4, 15.2),
    ((64, 32, 10), 32, 2, 1, 4.35), ((20, 64, 3), 16, 2, 4, 3.24),
    ((784, 10), 128, 0, 1, 3.91), ((784, 10), 128, 2, 1, 4.74), ((784, 10), 16, 0, 1, 2.51), ((3072, 10), 64, 1, 1, 5.01),
    ((20, 3), 32, 0, 4, 2.39), ((784, 26), 64, 0, 1, 4.26), ((54, 7), 64, 0, 4, 2.87), ((1000, 3), 128, 2, 4, 5.70),
]  # fmt: skip


@pytest.mark.parametrize(("widths", "batch", "slots", "pixel_bytes", "us"), MEASURED)
def test_the_estimate_is_near_the_measured_step(widths, batch, slots, pixel_bytes, us):
    limits = Limits("an H200", multiprocessors=132, memory=1 << 36)
    (plan,) = plans(net(*widths), batch, limits, Requested(weights="registers"), slots, pixel_bytes)
    assert plan.shared <= limits.shared_opt_in
    assert plan.cycles / 1750 == pytest.approx(us, rel=0.1)


def test_sizes_beyond_registers_are_not_planned():
    limits, wanted = Limits("a GPU", multiprocessors=132, memory=1 << 36), Requested(weights="registers")
    assert [plan.blocks for plan in plans(net(50, 10, 3), 8, limits, wanted)] == [2]
    assert [plan.blocks for plan in plans(net(50, 100, 3), 8, limits, wanted)] == [8]
    assert [plan.blocks for plan in plans(net(50, 100, 3), 8, limits, replace(wanted, blocks=16))] == [16]
    assert [plan.blocks for plan in plans(net(784, 10), 128, limits, wanted)] == [16]
    for chain, batch, blocks in ((net(50, 257, 3), 8, None), (net(1025, 8, 3), 8, None), (net(50, 8, 17), 8, None),
                                 (net(50, 8, 3), 257, None), (net(50, 99, 3), 8, 4), (net(50, 8, 3), 8, 3),
                                 (net(50, 65), 8, None), (net(50, 8), 513, None), (net(9000, 3), 8, None),
                                 (net(3000, 20), 8, 8)):  # fmt: skip
        assert plans(chain, batch, limits, replace(wanted, blocks=blocks)) == []
    assert plans(net(50, 8, 3), 8, replace(limits, cluster=1), wanted) == []
    assert plans(net(1000, 8, 3), 200, limits, wanted) == []  # a batch of floats is too large for shared memory


@pytest.mark.parametrize(
    ("chain", "options", "capability", "reason"),
    [
        (net(8, 300, 2), {}, (9, 0), "256 hidden units at most, and here are 300"),
        (net(8, 3, 20), {}, (9, 0), "16 classes at most"),
        (net(8, 65), {}, (9, 0), "64 classes at most"),
        (net(5000, 20), {}, (9, 0), "4,096 inputs at most"),
        (net(8, 65), {"weights": "shared", "wait": "cluster"}, (9, 0), "weights=shared is for clusters that divide"),
        (Net("deep", (4,), (Linear(out_features=3), ReLU(), Linear(out_features=4)), MSELoss()), {}, (9, 0),
         "one or two Linear layers with CrossEntropyLoss"),
        (net(8, 3, 2), {"wait": "grid"}, (9, 0), "leave wait out"),
        (net(8, 3, 2), {"exchange": "stored"}, (9, 0), "leave exchange out"),
        (net(8, 3, 2), {"exchange": "sent"}, (9, 0), None),
        (net(8, 3, 2), {}, (8, 0), "weights=global runs on this one"),
    ],
)  # fmt: skip
@needs_compiler
def test_what_registers_cannot_hold_is_refused_in_one_line(monkeypatch, chain, options, capability, reason):
    monkeypatch.setattr(where, "peaks", lambda _: Peaks(capability, 132, 1.5e9))
    rung = find("persistent", **{"device": "emulated", "weights": "registers", **options})
    found = rung.unsupported(chain, TrainConfig(batch_size=4, epochs=1))
    assert found is None if reason is None else reason in str(found)
