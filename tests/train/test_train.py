"""Training: what is computed, reported and shown."""

from __future__ import annotations

import io
import math
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress
from rungs_here import NAMES
from runs import AUTOENCODER, CNN, CONFIG, MLP, NETS, data, facts, hooked

import warpladder as wl
from warpladder.checkpoint import load
from warpladder.config import FEATURES, RECIPES, TrainConfig
from warpladder.data.dataset import Dataset, pixels
from warpladder.data.order import Order
from warpladder.errors import ArgumentError, CheckpointError, ConfigError, DataError, OutOfMemoryError, RungError
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net
from warpladder.nets.params import initial
from warpladder.ops.jit.compile_time import compiling, listen
from warpladder.proof.tolerance import bound
from warpladder.train import Run, Score, epochs, restore, saving, score, scoring, train
from warpladder.trainers.base import State, StepLog, Trainer

rungs = pytest.mark.parametrize("rung", NAMES)


@rungs
def test_softmax_and_mlp_learn_digits(rung):
    digits = wl.data.load("digits")
    for net, least in ((wl.nets.softmax(digits.in_shape), 0.87), (wl.nets.mlp(digits.in_shape), 0.9)):
        run = train(net, digits, TrainConfig(epochs=8, batch_size=32, learning_rate=0.1, momentum=0.9), rung=rung)
        assert isinstance(run, Run) and run.rung == rung and run.net is net
        assert run.test_accuracy is not None and run.test_accuracy >= least
        losses = [log.train_loss for log in run.history if log.train_loss is not None]
        assert len(losses) == 8 and losses[-1] < losses[0] / 3
        assert [log.epoch for log in run.history] == list(range(1, 9))
        assert all(log.seconds > 0 and log.valid_loss is None and log.valid_accuracy is None for log in run.history)


