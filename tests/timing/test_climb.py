"""The climb believes nobody: what fails, cheats, breaks or is too fast is listed with the reason, and has no time."""

import json
import math
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from climbs import MACHINE
from hurry import weighed_once
from rungs_here import HERE
from shared_cases import made_before

from warpladder import nets
from warpladder.checkpoint import net_from_json, net_to_json
from warpladder.config import TrainConfig
from warpladder.data import load as load_data
from warpladder.data.dataset import Dataset
from warpladder.errors import ConfigError, DataError, RungError
from warpladder.ladder import LADDER, PEERS, find
from warpladder.machine import facts as machine
from warpladder.machine.peaks import TENSOR, Peaks
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Constant, Cosine, StepDecay
from warpladder.proof import verify
from warpladder.proof.cases import Cases
from warpladder.proof.verdict import Verdict
from warpladder.results import Checked, load
from warpladder.rungs.base import Rung
from warpladder.timing import (
    climb,
    entry,
    measure,
    parallel_proofs,
    peak_memory,
    proof_cache,
    proofs_ahead,
    repeat,
    rung_proof,
    schedule,
    task,
)
from warpladder.timing.entry import TimedEntry
from warpladder.timing.entry_result import doubt
from warpladder.timing.parallel_proofs import ConcurrentProofs
from warpladder.timing.peak_memory import PeakMemories, peak_rss
from warpladder.timing.task import ClimbTask, TimingPlan, plan
from warpladder.trainers.base import StepLog, Trainer

NUMPY = find("numpy")
CONFIG = TrainConfig(batch_size=32, learning_rate=0.05)


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch, tmp_path):
    """Short repetitions, no pauses between rungs, a machine that is measured once, cases of proofs that are made once,
    and no proof from elsewhere.
    """
    monkeypatch.setattr("warpladder.proof.Cases", made_before)
    monkeypatch.setattr(schedule, "SETTLE", 0.0)
    monkeypatch.setattr(peak_memory, "peak_rss", weighed_once(peak_memory.peak_rss))
    monkeypatch.setattr(proof_cache.PROOFS, "place", lambda: tmp_path / "proofs")
    monkeypatch.setattr(measure, "PROBE", 0.02)
    monkeypatch.setattr(task, "PROBE", 0.02)
    monkeypatch.setattr(machine, "facts", cached_facts)


@pytest.fixture
def as_own(monkeypatch):
    """Times every rung as one of the package's own, whose timed epochs are part of its training."""
    monkeypatch.setattr(entry, "is_own", lambda rung: True)


@cache
def cached_facts(threads=None, measure=machine.facts):
    return measure(threads)


