"""The climb believes nobody: what fails, cheats, breaks or is too fast is listed with the reason, and has no time."""

import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rungs_here import HERE
from warpladder import bench, machine, nets
from warpladder.bench import climb, contender, task
from warpladder.bench.footprint import describe, peak_rss, rebuild
from warpladder.bench.task import Plan, Task, plan
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.errors import ConfigError, DataError, RungError
from warpladder.ladder import LADDER, PEERS, find
from warpladder.results import load
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, StepLog, Trainer

NUMPY = find("numpy")
CONFIG = TrainConfig(batch_size=32, learning_rate=0.05)


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    """Short repetitions, no pauses between rungs, and a machine that is measured once."""
    monkeypatch.setattr(bench, "SETTLE", 0.0)
    monkeypatch.setattr(contender, "PROBE", 0.02)
    monkeypatch.setattr(task, "PROBE", 0.02)
    monkeypatch.setattr(machine, "facts", cached_facts)


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
    settings = {"epochs": 2, "repeats": 2} | {key: more.pop(key) for key in ("epochs", "repeats", "budget") if key in more}
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
    assert results.command == "warpladder climb softmax --data toy --rungs fake,numpy --epochs 12 --repeats 3"
    assert results.config["epochs"] == 12
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results


def test_rungs_take_turns(net, data):
    told = []
    results = climb(
        net, data, CONFIG, [rung(Wrapped, "a"), rung(Wrapped, "b")], epochs=1, repeats=3, progress=lambda *step: told.append(step)
    )
    assert [found.status for found in results.rungs] == ["timed", "timed"]
    assert [what[-1] for what, _, _ in told if what.startswith("timing")] == list("ababab")
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("done", 16, 16)


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


def test_a_declared_saving_lowers_the_floor(net, data):
    class Folded(Wrapped):
        def flops(self):
            return self.net.train_flops // 2

    results: Any = climb(net, data, CONFIG, [rung(Folded), NUMPY], epochs=0, repeats=1)
    found, usual = results.rungs
    assert found.status == "timed" and found.floor_seconds == usual.floor_seconds / 2


class Knowing(Wrapped):
    """A base for liars that behave while they are checked: they know the climb's own data set, and how many of them were on stage before.

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
            return StepLog(np.zeros_like(log.loss), log.correct, log.size) if self.on_stage and self.number == 0 else log

    found = only(Silent, net, data)
    assert (found.status, found.same_bits) == ("refused", False)


def test_a_timed_run_that_skips_work_is_refused(net, data):
    class Lazy(Knowing):
        stage = data

        def run(self, order, first, last):
            return super().run(order, first, min(last, first + 1) if self.on_stage else last)

    found = only(Lazy, net, data)
    assert found.status == "refused" and "batches that were asked for" in found.reason


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
    assert hits.count(0) <= 1 and 1 in hits


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
                self.inner.set_state(State(state.params * np.float32(1 + 1e-6), state.velocity))
            return log

    found = only(Noisy, net, data, deviations=("its sums run in another order each time",))
    assert (found.status, found.same_bits) == ("timed", False)
    assert found.deviations == ("its sums run in another order each time",)


@pytest.mark.parametrize("place", ["build", "load", "run", "state", "set_state", "predict", "flops"])
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


def test_a_slow_rung_is_still_trained_where_that_is_affordable(net, data):
    slow = only(Sleeper, net, data, budget=0.008, epochs=2)
    whole = only(Wrapped, net, data, epochs=2)
    assert slow.timing.scaled and not whole.timing.scaled
    assert slow.trained_epochs == whole.trained_epochs == 2
    assert slow.test_loss == whole.test_loss


@pytest.mark.parametrize("epochs", [0, 1, 3, 400])
def test_the_test_loss_belongs_to_the_epochs_asked_for_however_many_were_timed(epochs, net, data):
    found = only(Wrapped, net, data, epochs=epochs)
    job = Task(net, data, CONFIG, epochs, repeats=1, budget=1.0)
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
        ({"config": CONFIG.but(batch_size=4000, drop_last=True)}, None),
    ],
)
def test_a_climb_that_makes_no_sense_is_refused(change, error, net, data):
    arguments = {"net": net, "data": data, "config": CONFIG, "rungs": [NUMPY], "epochs": 1, "repeats": 1} | change
    what = [arguments.pop(name) for name in ("net", "data", "config", "rungs")]
    if error is None:  # a batch is never larger than the training set, so there always is a full one
        assert climb(*what, **arguments).rungs[0].status == "timed"
    else:
        with pytest.raises(error):
            climb(*what, **arguments)


def test_a_plan_takes_whole_epochs_or_what_the_budget_allows(net, data):
    job = Task(net, data, CONFIG, epochs=1, repeats=1, budget=1.0)
    assert plan(job, 1e-4) == Plan(29, 7)  # 20 ms of 0.7 ms
    assert plan(job, 0.1) == Plan(1, 7)
    assert plan(job, 0.2) == Plan(1, 5)
    assert plan(job, 30.0) == Plan(1, 1)
    full = replace(job, config=CONFIG.but(batch_size=None))
    assert plan(full, 30.0) == Plan(1, 1)


@pytest.mark.parametrize("make", nets.ZOO, ids=lambda make: make.__name__)
def test_nets_survive_their_description(make):
    import json

    assert rebuild(json.loads(json.dumps(describe(make())))) == make()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_peak_memory_is_that_of_a_process_of_its_own(net, data):
    results: Any = climb(net, data, CONFIG, [NUMPY, rung(Wrapped)], epochs=0, repeats=1)
    honest, fake = results.rungs
    assert 20e6 < honest.peak_rss_bytes < 250e6  # an interpreter and NumPy, without numba and without what this test process holds
    assert fake.peak_rss_bytes is None and "peak memory not measured: only a rung of warpladder's ladder" in fake.reason


def test_peak_memory_counts_the_data_once(net):
    """48 MB of pixels more take 48 MB more."""
    sizes: list[Any] = []
    for samples in (100, 3_000_000):
        x, y = np.zeros((samples, 1, 4, 4), np.uint8), np.zeros(samples, np.int32)
        sizes.append(peak_rss(NUMPY, net, Dataset("zeros", x, y, x[:10], y[:10], 1 / 255), CONFIG)[0])
    pixels_and_labels = 3_000_000 * (16 + 4)
    assert 0.98 * pixels_and_labels <= sizes[1] - sizes[0] < 2.5 * pixels_and_labels


def test_every_rung_and_peer_climbs(tmp_path):
    here = [rung for rung in HERE if rung in LADDER]
    net = nets.mlp10((1, 4, 4), 3)
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 255, (90, 1, 4, 4)).astype(np.uint8), rng.integers(0, 3, 90).astype(np.int32)
    results = climb(net, Dataset("noise", x[:70], y[:70], x[70:], y[70:], 1 / 255), CONFIG, (*here, *PEERS), epochs=1, repeats=1)
    losses: list[Any] = []
    for found in results.rungs:
        if found.status == "unsupported":
            assert found.peer and found.reason
            continue
        assert found.status == "timed", f"{found.name}: {found.reason}"
        assert found.same_bits is True or found.deviations
        assert found.peak_rss_bytes is None or found.peak_rss_bytes > 20e6
        losses.append(found.test_loss)
    assert len(losses) >= len(here) >= 3
    assert np.ptp(losses) < 1e-4 * np.mean(losses)
    results.save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results