@rungs
def test_the_last_partial_batch_is_trained_with_its_own_mean(rung):
    """Softmax regression on 10 samples in batches of 8 and 2, by hand in float64."""
    noise = data(samples=10)
    assert noise.train_y is not None
    net = Net("linear", (1, 4, 4), (Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    config = TrainConfig(epochs=1, batch_size=8, learning_rate=4.0, seed=3)
    flat = initial(net, 3).astype(np.float64)
    w, b = flat[:48].reshape(3, 16), flat[48:]
    start = flat.copy()
    order = Order(3, 0, 10).indices(0, 10)
    losses = []
    for batch in (order[:8], order[8:]):
        x, y = (
            pixels(noise.train_x[batch], noise.scale).reshape(len(batch), 16).astype(np.float64),
            noise.train_y[batch],
        )
        p = np.exp(x @ w.T + b)
        p /= p.sum(axis=1, keepdims=True)
        losses.append(-np.log(p[np.arange(len(batch)), y]))
        p[np.arange(len(batch)), y] -= 1
        w -= 4.0 * p.T @ x / len(batch)
        b -= 4.0 * p.mean(axis=0)

    run = train(net, noise, config, rung=rung)
    found = np.concatenate([run.params["1.weight"].ravel(), run.params["1.bias"]])
    limit = bound("float32", 16 + 8, steps=2)
    assert np.linalg.norm(found - flat) <= limit * np.linalg.norm(flat - start)
    assert run.history[0].train_loss == pytest.approx(np.concatenate(losses).mean(), rel=limit)

    without = train(net, noise, config.but(drop_last=True), rung=rung)
    assert without.history[0].train_loss == pytest.approx(losses[0].mean(), rel=limit)
    assert not np.array_equal(without.params["1.bias"], run.params["1.bias"])


def test_an_epochs_figures_are_means_over_its_samples():
    logs: list[StepLog] = []

    def keep(order: Order, first: int, log: StepLog) -> StepLog:
        logs.append(log)
        return log

    run = train(MLP, data(), CONFIG.but(epochs=1), rung=hooked("numpy", log=keep))
    loss, correct, size = (np.concatenate([getattr(log, name) for log in logs]) for name in ("loss", "correct", "size"))
    assert size.tolist() == [8] * 6 + [5]
    assert run.history[0].train_loss == pytest.approx(math.fsum(loss * size) / 53, rel=1e-14)
    assert run.history[0].train_loss != pytest.approx(loss.mean(), rel=1e-6)
    assert run.history[0].train_accuracy == correct.sum() / 53


@rungs
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_how_steps_are_grouped_into_calls_changes_no_bit(net, rung):
    wanted = None
    for log_every in (1, 3, 100):
        run = train(net, data(), CONFIG.but(log_every=log_every), rung=rung)
        found = (
            [array.tobytes() for array in run.params.values()],
            [(log.train_loss, log.valid_loss) for log in run.history],
            run.test_loss,
        )
        wanted = wanted or found
        assert found == wanted


def test_calls_end_at_the_log_interval_and_at_checkpoints(tmp_path):
    calls: list[tuple[int, int, int]] = []
    rung = hooked("numpy", before=lambda trainer, order, first, last: calls.append((order.epoch, first, last)))
    train(MLP, data(), CONFIG.but(epochs=2, log_every=4), rung=rung, checkpoint=tmp_path / "c", checkpoint_every=3)
    # 7 steps an epoch: the first call of a run is one step, to see how long steps take; checkpoints fall on steps 3, 6,
    # 9, 12 of 14.
    assert calls == [(0, 0, 1), (0, 1, 3), (0, 3, 4), (0, 4, 6), (0, 6, 7), (1, 0, 2), (1, 2, 4), (1, 4, 5), (1, 5, 7)]


def test_slow_steps_are_taken_in_shorter_calls(monkeypatch):
    monkeypatch.setattr(epochs, "CALL_SECONDS", 0.0)
    calls: list[tuple[int, int]] = []
    train(
        MLP,
        data(),
        CONFIG.but(epochs=1),
        rung=hooked("numpy", before=lambda trainer, order, first, last: calls.append((first, last))),
    )
    assert calls == [(step, step + 1) for step in range(7)]


def test_the_order_differs_between_epochs_and_is_the_same_in_every_run():
    def orders(config: TrainConfig) -> list[list[int]]:
        seen: dict[int, Order] = {}
        rung = hooked("numpy", before=lambda trainer, order, first, last: seen.update({order.epoch: order}))
        train(MLP, data(), config, rung=rung)
        return [seen[epoch].indices(0, 53).tolist() for epoch in range(config.epochs)]

    first, again, other = orders(CONFIG), orders(CONFIG), orders(CONFIG.but(seed=6))
    assert first == again and first[0] != first[1] != first[2] and first[0] != other[0]
    assert all(sorted(order) == list(range(53)) for order in first)
    assert orders(CONFIG.but(shuffle=False)) == [list(range(53))] * 3


@rungs
def test_runs_repeat_bit_for_bit(rung):
    runs = [train(CNN, data(), CONFIG, rung=rung) for _ in range(2)]
    assert all(np.array_equal(runs[0].params[name], runs[1].params[name]) for name in runs[0].params)
    assert runs[0].test_loss == runs[1].test_loss


def test_nets_train_by_their_recipe_where_no_settings_are_given():
    small = data(valid=0).but(name="arrays")
    net = wl.nets.mlp10(small.in_shape, 3)
    assert train(net, small).config == RECIPES["mlp10"].but(initial="he")
    assert train(MLP, small).config == TrainConfig(initial="he")
    assert train(net, small.but(name="photos")).config == FEATURES.but(initial="he")


def test_no_epochs_score_the_initial_weights():
    run = train(MLP, data(), CONFIG.but(epochs=0))
    assert run.history == [] and run.test_loss is not None
    assert np.array_equal(run.params["1.weight"].ravel(), initial(MLP, CONFIG.seed)[: 7 * 16])


# Scores


class Given(Trainer):
    """Predicts outputs that it was given, and notes how it was asked."""

    def __init__(self, net: Net, outputs: np.ndarray) -> None:
        self.net, self.config, self.outputs = net, TrainConfig(), outputs
        self.asked: list[int] = []

    def load(self, dataset: Dataset) -> None: ...

    def run(self, order: Order, first: int, last: int) -> StepLog:
        raise NotImplementedError

    def state(self) -> State:
        raise NotImplementedError

    def set_state(self, state: State) -> None: ...

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        done = sum(self.asked)
        self.asked.append(len(x))
        return self.outputs[done : done + len(x)]


@pytest.mark.parametrize("numbers", [1, 50, 10**6])
def test_scores_are_means_over_all_samples_whatever_the_slices(monkeypatch, numbers):
    monkeypatch.setattr(scoring, "SLICE_NUMBERS", numbers)
    random = np.random.default_rng(1)
    x, y = random.integers(0, 256, (31, 1, 4, 4), np.uint8), random.integers(0, 3, 31).astype(np.int32)
    logits = random.normal(scale=30, size=(31, 3)).astype(np.float32)
    trainer = Given(MLP, logits)
    exact = [
        math.log(math.fsum(math.exp(float(a) - float(row[label])) for a in row))
        for row, label in zip(logits, y, strict=True)
    ]
    found = score(trainer, x, y, 1 / 255)
    assert found.loss == pytest.approx(math.fsum(exact) / 31, rel=1e-13)
    assert found.accuracy == sum(int(row.argmax() == label) for row, label in zip(logits, y, strict=True)) / 31
    assert sum(trainer.asked) == 31 and max(trainer.asked) <= numbers // 16 + 1

    images = random.random((31, 1, 4, 4), np.float32)
    wanted = np.square(images.astype(np.float64) - pixels(x, 1 / 255)).mean()
    found = score(Given(AUTOENCODER, images), x, None, 1 / 255)
    assert found.loss == pytest.approx(wanted, rel=1e-13) and found.accuracy is None


def test_scores_bear_logits_that_overflow_when_exponentiated():
    logits = np.array([[1000.0, 0, -1000], [-1e30, 1e30, 0]], np.float32)
    found = score(Given(MLP, logits), np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 1], np.int32), 1.0)
    assert found == Score(0.0, 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_of_outputs_that_are_not_finite_are_not_finite(bad):
    logits = np.array([[0, bad, 1]], np.float32)
    found = score(Given(MLP, logits), np.zeros((1, 1, 4, 4), np.uint8), np.array([1], np.int32), 1.0)
    assert not math.isfinite(found.loss)


@rungs
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_scores_between_batches_leave_no_trace(net, rung):
    """Scoring in slices of other sizes than the batch, in the middle of training, changes neither the score nor the
    training.
    """
    some = data(test=101)
    with_scores = train(net, some, CONFIG, rung=rung)
    without = train(net, some.but(valid_x=None, valid_y=None), CONFIG, rung=rung)
    assert all(np.array_equal(with_scores.params[name], without.params[name]) for name in without.params)
    with restore(with_scores.checkpoint) as trainer:
        out = trainer.predict(some.test_x, some.scale)
        one_by_one = np.concatenate([trainer.predict(some.test_x[i : i + 1], some.scale) for i in range(101)])
        again = score(trainer, some.test_x, some.test_y, some.scale)
    limit = bound("float32", 64)
    assert np.linalg.norm(out - one_by_one) <= limit * np.linalg.norm(out)
    assert again.loss == pytest.approx(with_scores.test_loss, rel=limit)


def test_rows_at_once_are_odd_and_keep_activations_small():
    for make in wl.nets.ZOO:
        net = make()
        rows = scoring.rows_at_once(net)
        assert rows % 2 == 1
        assert rows * max(map(math.prod, net.shapes)) * 4 <= 10 * 2**20


def test_a_trainer_that_prepares_each_call_anew_is_called_a_few_times():
    class Counting:
        net, has_cheap_calls = wl.nets.cnn(), False
        calls: ClassVar[list[int]] = []

        def predict(self, x, scale):
            self.calls.append(len(x))
            return np.zeros((len(x), 10), np.float32)

    x, y = np.zeros((10_000, 1, 28, 28), np.uint8), np.zeros(10_000, np.int32)
    trainer = cast(Trainer, Counting())  # the little of a trainer that scoring uses
    assert scoring.score(trainer, x, y, 1.0).accuracy == 1.0
    assert Counting.calls == [10_000]
    autoencoder = wl.nets.autoencoder()
    assert scoring.rows_at_once(autoencoder, trainer) * 3072 * 4 <= 65 * 2**20


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((0, 1, 4, 4), np.uint8), np.zeros(0, np.int32), "no samples"),
        (np.zeros((2, 1, 4, 4), np.uint8), None, "labels"),
        (np.zeros((2, 1, 4, 4), np.uint8), np.array([0, 3], np.int32), "3 outputs.*0 to 3"),
    ],
)
def test_what_cannot_be_scored(x, y, words):
    with pytest.raises(DataError, match=words):
        score(Given(MLP, np.zeros((2, 3), np.float32)), x, y, 1.0)