@pytest.fixture(scope="module")
def data():
    """200 samples of two separable classes, 50 to test on: 7 steps of 32, the last one partial."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 250)
    x = rng.integers(0, 100, (250, 1, 4, 4)) + 100 * y[:, None, None, None]
    x, y = x.astype(np.uint8), y.astype(np.int32)
    return Dataset("toy", x[:200], y[:200], x[200:], y[200:], 1 / 255)


@pytest.fixture(scope="module")
def net():
    return nets.softmax((1, 4, 4), 2)


class Wrapped(Trainer):
    """The numpy rung, from which liars are made."""

    made: list["Wrapped"]

    def __init__(self, net, config, state):
        self.net, self.config = net, config
        self.inner = NUMPY.build(net, config, state)
        self.dataset = None

    def load(self, dataset):
        self.dataset = dataset
        self.inner.load(dataset)

    def run(self, order, first, last):
        return self.inner.run(order, first, last)

    def state(self):
        return self.inner.state()

    def set_state(self, state):
        self.inner.set_state(state)

    def predict(self, x, scale):
        return self.inner.predict(x, scale)

    def close(self):
        self.inner.close()


def rung(build, name="fake", **more):
    return Rung(name, "a fake", "A fake.", build, **more)


def only(build, net, data, config=CONFIG, **more) -> Any:
    """The result of a climb of one rung."""
    settings = {"epochs": 2, "repeats": 2} | {
        key: more.pop(key) for key in ("epochs", "repeats", "budget") if key in more
    }
    return climb(net, data, config, [rung(build, **more)], **settings).rungs[0]


class Sleeper(Wrapped):
    """Takes 2 ms for every step, so that its time is known."""

    def run(self, order, first, last):
        time.sleep(0.002 * (last - first))
        return super().run(order, first, last)


def test_an_honest_rung_is_timed_in_raw_samples(net, data, tmp_path):
    results: Any = climb(net, data, CONFIG, [rung(Sleeper), NUMPY], epochs=12, repeats=3)
    sleeper, honest = results.rungs
    for found in (sleeper, honest):
        assert found.status == "timed", found.reason
        assert found.check.passed and found.check.error <= found.check.bound
        assert found.same_bits is True
        assert len(found.timing.seconds) == len(found.timing.cpu_seconds) == 3
        assert found.timing.epoch_steps == 7 and found.timing.epoch_samples == 200
        assert found.timing.steps % 7 == 0 and found.timing.samples == 200 * found.timing.steps // 7
        assert not found.timing.scaled
        assert found.trained_epochs == 12 and found.test_accuracy > 0.7
        assert found.flops == net.train_flops
        assert found.floor_seconds == pytest.approx(net.train_flops * 200 / results.machine.fma_peak)
        assert 0 < found.floor_seconds < found.timing.seconds_per_epoch
        assert min(found.build_seconds, found.load_seconds, found.first_seconds) >= 0
    assert min(sleeper.timing.epochs) >= 0.014 and sleeper.timing.seconds_per_epoch < 1
    assert sum(sleeper.timing.cpu_seconds) < 0.5 * sum(sleeper.timing.seconds)
    assert sleeper.test_loss == honest.test_loss
    assert results.over_first(honest) == sleeper.timing.seconds_per_epoch / honest.timing.seconds_per_epoch
    assert (results.command, results.stopped, results.notes) == ("", "", ())
    assert results.config["epochs"] == 12
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results


def test_rungs_take_turns(net, data):
    told = []
    results = climb(
        net,
        data,
        CONFIG,
        [rung(Wrapped, "a"), rung(Wrapped, "b")],
        epochs=1,
        repeats=3,
        progress=lambda *step: told.append(step),
    )
    assert [found.status for found in results.rungs] == ["timed", "timed"]
    assert [what[-1] for what, _, _, _ in told if what.startswith("timing")] == list("ababab")
    assert [done for _, done, _, _ in told] == sorted(done for _, done, _, _ in told)
    assert told[-1] == ("done", 12, 12, 0.0)


class WrongGradient(Wrapped):
    """Trains with 1.01 times the learning rate."""

    def __init__(self, net, config, state):
        super().__init__(net, config.but(learning_rate=1.01 * config.learning_rate), state)


def test_what_fails_the_check_is_not_timed(net, data):
    found = only(WrongGradient, net, data)
    assert (found.status, found.timing, found.test_accuracy) == ("failed", None, None)
    assert found.check.passed is False
    assert found.reason == found.check.reason and "update" in found.reason


class Quick(Wrapped):
    """Declares more arithmetic than fits into its time: to the bench, a rung that does not do its work."""

    def flops(self):
        return 1_000_000 * self.net.train_flops


def test_a_time_below_the_floor_is_refused(net, data):
    found = only(Quick, net, data)
    assert (found.status, found.timing) == ("refused", None)
    assert "below the floor" in found.reason and "GFLOP/s" in found.reason


@pytest.mark.parametrize(
    ("precision", "unit", "believed"),
    [
        ("fp64", None, False),
        ("fp32", None, False),
        ("fp32", TENSOR, True),
        ("tf32", None, True),
        ("bf16", None, True),
        ("fp16", None, True),
    ],
)
def test_a_time_is_held_to_the_peak_of_its_unit_in_its_precision(net, data, precision, unit, believed):
    """100 TFLOP/s of an H100: more than its ordinary units do, and no more than its tensor cores can."""
    each = TimedEntry(
        replace(NUMPY, precision=precision, unit=unit), ClimbTask(net, data, CONFIG, epochs=1, repeats=1, budget=1.0)
    )
    each.found["flops"], each.samples, each.seconds = 10**6, 1000, [1000 * 1e6 / 100e12]
    each.peak = Peaks((9, 0), 132, 1.98e9).of(precision, unit)
    told = doubt(each, MACHINE)
    assert (told is None) == believed
    assert told is None or (told.endswith(f"that its GPU can do in {precision}") and "below the floor" in told)


@pytest.mark.parametrize(("precision", "believed"), [("fp32", True), ("fp64", False)])
def test_a_time_in_fp64_is_held_to_the_processors_peak_in_fp64(net, data, precision, believed):
    each = TimedEntry(
        replace(NUMPY, precision=precision), ClimbTask(net, data, CONFIG, epochs=1, repeats=1, budget=1.0)
    )
    each.found["flops"], each.samples, each.seconds = 10**6, 1000, [1000 * 1e6 / (0.75 * MACHINE.fma_peak)]
    told = doubt(each, replace(MACHINE, fma_peak_fp64=MACHINE.fma_peak / 2))
    assert (told is None) == believed, told


def test_a_declared_saving_lowers_the_floor(net, data):
    class Folded(Wrapped):
        def flops(self):
            return self.net.train_flops // 2

    results: Any = climb(net, data, CONFIG, [rung(Folded), NUMPY], epochs=0, repeats=1)
    found, usual = results.rungs
    assert found.status == "timed" and found.floor_seconds == usual.floor_seconds / 2


class Knowing(Wrapped):
    """A base for liars that behave while they are checked: they know the climb's own data set, and how many of them
    were on stage before.

    The first on stage is timed, the second repeats its steps.
    """

    stage: Any = None
    built = 0
    on_stage = False
    number = 0

    def load(self, dataset):
        super().load(dataset)
        self.on_stage = dataset is self.stage
        if self.on_stage:
            self.number = type(self).built
            type(self).built += 1


def test_a_timed_run_that_ends_in_other_bits_is_refused(net, data):
    class Sloppy(Knowing):
        stage = data

        def run(self, order, first, last):
            log = super().run(order, first, last)
            if self.on_stage and self.number == 0:
                state = self.inner.state()
                state.params[-1] = np.nextafter(state.params[-1], np.float32(9))
                self.inner.set_state(state)
            return log

    found = only(Sloppy, net, data)
    assert (found.status, found.timing, found.same_bits) == ("refused", None, False)
    assert "does not end in the bits" in found.reason


def test_a_timed_run_that_reports_other_losses_is_refused(net, data):
    class Silent(Knowing):
        stage = data

        def run(self, order, first, last):
            log = super().run(order, first, last)
            return (
                StepLog(np.zeros_like(log.loss), log.correct, log.size) if self.on_stage and self.number == 0 else log
            )

    found = only(Silent, net, data)
    assert (found.status, found.same_bits) == ("refused", False)


def test_a_timed_run_that_skips_work_is_refused(net, data):
    class Lazy(Knowing):
        stage = data

        def run(self, order, first, last):
            return super().run(order, first, min(last, first + 1) if self.on_stage else last)

    found = only(Lazy, net, data)
    assert found.status == "refused" and "the required batches" in found.reason


def test_replaying_an_epoch_from_memory_gains_nothing(net, data):
    """Every timed epoch is another one, so that a memo of results has nothing to offer while the clock runs."""
    hits = []

    class Remembering(Knowing):
        stage = data
        memo: ClassVar[dict] = {}

        def run(self, order, first, last):
            key = (order, first, last, self.inner.state().params.tobytes())
            if self.on_stage and key in self.memo:
                hits.append(self.number)
                log, state = self.memo[key]
                self.inner.set_state(state)
                return log
            log = super().run(order, first, last)
            self.memo[key] = log, self.inner.state()
            return log

    found = only(Remembering, net, data, epochs=0, repeats=3)
    assert found.status == "timed"
    assert hits == []


def test_work_put_off_until_the_state_is_read_is_on_the_clock(net, data):
    class Later(Knowing):
        stage = data

        def state(self):
            if self.on_stage:
                time.sleep(0.02)
            return super().state()

    found = only(Later, net, data, epochs=0, repeats=2)
    assert found.status == "timed"
    assert min(found.timing.seconds) >= 0.02


def test_a_peer_that_declares_deviations_need_not_repeat_its_bits(net, data):
    class Noisy(Knowing):
        stage = data

        def run(self, order, first, last):
            log = super().run(order, first, last)
            if self.on_stage and self.number == 0:
                state = self.inner.state()
                self.inner.set_state(state.but(params=state.params * np.float32(1 + 1e-6)))
            return log

    found = only(Noisy, net, data, deviations=("its sums run in another order each time",))
    assert (found.status, found.same_bits) == ("timed", False)
    assert found.deviations == ("its sums run in another order each time",)


@pytest.mark.parametrize("place", ["build", "load", "run", "state", "set_state", "predict", "flops"])
@pytest.mark.by_day("build", "run", "predict")
def test_what_breaks_is_listed_and_stops_nobody(place, net, data):
    class Breaking(Knowing):
        stage = data

    def breaks(self, *arguments):
        out = getattr(Knowing, place)(self, *arguments)
        if self.on_stage:
            raise RuntimeError("out of\nluck")
        return out

    def build(net, config, state):
        raise MemoryError("no room")

    if place != "build":
        setattr(Breaking, place, breaks)
    results = climb(net, data, CONFIG, [rung(build if place == "build" else Breaking), NUMPY], epochs=1, repeats=1)
    found, other = results.rungs
    assert (found.status, found.timing) == ("failed", None)
    assert ("no room" if place == "build" else "out of luck") in found.reason
    assert other.status == "timed"


def test_a_rung_that_cannot_train_the_net_says_why(net, data):
    found = only(Wrapped, net, data, unsupported=lambda net, config: "wants a GPU")
    assert (found.status, found.reason, found.check) == ("unsupported", "wants a GPU", None)


def test_an_interrupt_ends_the_climb_and_closes_every_trainer(net, data):
    closed = []

    class Interrupted(Knowing):
        stage = data

        def run(self, order, first, last):
            if self.on_stage and last - first == 7:
                raise KeyboardInterrupt
            return super().run(order, first, last)

        def close(self):
            closed.append(self)
            super().close()

    with pytest.raises(KeyboardInterrupt):
        climb(net, data, CONFIG, [rung(Interrupted)], epochs=1, repeats=1)
    assert closed and closed[-1].on_stage


def test_training_that_diverges_has_no_time(net, data):
    found = only(Wrapped, nets.mlp10((1, 4, 4), 2), data, config=TrainConfig(batch_size=32, learning_rate=1e30))
    assert found.status in ("refused", "failed") and found.timing is None


def test_a_slow_rung_is_timed_on_a_part_of_the_epoch_and_says_so(net, data):
    found = only(Sleeper, net, data, budget=0.008, epochs=200)
    assert found.status == "timed", found.reason
    assert found.timing.scaled and 1 <= found.timing.steps <= 4
    assert found.timing.samples == 32 * found.timing.steps
    assert found.timing.seconds_per_epoch == pytest.approx(np.median(found.timing.seconds) * 200 / found.timing.samples)
    assert found.same_bits is True
    assert found.test_accuracy is None and "not trained for its accuracy: 200 epochs" in found.reason
    assert found.trained_epochs is found.test_loss is None and 0 < found.test_seconds < 1, (
        "a test pass takes far less than training"
    )
    many = replace(data, test_x=data.test_x.repeat(20, 0), test_y=data.test_y.repeat(20))
    assert only(Sleeper, net, many, budget=0.008, epochs=200).test_seconds is None


def test_a_slow_rung_is_still_trained_where_that_is_affordable(net, data):
    slow = only(Sleeper, net, data, budget=0.008, epochs=2)
    whole = only(Wrapped, net, data, epochs=2)
    assert slow.timing.scaled and not whole.timing.scaled
    assert slow.trained_epochs == whole.trained_epochs == 2
    assert slow.test_loss == whole.test_loss


@pytest.mark.parametrize("epochs", [0, 1, 3, 400])
def test_the_test_loss_belongs_to_the_epochs_asked_for_however_many_were_timed(epochs, net, data):
    found = only(Wrapped, net, data, epochs=epochs)
    job = ClimbTask(net, data, CONFIG, epochs, repeats=1, budget=1.0)
    trainer = NUMPY.build(net, CONFIG, job.start())
    trainer.load(data)
    for epoch in range(epochs):
        trainer.run(job.order(epoch), 0, 7)
    logits = trainer.predict(data.test_x, data.scale).astype(np.float64)
    own = logits[np.arange(50), data.test_y]
    assert found.test_loss == pytest.approx(np.mean(np.log(np.exp(logits - own[:, None]).sum(axis=1))), rel=1e-6)
    assert found.test_accuracy == pytest.approx(np.mean(logits.argmax(axis=1) == data.test_y))


def test_a_test_set_without_labels_gives_no_accuracy(net, data):
    found = only(Wrapped, net, data.but(test_y=None))
    assert found.status == "timed" and found.test_accuracy is None and found.trained_epochs is None
    assert "the test set has no labels" in found.reason


def test_a_net_without_classes_has_a_loss_alone(data):
    net = nets.Net("copy", (1, 4, 4), (nets.Flatten(), nets.Linear(out_features=16)), nets.MSELoss())
    found = only(Wrapped, net, data)
    assert found.status == "timed", found.reason
    assert found.test_accuracy is None and found.test_loss > 0


def test_partial_batches_that_are_left_out_do_not_count(net, data):
    found = only(Wrapped, net, data, config=CONFIG.but(drop_last=True))
    assert (found.timing.epoch_steps, found.timing.epoch_samples) == (6, 192)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epochs": -1}, ConfigError),
        ({"epochs": True}, ConfigError),
        ({"repeats": 0}, ConfigError),
        ({"budget": 0}, ConfigError),
        ({"budget": float("nan")}, ConfigError),
        ({"rungs": []}, RungError),
        ({"rungs": [NUMPY, NUMPY]}, RungError),
        ({"net": nets.softmax((1, 5, 5), 2)}, DataError),
        ({"config": CONFIG.but(batch_size=4000, drop_last=True)}, ConfigError),
    ],
)
def test_a_climb_that_makes_no_sense_is_refused(change, error, net, data):
    arguments = {"net": net, "data": data, "config": CONFIG, "rungs": [NUMPY], "epochs": 1, "repeats": 1} | change
    what = [arguments.pop(name) for name in ("net", "data", "config", "rungs")]
    with pytest.raises(error):
        climb(*what, **arguments)


def test_a_plan_takes_whole_epochs_or_what_the_budget_allows(net, data):
    job = ClimbTask(net, data, CONFIG, epochs=1, repeats=1, budget=1.0)
    assert plan(job, 1e-4) == TimingPlan(29, 7)  # 20 ms of 0.7 ms
    assert plan(job, 0.1) == TimingPlan(1, 7)
    assert plan(job, 0.2) == TimingPlan(1, 5)
    assert plan(job, 30.0) == TimingPlan(1, 1)
    full = replace(job, config=CONFIG.but(batch_size=None))
    assert plan(full, 30.0) == TimingPlan(1, 1)


@pytest.mark.parametrize("make", nets.ZOO, ids=lambda make: make.__name__)
def test_nets_survive_their_description(make):
    import json

    assert net_from_json(json.loads(json.dumps(net_to_json(make())))) == make()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_peak_memory_is_that_of_a_process_of_its_own(net, data):
    results: Any = climb(net, data, CONFIG, [NUMPY, rung(Wrapped)], epochs=0, repeats=1)
    honest, fake = results.rungs
    assert (
        20e6 < honest.peak_rss_bytes < 250e6
    )  # an interpreter and NumPy, without numba and without what this test process holds
    assert fake.peak_rss_bytes is None and "peak memory not measured: only a rung of warpladder's ladder" in fake.reason


def test_peak_memory_counts_the_data_once(net):
    """48 MB of pixels more take 48 MB more."""
    sizes: list[Any] = []
    for samples in (100, 3_000_000):
        x, y = np.zeros((samples, 1, 4, 4), np.uint8), np.zeros(samples, np.int32)
        sizes.append(peak_rss(NUMPY, net, Dataset("zeros", x, y, x[:10], y[:10], 1 / 255), CONFIG)[0])
    pixels_and_labels = 3_000_000 * (16 + 4)
    assert 0.98 * pixels_and_labels <= sizes[1] - sizes[0] < 2.5 * pixels_and_labels


@pytest.mark.pairs
@pytest.mark.parametrize(
    "rung",
    [rung for rung in (*HERE, *PEERS) if rung in (*LADDER, *PEERS) and rung.name != "numpy"],
    ids=lambda rung: rung.name,
)
def test_every_rung_and_peer_climbs(rung, tmp_path):
    """Next to numpy, with whose losses its own agree."""
    net = nets.mlp10((1, 4, 4), 3)
    if reason := rung.unsupported(net, CONFIG):
        pytest.skip(reason)
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 255, (90, 1, 4, 4)).astype(np.uint8), rng.integers(0, 3, 90).astype(np.int32)
    data = Dataset("noise", x[:70], y[:70], x[70:], y[70:], 1 / 255)
    results = climb(net, data, CONFIG, (NUMPY, rung), epochs=1, repeats=1)
    for found in results.rungs:
        assert found.status == "timed", f"{found.name}: {found.reason}"
        assert found.same_bits is True or found.deviations
        assert found.peak_rss_bytes is None or found.peak_rss_bytes > 20e6
        assert found.test_loss == pytest.approx(results.rungs[0].test_loss, rel=1e-4)
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results


# What is found is told as it is found, and a climb that is stopped loses none of it.


def told(net, data, rungs, **more):
    """Every call of `found` of a climb, and what it raised."""
    calls: list[Any] = []
    error = None
    settings: dict[str, Any] = {"epochs": 1, "repeats": 2, "found": lambda *call: calls.append(call)} | more
    try:
        climb(net, data, CONFIG, rungs, **settings)
    except BaseException as raised:
        error = raised
    return calls, error


def test_rows_come_as_they_are_found_the_slow_ladder_foot_last(net, data):
    loops = find("loops")
    calls, error = told(net, data, [loops, rung(WrongGradient, "liar"), NUMPY])
    assert error is None
    assert [(news.name, news.status) for _, news in calls if news] == [
        ("liar", "failed"),
        ("numpy", "timed"),
        ("loops", "timed"),
    ]
    first = next(results for results, news in calls if news and news.name == "numpy")
    assert first.stopped.startswith("still under way when this was written, timing, round 1 of 2: numpy")
    assert [(found.name, found.status) for found in first.rungs] == [
        ("loops", "missing"),
        ("liar", "failed"),
        ("numpy", "timed"),
    ]
    assert "not reached" in first.rungs[0].reason
    assert "timed 1 of 2 times; its bits were not compared" in first.rungs[2].reason
    last, news = calls[-1]
    assert (
        news is None and last.stopped == "" and [found.status for found in last.rungs] == ["timed", "failed", "timed"]
    )
    assert not any("its bits" in found.reason for found in last.rungs)


@pytest.mark.parametrize(
    ("phase", "stop"),
    [
        *(
            (phase, KeyboardInterrupt())
            for phase in ("proving", "timing, round 1", "timing, round 2", "testing", "repeating", "measuring the peak")
        ),
        ("repeating", RuntimeError("the bench\nfell over")),
        ("repeating", SystemExit(3)),
    ],
)
def test_whatever_ends_a_climb_what_was_found_is_told_first(phase, stop, net, data, tmp_path):
    def ends(what, done, total, left):
        if what.startswith(phase) and what.endswith("second"):
            raise stop

    calls, error = told(net, data, [rung(Wrapped, "first"), rung(Wrapped, "second")], progress=ends)
    assert error is stop
    results, news = calls[-1]
    assert news is None and phase in results.stopped
    assert results.stopped.startswith("the bench fell over, " if isinstance(stop, RuntimeError) else "stopped, ")
    first, second = results.rungs
    assert first.status == "timed" and len(first.timing.seconds) == (
        2 if phase not in ("proving", "timing, round 1") else 2 - 1
    )
    assert second.status == ("missing" if phase in ("proving", "timing, round 1") else "timed")
    if phase == "timing, round 1":
        assert second.reason.startswith("proven, but not timed: ")
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results


def test_a_gpu_that_nothing_can_be_asked_about_ends_no_climb(net, data, monkeypatch):
    """torch may train on a GPU where our own libraries, which know its name, are not installed."""
    from warpladder.device import gpu
    from warpladder.errors import DeviceError

    def fails(index=0):
        raise DeviceError("cuda-core is not installed")

    class OnAGpu(Wrapped):
        def peak(self):
            return 1e15

    monkeypatch.setitem(vars(gpu), "facts", fails)  # whose own needs CUDA's libraries even to be looked up
    results: Any = climb(net, data, CONFIG, [rung(OnAGpu), NUMPY], epochs=0, repeats=1)
    there, here = results.rungs
    assert (there.status, here.status, results.machine.gpu) == ("timed", "timed", None)
    assert results.notes == ("what the GPU is could not be found out: cuda-core is not installed",)
    assert there.floor_seconds == pytest.approx(net.train_flops * 200 / 1e15)
    assert (
        results.peak(there) == pytest.approx(1e15)
        and results.share(there) == there.floor_seconds / there.timing.seconds_per_epoch
    )
    assert results.on_cpu(here) and not results.on_cpu(there)


def test_what_the_proof_cannot_judge_is_not_timed_and_not_called_failed(net, data, monkeypatch):
    def unsure(*arguments, **more):
        return replace(
            verify(*arguments, **more),
            passed=False,
            judged=False,
            reason="no samples were found that are fit to judge by",
        )

    monkeypatch.setattr(rung_proof, "verify", unsure)
    found = only(Wrapped, net, data)
    assert (found.status, found.timing, found.check.passed) == ("unjudged", None, False)
    assert found.reason == "no samples were found that are fit to judge by"


def test_a_repetition_that_leaves_out_work_is_the_one_that_is_repeated(net, data):
    """One of three is wrong, and quicker for it: the fastest is compared."""

    class Once(Knowing):
        stage = data
        calls = 0

        def run(self, order, first, last):
            if not (self.on_stage and self.number == 0 and order.epoch == 1):
                if self.on_stage:
                    time.sleep(0.03)
                return super().run(order, first, last)
            log = self.inner.run(order, first, last)
            state = self.inner.state()
            state.params[0] += 1
            self.inner.set_state(state)
            return log

    found = only(Once, net, data, epochs=0, repeats=3)
    assert (found.status, found.same_bits) == ("refused", False)
    assert "(repetition 2)" in found.reason


def test_the_accuracy_is_that_of_the_timed_run_trained_on(net, data, as_own):
    """What the repetitions trained is not trained again."""
    steps = []

    class Counting(Knowing):
        stage = data

        def run(self, order, first, last):
            if self.on_stage and self.number == 1:
                steps.append(last - first)
            return super().run(order, first, last)

        def run_epochs(self, orders):
            return [self.run(order, 0, self.config.steps(order.n)) for order in orders]

    class Slow(Counting, Sleeper):
        pass

    found = only(Slow, net, data, epochs=5, repeats=3, budget=1.0)
    usual = only(Wrapped, net, data, epochs=5)
    assert found.status == "timed", found.reason
    assert found.trained_epochs == 5 and found.test_loss == usual.test_loss
    timed = found.timing.steps // 7
    assert sum(steps) == 7 * (timed + 5 % timed if 3 * timed >= 5 else timed + 5 - 3 * timed)


def test_a_first_look_begins_no_rung_late_and_takes_no_accuracy(net, data, monkeypatch):
    monkeypatch.setattr("warpladder.timing.FIRST_LOOK", 0.0)
    late: Any = climb(net, data, CONFIG, [NUMPY], epochs=5, repeats=1, quick=True)
    assert (late.rungs[0].status, late.rungs[0].reason) == ("missing", "a first look had no time left for it")
    monkeypatch.setattr("warpladder.timing.FIRST_LOOK", 60.0)
    look: Any = climb(net, data, CONFIG, [NUMPY], epochs=5, repeats=1, quick=True)
    (found,) = look.rungs
    assert (found.status, found.same_bits) == ("timed", True)
    assert (found.test_accuracy, found.trained_epochs, found.peak_rss_bytes) == (None, None, None)
    assert found.reason == "" and look.notes[0].startswith("a first look")


# What proofs are made with is made once.


def test_rungs_that_are_proven_alike_share_their_cases_and_their_verdicts_stay(net, data, monkeypatch):
    made = []

    def noted(*what):
        made.append(what)
        return Cases(*what)

    monkeypatch.setattr(sys.modules["warpladder.proof"], "Cases", noted)
    alone = verify(NUMPY.build, net, CONFIG, dataset=data, reach=64)
    shared: Any = {}
    first, second = (verify(NUMPY.build, net, CONFIG, dataset=data, shared=shared, reach=64) for _ in range(2))
    assert len(made) == 2
    assert alone.rows == first.rows == second.rows and alone.checks == first.checks == second.checks
    assert (
        verify(NUMPY.build, net, CONFIG.but(batch_size=16), dataset=data, shared=shared).rows != first.rows
        and len(made) == 3
    )
    verify(NUMPY.build, net, CONFIG, dataset=data, shared=shared, precision="tf32")
    assert len(made) == 4


def test_cases_that_a_liar_may_have_written_into_are_made_anew(net, data, monkeypatch):
    monkeypatch.setattr("warpladder.proof.Cases", Cases)

    class Writes(Wrapped):
        def load(self, dataset):
            super().load(dataset)
            dataset.train_x[:] = 0

    shared: Any = {}
    assert verify(NUMPY.build, net, CONFIG, dataset=data, shared=shared).passed and len(shared) == 1
    assert not verify(Writes, net, CONFIG, dataset=data, shared=shared).passed and shared == {}
    assert verify(NUMPY.build, net, CONFIG, dataset=data, shared=shared).passed


# Proofs side by side.


@pytest.mark.slow
def test_where_cores_allow_others_are_proven_in_processes_of_their_own(net, data, monkeypatch):
    """All but the first, which does not wait for them, and those that no process can build."""
    monkeypatch.setattr(machine, "cores", lambda: 8)
    said: list[str] = []
    count, results = proofs(
        net,
        data,
        monkeypatch,
        [find("loops"), NUMPY, find("native"), rung(Wrapped, "mine")],
        progress=lambda *step: said.append(step[0]),
        kept=False,
    )
    assert [found.status for found in results.rungs] == ["timed"] * 4
    assert count == 2, "numpy, and the one from outside"
    assert "proving 2 rungs side by side" in said
    assert (
        said.index("proving 2 rungs side by side")
        < said.index("timing, round 1 of 1: numpy")
        < said.index("timing, round 1 of 1: native")
    )
    alone = proofs(net, data, monkeypatch, [find("loops"), NUMPY], kept=False)[1]
    told = results.rungs[0].check
    again = alone.rungs[0].check
    assert told.passed and again.passed
    # which check comes closest to its bound depends on the reach, and that on the pace of the trainer
    reasons = [reason.partition(", reach ")[0].rpartition("(seed ")[2] for reason in (told.reason, again.reason)]
    assert reasons[0] == reasons[1] != ""


def test_without_room_for_a_copy_of_the_data_everybody_is_proven_alone(net, data, monkeypatch):
    def full(*what: Any, **arrays: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(np, "savez", full)
    count, results = proofs(net, data, monkeypatch, [NUMPY, find("loops"), find("native")], kept=False)
    assert count == 3 and [found.status for found in results.rungs] == ["timed"] * 3


def test_a_rung_that_chooses_by_a_clock_is_proven_alone(net, data, monkeypatch):
    assert [each.name for each in LADDER if each.tunes] == ["graph", "tensor"]
    monkeypatch.setattr(machine, "cores", lambda: 8)
    asked: list[str] = []

    class Passing(ConcurrentProofs):
        def add(self, rungs: Any) -> None:
            asked.extend(each.name for each in rungs)

    monkeypatch.setattr(proofs_ahead, "ConcurrentProofs", Passing)
    tuning = replace(find("loops"), tunes=True)
    monkeypatch.setattr(proofs_ahead, "is_own", lambda each: True)
    results: Any = climb(
        net, data, CONFIG, [NUMPY, tuning, find("native"), rung(Wrapped)], epochs=0, repeats=1, kept=False
    )
    assert asked == ["native", "fake"] and [found.status for found in results.rungs] == ["timed"] * 4


@pytest.mark.slow
def test_concurrent_proofs_stop_while_something_is_timed(net, data):
    task = ClimbTask(net, data, CONFIG, 1, 1, 0.1)
    proofs = ConcurrentProofs(task, 2)
    try:
        proofs.add([NUMPY, find("loops")])
        with proofs.paused():
            assert proofs.next(time.perf_counter() + 0.5) is None and proofs.waiting == {"numpy", "loops"}
        got = dict(each for each in (proofs.next(), proofs.next()) if each is not None)
        assert sorted(got) == ["loops", "numpy"] and all(checked and checked.passed for checked in got.values())
        assert proofs.next() is None
        proofs.add([NUMPY])
    finally:
        proofs.close()
    assert not proofs._children


def test_what_cannot_weigh_samples_is_not_here_for_data_with_weights(net, data):
    weights = np.linspace(0.5, 2, len(data.train_x)).astype(np.float32)
    cannot = rung(Wrapped, "cannot", weighs_samples=False)
    weighted: Any = climb(net, data.but(train_weight=weights), CONFIG, [NUMPY, cannot], epochs=0, repeats=1)
    assert [found.status for found in weighted.rungs] == ["timed", "unsupported"]
    assert weighted.rungs[1].reason == "it has no weights of samples, and toy has some"
    assert only(Wrapped, net, data, weighs_samples=False).status == "timed"
    assert [each.name for each in LADDER + PEERS if not each.weighs_samples] == ["persistent", "sklearn"]


class PausedProcess:
    """Process that never ends; while its output is waited for, a clock moves, and pauses come."""

    def __init__(self, proofs, patch, pauses):
        self.proofs, self.pauses, self.now, self.sent = proofs, list(pauses), 1000.0, []
        patch.setattr(parallel_proofs, "perf_counter", lambda: self.now)

    def communicate(self, text, timeout):
        self.sent.append(text)
        running, paused = self.pauses.pop(0) if self.pauses else (timeout, 0)
        assert running <= timeout, "it would have been ended before"
        self.now += running
        if paused:
            with self.proofs.paused():
                self.now += paused
        raise subprocess.TimeoutExpired("a proof", timeout)


@pytest.mark.parametrize("pauses", [[], [(10, 500)], [(100, 90), (79, 1000), (0.5, 1)]])
def test_pauses_do_not_count_in_the_limit_of_a_proof(pauses, net, data, monkeypatch):
    proofs = ConcurrentProofs(ClimbTask(net, data, CONFIG, 1, 1, 0.1), 2)
    try:
        process: Any = PausedProcess(proofs, monkeypatch, pauses)
        with pytest.raises(subprocess.TimeoutExpired):
            proofs._output(process, "the order")
        assert process.now == pytest.approx(1000 + parallel_proofs.LIMIT + sum(paused for _, paused in pauses))
        assert process.sent == ["the order", *[None] * len(pauses)]
    finally:
        proofs.close()


def test_a_proof_that_is_given_up_ends_and_gives_no_verdict(net, data, monkeypatch):
    forever = "import time; print('begun', flush=True); time.sleep(1e6)"
    real, started = subprocess.Popen, []

    def sleeping(command, **more):
        started.append(real([sys.executable, "-c", forever], **more))
        return started[-1]

    monkeypatch.setattr("subprocess.Popen", sleeping)
    proofs = ConcurrentProofs(ClimbTask(net, data, CONFIG, 1, 1, 0.1), 1)
    try:
        proofs.add([find("native"), find("loops")])
        assert proofs.next(time.perf_counter() + 0.5) is None
        proofs.drop({"native", "loops"})
        assert proofs.waiting == set() and proofs.next() is None
        assert started[0].wait(timeout=10) == -signal.SIGKILL
        monkeypatch.setattr("subprocess.Popen", real)
        proofs.add([NUMPY])
        name, checked = proofs.next() or ("", None)
        assert name == "numpy" and checked is not None and len(started) == 1
    finally:
        proofs.close()


@pytest.mark.parametrize("is_weighted", [True, False])
def test_data_whose_samples_have_weights_are_proven_in_this_process(is_weighted, net, data, monkeypatch):
    """The copy for processes of their own lacks the weights."""
    monkeypatch.setattr(machine, "cores", lambda: 8)
    begun: list[str] = []

    class Noted(ConcurrentProofs):
        def add(self, rungs: Any) -> None:
            begun.extend(each.name for each in rungs)

    monkeypatch.setattr(proofs_ahead, "ConcurrentProofs", Noted)
    weights = np.linspace(0.5, 2, len(data.train_x)).astype(np.float32)
    weighed = ClimbTask(net, data.but(train_weight=weights) if is_weighted else data, CONFIG, 1, 1, 0.1)
    ahead = proofs_ahead.ProofsAhead(weighed, lambda entry: 1, lambda entry: 0, lambda doing: None)
    entries = [TimedEntry(each, weighed) for each in (NUMPY, find("loops"))]
    try:
        ahead.begin(entries)
        ahead.prove(entries[0], entries[1:], math.inf)
        assert begun == ([] if is_weighted else ["numpy", "loops", "numpy"]) and not ahead.waiting
    finally:
        ahead.end()
    if is_weighted:
        measure.check(entries[0], None)
        assert entries[0].alive and entries[0].found["check"].passed


@pytest.mark.parametrize("says", ["nothing", "that it failed", "no JSON"])
def test_a_process_that_does_not_pass_a_rung_says_nothing_about_it(says, net, data, monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 8)
    failed = '{"passed": false, "error": 1.0, "bound": 0.1, "reason": "no room"}'
    program = {
        "nothing": "raise SystemExit(3)",
        "that it failed": f"print({failed!r})",
        "no JSON": "print('warming up')",
    }[says]
    real = subprocess.Popen
    monkeypatch.setattr("subprocess.Popen", lambda command, **more: real([sys.executable, "-c", program], **more))
    count, results = proofs(net, data, monkeypatch, [NUMPY, find("loops"), find("native")], kept=False)
    assert count == 3 and [found.status for found in results.rungs] == ["timed"] * 3


def test_while_the_last_proofs_are_made_others_are_weighed_and_none_while_a_time_is_taken(net, data, monkeypatch):
    """Each rung once; who has no process of its own yet when times begin waits until they have been taken."""
    monkeypatch.setattr(machine, "cores", lambda: 8)
    happened: list[str] = []
    lock = threading.Lock()

    def weigh(rung: Any, *rest: Any) -> tuple[int, str]:
        with lock:
            happened.append(f"begin {rung.name}")
        time.sleep(0.2)
        with lock:
            happened.append(f"end {rung.name}")
        return 1 << 20, ""

    class Passing(ConcurrentProofs):
        def add(self, rungs: Any) -> None:
            self.order = sorted((each.name for each in rungs), key=lambda name: name == "native")  # which comes last
            self.waiting |= set(self.order)

        def next(self, until: float = math.inf) -> Any:
            time.sleep(0.1)
            if not self.order or until == 0.0:
                return None
            self.waiting.discard(self.order[0])
            return self.order.pop(0), Checked(True, 0.0, 1.0, "", 0.1)

    monkeypatch.setattr(peak_memory, "peak_rss", weigh)
    monkeypatch.setattr(proofs_ahead, "ConcurrentProofs", Passing)
    monkeypatch.setattr(proofs_ahead, "is_own", lambda each: True)
    rungs = [NUMPY, rung(Wrapped, "mine"), find("loops"), find("native")]
    said = lambda *step: happened.append(step[0])  # noqa: E731
    results: Any = climb(net, data, CONFIG, rungs, epochs=0, repeats=2, kept=False, progress=said)
    assert [found.status for found in results.rungs] == ["timed"] * 4
    assert all(found.peak_rss_bytes == 1 << 20 for found in results.rungs)
    times = [number for number, what in enumerate(happened) if what.startswith("timing")]
    weighed = {
        name: (happened.index(f"begin {name}"), happened.index(f"end {name}"))
        for name in ("numpy", "loops", "native", "mine")
    }
    assert all(happened.count(f"begin {name}") == 1 for name in weighed)
    early = [name for name, (_, end) in weighed.items() if end < times[3]]
    assert not any(begin < at < end for begin, end in weighed.values() for at in times)
    assert early == ["numpy", "mine"], "no slow rung, and not the one whose proof came last"
    assert all(begin > times[-1] for name, (begin, _) in weighed.items() if name not in early)


class OnGpu(Wrapped):
    """Says that a GPU trains."""

    def peak(self):
        return 1e15


def test_whatever_gets_seconds_is_run_while_nobody_is_weighed(net, data, monkeypatch):
    """Timed steps and test passes come first, a GPU's rungs are repeated before this CPU's, and peers are weighed
    first.
    """
    told: list[str] = []

    def watched(name: str, work: Any) -> Any:
        def wrapped(first: Any, *rungs: Any) -> None:
            told.append(f"{name} {rungs[0].name if isinstance(first, PeakMemories) else first.rung.name}")
            work(first, *rungs)

        return wrapped

    monkeypatch.setattr(schedule, "replay", watched("repeat", repeat.replay))
    monkeypatch.setattr(schedule, "time_test", watched("test", repeat.time_test))
    monkeypatch.setattr(PeakMemories, "add", watched("weigh", PeakMemories.add))
    rungs = [NUMPY, rung(OnGpu, "fast"), rung(Wrapped, "theirs", peer=True)]
    results: Any = climb(net, data, CONFIG, rungs, epochs=2, repeats=2, kept=False)
    assert [(found.status, found.same_bits) for found in results.rungs] == [("timed", True)] * 3
    assert all(
        found.test_accuracy == results.rungs[0].test_accuracy and found.test_seconds > 0 for found in results.rungs
    )
    assert told == [
        *(f"test {name}" for name in ("numpy", "fast", "theirs")),
        *(f"weigh {name}" for name in ("theirs", "numpy", "fast")),
        *(f"repeat {name}" for name in ("fast", "numpy", "theirs")),
    ]


class Slow(Knowing):
    """Takes a quarter of a second for an epoch, so that a repetition is one epoch; longer where it trains without a
    clock.
    """

    scored: ClassVar[list[int]] = []  # which trainer made each test pass

    def run(self, order, first, last):
        if self.on_stage:
            time.sleep((0.04 if self.number == 0 else 0.1) * (last - first))
        return super().run(order, first, last)

    def predict(self, x, scale):
        if self.on_stage:
            self.scored.append(self.number)
        return super().predict(x, scale)


@pytest.mark.parametrize(("epochs", "scored"), [(2, [0, 0]), (3, [0, 0, 1])])
def test_no_seconds_are_taken_where_other_processes_are_weighed(net, data, epochs, scored, as_own):
    """The trainer that was timed makes the timed test pass; epochs that are trained later are said to take what the
    timed ones took.
    """

    class Slower(Slow):
        stage = data
        scored: ClassVar[list[int]] = []

    found = only(Slower, net, data, epochs=epochs)
    assert found.status == "timed" and found.timing.of_epochs == 1 and len(found.timing.seconds) == 2
    assert found.trained_epochs == epochs and found.test_loss == only(Wrapped, net, data, epochs=epochs).test_loss
    assert Slower.scored == scored
    assert found.history.seconds == pytest.approx([*found.timing.seconds, found.timing.seconds_per_epoch][:epochs])
    assert 0 < found.test_seconds < 0.2


# Proofs that are kept.


@pytest.mark.parametrize("flops", [0, -5, 2.5, True, None, 10**400])
@pytest.mark.by_day("None", "-5", "2.5")
def test_a_rung_that_does_not_say_its_flops_is_refused_and_the_climb_goes_on(net, data, flops):
    class Vague(Wrapped):
        def flops(self):
            return flops

    results: Any = climb(net, data, CONFIG, [rung(Vague, "vague"), NUMPY], epochs=0, repeats=1, quick=True)
    assert [found.status for found in results.rungs] == ["refused", "timed"]
    assert "flops() wants a whole number from 1 to 2^63" in results.rungs[0].reason and results.rungs[0].flops is None


def test_a_history_has_every_epoch_that_was_trained(net, data):
    from warpladder.train import train

    results: Any = climb(net, data, CONFIG, [NUMPY], epochs=4, repeats=2, budget=2.0)
    (found,) = results.rungs
    history, timing = found.history, found.timing
    timed_epochs = timing.steps // timing.epoch_steps * len(timing.seconds)
    assert len(history.loss) == len(history.accuracy) == len(history.seconds) == max(4, timed_epochs)
    run = train(net, data, CONFIG.but(epochs=4), rung="numpy")
    assert np.allclose(history.loss[:4], [log.train_loss or 0.0 for log in run.history], rtol=1e-9)
    assert np.allclose(history.accuracy[:4], [log.train_accuracy or 0.0 for log in run.history], rtol=1e-9)
    assert sum(history.seconds[:timed_epochs]) == pytest.approx(sum(timing.seconds))
    assert all(seconds > 0 for seconds in history.seconds) and 0 < found.test_seconds < 10


def test_an_epoch_of_which_a_part_was_timed_is_in_no_history(net, data):
    results: Any = climb(net, data, CONFIG, [NUMPY], epochs=0, repeats=1, budget=1e-9)
    (found,) = results.rungs
    assert found.timing.scaled and found.history is None


#: Verdicts of honest trainers by what builds them: a proof takes most of the time of a climb that only counts proofs.
_verdicts: dict[Any, Verdict] = {}


def proofs(net, data, monkeypatch, rungs=(NUMPY,), config=CONFIG, **more):
    """Number of proofs that a climb of honest rungs makes anew, and its results. Each trainer is proven once."""
    asked = []

    def counted(build, *arguments, **settings):
        asked.append(build)
        if build not in _verdicts:
            _verdicts[build] = verify(build, *arguments, **settings)
        return _verdicts[build]

    with monkeypatch.context() as patched:
        patched.setattr(rung_proof, "verify", counted)
        patched.setattr(
            peak_memory, "peak_rss", lambda *what: (1 << 20, "")
        )  # no process of its own: memory is not what is asked here
        results: Any = climb(net, data, config, list(rungs), epochs=0, repeats=1, **more)
    return len(asked), results


def test_a_proof_is_kept_and_said_to_be(net, data, monkeypatch):
    count, results = proofs(net, data, monkeypatch)
    assert count == 1 and results.rungs[0].check.kept is False and results.rungs[0].check.seconds > 0
    count, again = proofs(net, data, monkeypatch)
    assert count == 0
    assert again.rungs[0].check == replace(results.rungs[0].check, kept=True)
    assert again.rungs[0].status == "timed"
    assert proofs(net, data, monkeypatch, kept=False)[0] == 1


def test_who_needs_no_new_proof_comes_first(net, data, monkeypatch):
    proofs(net, data, monkeypatch)
    calls, _ = told(net, data, [rung(Wrapped, "new"), NUMPY], repeats=1)
    assert [news.name for _, news in calls if news] == ["numpy", "new"]


@pytest.mark.parametrize(
    "what", ["net", "sample", "label", "scale", "rate", "threads", "library", "setting", "source", "processor", "gpu"]
)
def test_a_proof_of_anything_else_is_not_taken(what, net, data, monkeypatch):
    proofs(net, data, monkeypatch)
    config, rung = CONFIG, NUMPY
    if what == "net":
        net = nets.mlp10((1, 4, 4), 2)
    elif what == "sample":
        x = data.train_x.copy()
        x[17, 0, 1, 1] ^= 1
        data = data.but(train_x=x)
    elif what == "label":
        y = data.train_y.copy()
        y[3] ^= 1
        data = data.but(train_y=y)
    elif what == "scale":
        data = data.but(scale=1 / 256)
    elif what == "rate":
        config = CONFIG.but(learning_rate=0.051)
    elif what == "threads":
        rung = NUMPY.but(threads=1)
    elif what == "library":
        monkeypatch.setattr(proof_cache, "_installed", proof_cache._installed.__wrapped__)  # which finds them once
        monkeypatch.setattr("importlib.metadata.distributions", list)
    elif what == "setting":
        monkeypatch.setenv("OPENBLAS_CORETYPE", "Penryn")  # no kind that the night run pretends
    elif what == "source":
        monkeypatch.setattr(proof_cache, "_sources", lambda: "another")
    elif what == "processor":
        monkeypatch.setattr(machine, "host", lambda: ("znver9", ()))
    elif what == "gpu":
        monkeypatch.setattr(proof_cache, "_gpu", lambda: {"name": "another"})
    assert proofs(net, data, monkeypatch, [rung], config=config)[0] == 1


def test_a_rung_from_outside_is_proven_every_time(net, data, monkeypatch):
    from warpladder import ladder

    outside = rung(Wrapped, "mine")
    for _ in range(2):
        assert proofs(net, data, monkeypatch, [outside])[0] == 1
    monkeypatch.setattr(
        ladder, "LADDER", (*ladder.LADDER, outside)
    )  # on the ladder, but built by what is not the package's
    for _ in range(2):
        assert proofs(net, data, monkeypatch, [outside])[0] == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b'{"passed": true}', b'{"passed": true, "error": 2.0, "bound": 1.0, "reason": "", "kept": false}',
                b'{"passed": true, "error": null, "bound": 1.0, "reason": ""}', b'{"passed": false, "error": 0.0, "bound": 1.0, "reason": ""}'],
)  # fmt: skip
def test_a_damaged_proof_is_none(content, net, data, monkeypatch):
    proofs(net, data, monkeypatch)
    (path,) = proof_cache.PROOFS.place().iterdir()
    for stored in (content, proof_cache.PROOFS.sealed(content)):
        path.write_bytes(stored)
        assert proofs(net, data, monkeypatch)[0] == 1


def test_a_proof_that_failed_or_cannot_be_stored_is_not_kept(net, data, monkeypatch, tmp_path):
    assert only(WrongGradient, net, data).status == "failed"
    assert not proof_cache.PROOFS.place().exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(proof_cache.PROOFS, "place", lambda: tmp_path / "file" / "proofs")
    with pytest.warns(UserWarning, match="proofs cannot be stored"):
        assert proofs(net, data, monkeypatch)[1].rungs[0].status == "timed"


def test_the_sources_of_a_proof_are_all_of_the_package(monkeypatch, tmp_path):
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "sum.cu").write_text("a")
    monkeypatch.setattr(proof_cache, "PACKAGE", tmp_path)
    found = set()
    for name, text in (("ops/sum.cu", "a"), ("ops/sum.cu", "b"), ("ops/sum.cuh", "a"), ("tool.py", "a")):
        (tmp_path / name).write_text(text)
        found.add(proof_cache._sources.__wrapped__())
    assert len(found) == 4


# The command that repeats a climb from Python.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ["softmax", "--rungs numpy", "--epochs 1", "--repeats 1", "--budget 2"]),
        ({"learning_rate": 0.05, "momentum": 0.8, "nesterov": True, "seed": 3}, ["--learning-rate 0.05", "--momentum 0.8", "--nesterov", "--seed 3"]),
        ({"batch_size": None, "shuffle": False, "drop_last": True}, ["--batch-size full", "--no-shuffle", "--drop-last"]),
        ({"optimizer": Adam(0.002, betas=(0.8, 0.99))}, ["--optimizer adam:learning_rate=0.002:betas=0.8+0.99"]),
        ({"optimizer": Adam()}, ["--optimizer adam"]),
        ({"optimizer": AdamW(weight_decay=0), "schedule": Cosine(warmup=1)}, ["--optimizer adamw:weight_decay=0", "--schedule cosine:warmup=1"]),
        ({"schedule": Constant(warmup=0.5)}, ["--schedule constant:warmup=0.5"]),
        ({"log_every": 7, "loss_every": 10}, ["--log-every 7", "--loss-every 10"]),
        ({"optimizer": SGD(), "schedule": StepDecay(every=5, gamma=0.5)}, ["--learning-rate 0.01", "--schedule stepdecay:every=5:gamma=0.5"]),
    ],
)  # fmt: skip
def test_a_climb_from_python_names_the_command_that_repeats_it(change, words):
    from warpladder.cli import group
    from warpladder.cli.shared.request import run_request
    from warpladder.config import RECIPES
    from warpladder.data import load as load_data
    from warpladder.timing.repeat_command import repeat_command
    from warpladder.train.resolve import resolve_task

    digits = load_data("digits")
    config = RECIPES["softmax"].but(**change)
    command = repeat_command(ClimbTask(nets.softmax(digits.in_shape), digits, config, 1, 1, 2.0), [NUMPY])
    assert [word for word in words if word not in command] == []
    context = group.commands["climb"].make_context("climb", command.split()[2:])
    assert resolve_task(run_request("softmax", context.params)).config == config.but(epochs=1, initial="he")


def test_a_climb_on_standardised_data_is_repeated_on_such_data():
    import warpladder as wl

    digits = wl.data.load("digits", standardize=True)
    results: Any = climb("softmax", digits, None, ["numpy"], epochs=0, repeats=1)
    assert "--scale-features" in results.command.split()
    results = climb("softmax", digits.standardized(), None, ["numpy"], epochs=0, repeats=1)
    assert results.command == ""  # these arrays are the program's own


def test_a_net_of_ones_own_has_no_command():
    mine = nets.Net("mine", (1, 8, 8), (nets.Flatten(), nets.Linear(out_features=10)), nets.CrossEntropyLoss())
    assert climb(mine, load_data("digits"), CONFIG, [NUMPY], epochs=0, repeats=1).command == ""


def test_data_of_a_programs_own_have_no_command(net, data):
    from warpladder.data import load as load_data

    assert climb(net, data, CONFIG, [NUMPY], epochs=0, repeats=1).command == ""
    part = load_data("digits", limit=100)
    assert climb(nets.softmax((1, 8, 8)), part, CONFIG, [NUMPY], epochs=0, repeats=1).command == ""


def test_a_slow_rung_is_proven_on_cut_batches_and_says_so():
    data = load_data("digits", limit=130)
    net = nets.cnn((1, 8, 8))
    slow = replace(find("numpy"), name="slow", proof_flops=20 * net.train_flops)
    results = climb(
        net, data, TrainConfig(batch_size=64), [slow, find("numpy")], epochs=0, repeats=1, budget=0.1, kept=False
    )
    cut, whole = (rung.check for rung in results.rungs)
    assert cut is not None and whole is not None and cut.passed
    assert cut.reason.endswith("; proven on batches of 20 samples in place of 64, which would take long")
    assert "in place of" not in whole.reason


# How often losses are computed and read


class Noted(Wrapped):
    """Writes down the ranges and epochs that it is asked for."""

    asked: ClassVar[list[Any]] = []

    def run(self, order, first, last):
        self.asked.append((order.epoch, first, last))
        return super().run(order, first, last)

    def run_epochs(self, orders):
        self.asked.append([order.epoch for order in orders])
        return self.inner.run_epochs(orders)


class NotedAfterLoading(Noted):
    """Forgets what was asked of trainers before, those of the proof."""

    def load(self, dataset):
        self.asked.clear()
        super().load(dataset)


@pytest.mark.parametrize(
    ("log_every", "calls"),
    [
        (None, [[0, 1, 2, 3, 4]]),
        (3, [(epoch, *part) for epoch in range(5) for part in ((0, 3), (3, 6), (6, 7))]),
        (7, [(epoch, 0, 7) for epoch in range(5)]),
        (13, [(epoch, 0, 7) for epoch in range(5)]),
        (14, [[0, 1], [2, 3], [4]]),
        (1000, [[0, 1, 2, 3, 4]]),
    ],
)
def test_the_host_reads_losses_as_often_as_asked(log_every, calls, net, data):
    config, asked = CONFIG.but(log_every=log_every), Noted.asked
    job = ClimbTask(net, data, config, epochs=1, repeats=1, budget=1.0)
    ends = []
    for build in (Noted, Wrapped):
        trainer = build(net, config, job.start())
        trainer.load(data)
        asked.clear()
        logs = task.train_in_calls(trainer, config, [job.order(epoch) for epoch in range(5)], 7)
        assert [log.size.tolist() for log in logs] == [[32] * 6 + [8]] * 5
        ends.append((measure.log_bits(logs), trainer.state().bits()))
        assert asked == (calls if build is Noted else [])
    assert ends[0] == ends[1]
    trainer = Noted(net, config, job.start())
    trainer.load(data)
    asked.clear()
    task.train_in_calls(trainer, config, [job.order(0), job.order(1)], 5)  # a part of an epoch
    assert asked == [(epoch, *part) for epoch in (0, 1) for part in ([(0, 3), (3, 5)] if log_every == 3 else [(0, 5)])]


def test_what_is_timed_reads_losses_as_often_as_asked_and_the_table_says_so(net, data, as_own):
    for log_every, words in ((2, "losses read every 2 steps"), (1, "losses read every step"), (None, "")):
        Noted.asked.clear()
        results: Any = climb(
            net, data, CONFIG.but(log_every=log_every), [rung(NotedAfterLoading)], epochs=1, repeats=2, kept=False
        )
        assert results.rungs[0].status == "timed", results.rungs[0].reason
        assert results.config["log_every"] == log_every
        assert words in " ".join(results.table().split()) and ("losses read" in results.table()) == bool(words)
        # since the last load: the fastest repetition again, whichever that is
        whole = [each for each in Noted.asked if isinstance(each, list)]
        assert bool(whole) == (log_every is None)
        if log_every is not None:
            parts = [each for each in Noted.asked if isinstance(each, tuple)]
            assert parts and all(last - first <= log_every for _, first, last in parts)
    old = replace(
        results,
        config={name: value for name, value in results.config.items() if name != "loss_every"} | {"log_every": 100},
    )
    assert "read every" not in old.table()  # climbs of older versions read losses once an epoch, whatever was asked for


def test_a_plan_has_as_many_epochs_with_losses_as_training(net, data):
    job = ClimbTask(net, data, CONFIG.but(loss_every=10), epochs=1, repeats=1, budget=1.0)
    assert plan(job, 1e-4) == TimingPlan(30, 7)  # 20 ms of 7 ms
    assert plan(job, 0.01) == TimingPlan(10, 7)
    assert plan(job, 0.02) == TimingPlan(10, 5)
    assert plan(job, 30.0) == TimingPlan(10, 1)
    rare = replace(job, config=CONFIG.but(loss_every=1000))
    assert (
        plan(rare, 1e-4) == TimingPlan(1000, 7)
        and plan(rare, 1e-3) == TimingPlan(142, 7)
        and plan(rare, 0.1) == TimingPlan(1, 7)
        and plan(rare, 0.2) == TimingPlan(1, 5)
    )


@pytest.mark.slow
def test_a_climb_without_losses_says_where_they_are(net, data, tmp_path):
    results: Any = climb(net, data, CONFIG.but(loss_every=3), ["loops", "numpy"], epochs=7, repeats=2)
    loops, numpy = results.rungs
    for found in (loops, numpy):
        assert found.status == "timed" and found.same_bits, found.reason
        assert found.check.passed
        history = found.history
        assert len(history.loss) == len(history.accuracy) == len(history.seconds) >= 7
        assert [loss is not None for loss in history.loss[:7]] == [False, False, True, False, False, True, False]
        assert [loss is None for loss in history.loss] == [share is None for share in history.accuracy]
        assert all(seconds > 0 for seconds in history.seconds)
        assert (
            found.timing.of_epochs % 3 == 0
            and found.timing.steps == 7 * found.timing.of_epochs
            and not found.timing.scaled
        )
    whole: Any = climb(net, data, CONFIG, ["numpy"], epochs=7, repeats=1)
    assert whole.rungs[0].history.loss[2] == numpy.history.loss[2] and whole.rungs[0].test_loss == numpy.test_loss
    assert "loss every 3 epochs" in " ".join(results.table().split())
    results.save(tmp_path / "results.json")
    told = json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)  # NaN is no JSON
    assert told["rungs"][1]["history"]["loss"][:3] == [None, None, numpy.history.loss[2]]
    assert load(tmp_path / "results.json") == results


def test_a_part_of_several_epochs_is_scaled_and_says_so(net, data):
    found = only(Sleeper, net, data, CONFIG.but(loss_every=3), budget=0.02, epochs=300)
    assert found.status == "timed", found.reason
    assert found.timing.of_epochs == 3 and found.timing.steps in (3, 6, 9) and found.timing.scaled
    assert found.timing.seconds_per_epoch == pytest.approx(np.median(found.timing.seconds) * 200 / found.timing.samples)
    assert found.history is None


class ClaimsLosses(Wrapped):
    """Honest in the proof, and in its timed steps with losses that nobody asked for."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.every, self.is_timed = NUMPY.build(net, config.but(loss_every=1), state), False

    def load(self, dataset):
        super().load(dataset)
        self.every.load(dataset)

    def run_epochs(self, orders):
        if orders[0].n != 200 and not self.is_timed:  # as in a proof
            return super().run_epochs(orders)
        self.is_timed = True
        self.every.set_state(self.inner.state())
        logs = self.every.run_epochs(orders)
        self.inner.set_state(self.every.state())
        return logs


def test_timed_steps_with_losses_that_were_not_asked_for_are_refused(net, data):
    found = only(ClaimsLosses, net, data, CONFIG.but(loss_every=3))
    assert found.status == "refused" and "the timed steps of epoch 1 have losses, unlike the settings" in found.reason


def test_weights_that_diverge_without_losses_have_no_time(net, data):
    found = only(Wrapped, net, data, CONFIG.but(loss_every=1000, learning_rate=1e10, weight_decay=0.5), budget=0.1)
    assert found.status == "refused" and "the weights are not finite" in found.reason, found.reason