@pytest.mark.parametrize(
    "change", [{"test_y": None}, {"test_x": np.zeros((0, 1, 4, 4), np.uint8), "test_y": np.zeros(0, np.int32)}]
)
def test_without_labelled_test_samples_there_is_no_test_score(change):
    run = train(MLP, data().but(**change), CONFIG.but(epochs=1))
    assert run.test_loss is None and run.test_accuracy is None and run.checkpoint.finished


def test_an_autoencoder_needs_no_labels_and_has_no_accuracy():
    run = train(AUTOENCODER, data().but(train_y=None, valid_y=None, test_y=None), CONFIG)
    assert run.test_loss is not None and run.test_accuracy is None
    assert all(
        log.train_accuracy is None and log.valid_accuracy is None and log.valid_loss is not None for log in run.history
    )
    first, last = run.history[0].train_loss, run.history[-1].train_loss
    assert first is not None and last is not None and last < first


# What is refused


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"\(1, 28, 28\)"):
        train(wl.nets.mlp(), data())
    with pytest.raises(RungError, match="'nothing'"):
        train(MLP, data(), rung="nothing")
    with pytest.raises(ConfigError, match="checkpoint_every"):
        train(MLP, data(), checkpoint=tmp_path / "c", checkpoint_every=0)
    with pytest.raises(ConfigError, match="needs a checkpoint file"):
        train(MLP, data(), checkpoint_every=5)


def test_a_rung_that_cannot_train_the_net_says_why():
    refusing = replace(find("numpy"), unsupported=lambda net, config: "it is Sunday")
    with pytest.raises(RungError, match="'numpy' cannot train net 'small mlp': it is Sunday"):
        train(MLP, data(), CONFIG, rung=refusing)


def test_a_checkpoint_replaces_no_file_but_the_one_that_is_resumed(tmp_path):
    path, link = tmp_path / "c", tmp_path / "link"
    train(MLP, data(), CONFIG.but(epochs=1), checkpoint=path)
    before = path.read_bytes()
    link.symlink_to(path)
    for place in (path, link):
        with pytest.raises(
            CheckpointError,
            match=r"is there already: go on from it \(resume\), name another file, or insist \(overwrite\)",
        ):
            train(CNN, data(), CONFIG, checkpoint=place)
    assert path.read_bytes() == before
    assert train(MLP, data(), CONFIG, checkpoint=link, resume=path).checkpoint.epoch == 3
    train(CNN, data(), CONFIG, checkpoint=path, overwrite=True)
    assert load(path).net == CNN


def test_time_decides_when_checkpoints_are_written_but_not_at_the_end(tmp_path, monkeypatch):
    places: list[tuple] = []
    monkeypatch.setattr(
        saving, "save", lambda path, checkpoint: places.append((checkpoint.epoch, checkpoint.step, checkpoint.finished))
    )
    train(MLP, data(), CONFIG.but(epochs=4), checkpoint=tmp_path / "c", checkpoint_seconds=3600.0)
    assert places == [(4, 0, True)]
    places.clear()
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: 10.0 * next(clock))
    train(MLP, data(), CONFIG.but(epochs=4), checkpoint=tmp_path / "c", checkpoint_seconds=5.0)
    assert {place[0] for place in places} == {0, 1, 2, 3, 4} and places[-1] == (4, 0, True), "every call is overdue"
    assert (0, 1, False) in places and (1, 0, False) in places


# Weights to begin with


def test_a_new_run_begins_with_given_weights_and_no_momentum(tmp_path):
    path = tmp_path / "c"
    old = train(CNN, data(), CONFIG, checkpoint=path)
    named = {"module." + name: array for name, array in old.params.items()}
    config = CONFIG.but(epochs=1, learning_rate=0.5)
    new, same = train(CNN, data(), config, weights=path), train(CNN, data(), config, weights=named)
    other = train(CNN, data(), config)
    assert facts(new.checkpoint) == facts(same.checkpoint) != facts(other.checkpoint)
    untouched = train(CNN, data(), config.but(epochs=0), weights=path)
    assert all(np.array_equal(untouched.params[name], old.params[name]) for name in old.params)
    assert not any(array.any() for array in untouched.checkpoint.slots["momentum_buffer"].values())
    assert [log.epoch for log in new.history] == [1]


def test_a_new_run_from_a_checkpoint_has_an_optimizer_and_a_schedule_of_its_own(tmp_path):
    path = tmp_path / "c"
    old = train(MLP, data(), CONFIG.but(optimizer=wl.Adam(0.01), schedule=wl.Cosine(warmup=1)), checkpoint=path)
    config = CONFIG.but(epochs=2, optimizer=wl.AdamW(0.003), schedule=wl.StepDecay(every=1))
    new = train(MLP, data(), config, weights=path)
    assert new.config == config and new.checkpoint.made == 14
    assert facts(new.checkpoint) == facts(train(MLP, data(), config, weights=old.params).checkpoint)
    untouched = train(MLP, data(), config.but(epochs=0), weights=path)
    assert list(untouched.checkpoint.slots) == ["exp_avg", "exp_avg_sq"] and untouched.checkpoint.made == 0
    assert not any(array.any() for named in untouched.checkpoint.slots.values() for array in named.values())


def test_a_rate_that_falls_to_nothing_changes_nothing():
    """Step decay by 0: the second epoch ends with the weights of the first."""
    config = CONFIG.but(optimizer=wl.Adam(0.01), schedule=wl.StepDecay(every=1, gamma=0.0))
    one, two = (train(MLP, data(), config.but(epochs=epochs)) for epochs in (1, 2))
    assert all(np.array_equal(one.params[name], two.params[name]) for name in one.params)
    assert not np.array_equal(one.checkpoint.slots["exp_avg"]["3.weight"], two.checkpoint.slots["exp_avg"]["3.weight"])


def test_weights_that_do_not_fit_are_refused(tmp_path):
    train(MLP, data(), CONFIG.but(epochs=0)).save(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"c' does not fit net 'small cnn': it lacks '0\.weight"):
        train(CNN, data(), weights=tmp_path / "c")
    with pytest.raises(ConfigError, match="give one of them"):
        train(MLP, data(), weights=tmp_path / "c", resume=tmp_path / "c")


def test_a_resume_with_other_settings_names_the_way_to_begin_anew(tmp_path):
    train(MLP, data(), CONFIG).save(tmp_path / "c")
    with pytest.raises(
        CheckpointError,
        match=r"learning_rate is 0\.1 there and 0\.5 here; its weights can begin a new run .*--from FILE",
    ):
        train(MLP, data(), CONFIG.but(learning_rate=0.5), resume=tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"here$"):
        train(CNN, data(), CONFIG, resume=tmp_path / "c")


# What this machine or these samples cannot do


def test_a_last_batch_that_is_the_only_one_is_not_dropped_silently():
    with pytest.raises(
        ConfigError, match=r"drop_last leaves out every sample: batch_size is 54 and the training set has 53"
    ):
        train(MLP, data(), CONFIG.but(batch_size=54, drop_last=True))
    assert train(MLP, data(), CONFIG.but(batch_size=53, drop_last=True, epochs=1)).history


def test_more_threads_than_cores_are_refused_but_a_checkpoint_of_a_larger_machine_predicts(monkeypatch):
    run = train(MLP, data(), CONFIG.but(epochs=1), rung="native:threads=1")
    assert run.rung == "native:threads=1"
    with pytest.raises(RungError, match=r"threads is 1000, and this process may use \d+ cores?:"):
        train(MLP, data(), CONFIG, rung="numpy:threads=1000")
    with restore(run.checkpoint) as trainer:
        assert trainer.threads == 1  # type: ignore[attr-defined]
    with restore(replace(run.checkpoint, rung="native:threads=1000")) as trainer:
        assert 0 < trainer.threads < 1000  # type: ignore[attr-defined]
        assert trainer.predict(data().test_x, 1 / 255).shape == (13, 3)


def test_a_net_that_memory_cannot_hold_is_refused_before_it_is_made():
    net = Net("vast", (1, 4, 4), (Flatten(), Linear(out_features=10**12), Linear(out_features=3)), CrossEntropyLoss())
    with pytest.raises(
        OutOfMemoryError,
        match=r"net 'vast' has 20,000,000,000,003 parameters, whose training takes 320,000\.0 GB at least",
    ):
        train(net, data(), CONFIG)


# Cost and progress


def test_training_makes_no_float_copy_of_the_data():
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (40_000, 1, 28, 28), np.uint8), random.integers(0, 10, 40_000).astype(np.int32)
    big = Dataset("big", x, y, x, y, 1 / 255)
    tracemalloc.start()
    try:
        train(wl.nets.softmax(), big, TrainConfig(epochs=1, batch_size=1000), rung="numpy")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes, f"{peak:,} bytes beside {x.nbytes:,} of data"


def test_without_progress_rich_is_not_imported():
    code = (
        "import sys, warpladder as wl; from runs import *; train = wl.train; train(MLP, data(), CONFIG); train(MLP, data(), CONFIG, progress=False);"
        "assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=wl.__path__[0] + "/../../tests/support")


def test_a_bar_of_its_own_goes_to_stderr(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # a narrow terminal has no count of steps
    train(MLP, data(), CONFIG, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "epoch 3/3" in err and "loss" in err and "accuracy" in err and "21/21" in err


def test_compiling_is_said_and_no_epoch_counts_it(capsys):
    def compile_first(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if (order.epoch, first) == (0, 0):
            compiling.begin()
            time.sleep(1.0)
            compiling.end()

    run = train(MLP, data(), CONFIG, rung=hooked("numpy", before=compile_first), progress=True)
    err = capsys.readouterr().err
    assert (
        err.count("compiling for this processor, which takes some seconds: once") == 1
        and "compiled in 1.0 s, which no epoch counts" in err
    )
    assert 0 < run.history[0].seconds < 0.9
    assert compiling.announce is None


def test_numba_tells_when_it_compiles():
    numba = pytest.importorskip("numba")
    listen()

    @numba.njit  # keeps nothing
    def thrice(x: float) -> float:
        return 3 * x

    lines: list[str] = []
    before = compiling.seconds
    with compiling.announced(lines.append):
        assert thrice(2.0) == 6.0 and thrice(3) == 9
    assert compiling.seconds > before and len(lines) == 1
    before = compiling.seconds
    assert thrice(4.0) == 12.0 and compiling.seconds == before


def test_a_given_progress_gets_a_task_that_runs_to_its_end():
    with Progress(console=Console(file=io.StringIO())) as progress:
        train(MLP, data(), CONFIG, progress=progress)
        train(AUTOENCODER, data(), CONFIG, progress=progress)
    assert [(task.completed, task.total) for task in progress.tasks] == [(21, 21), (21, 21)]
    assert "accuracy" in progress.tasks[0].description and "accuracy" not in progress.tasks[1].description


def test_an_option_that_only_kernels_have_is_refused_by_other_rungs():
    with pytest.raises(RungError, match="rung 'numpy' has no option 'feed': it has threads"):
        train(MLP, data(), CONFIG, rung="numpy:feed=streamed:block_size=64")


def test_files_and_weights_of_another_type():
    run = train(MLP, data(), CONFIG.but(epochs=0))
    module = wl.to_torch(run) if find_spec("torch") else SimpleNamespace(state_dict=dict)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"weights": module}, r"weights wants a path.*wl.from_torch\(module, in_shape\), got an object of type"),
        (
            {"weights": 3},
            "weights wants a path, arrays by their names in PyTorch's state_dict, or a Run or Model, got 3",
        ),
        ({"weights": [1]}, "weights wants .* got an object of type 'list'"),
        ({"resume": run}, "resume wants the path of a checkpoint.*weights= takes it, for a new run, got"),
        ({"resume": 3}, "resume wants the path of a checkpoint, which run.save.* got 3"),
        ({"checkpoint": True}, "checkpoint wants the path of a file to write, got True"),
    ]
    for given, words in wrong:
        with pytest.raises(ArgumentError, match=words):
            train(MLP, data(), CONFIG, **given)
