"""A run that was stopped, wherever and however, and resumed equals the run that never was, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from checkpoints import apart, former
from crashes import Crash, crashed, same
from hypothesis import given, settings
from hypothesis import strategies as st
from rungs_here import NAMES
from runs import AUTOENCODER, CNN, CONFIG, MLP, NETS, Hook, data, facts, hooked

from warpladder.checkpoint import Checkpoint, load, save
from warpladder.data.order import Order
from warpladder.errors import CheckpointError
from warpladder.ladder import find
from warpladder.machine.facts import cores
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Constant, Cosine, StepDecay
from warpladder.train import restore, train
from warpladder.trainers.base import Trainer

rungs = pytest.mark.parametrize("rung", NAMES)


@rungs
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_a_run_that_crashed_goes_on_bit_for_bit(tmp_path, net, rung):
    """Three epochs of seven steps with momentum: stopped twice in the middle of epochs, with other intervals each time."""
    whole = train(net, data(), CONFIG, rung=rung)
    path = tmp_path / "run.safetensors"
    assert crashed(path, net, CONFIG, rung, place=5, every=2)
    assert (load(path).epoch, load(path).step) == (0, 4)
    assert crashed(path, net, CONFIG.but(log_every=5), rung, place=18, every=5, resume=path)
    assert (load(path).epoch, load(path).step) == (2, 1)
    same(train(net, data(), CONFIG.but(log_every=1), resume=path), whole)


@pytest.mark.parametrize("place", range(22))
def test_every_step_is_a_place_to_go_on_from(tmp_path, place):
    """Through a checkpoint before each step, and after the last."""
    whole = train(MLP, data(), CONFIG)
    path = tmp_path / "run.safetensors"
    if place == 21:
        train(MLP, data(), CONFIG, checkpoint=path)
    else:
        kept = crashed(path, MLP, CONFIG.but(log_every=3), "numpy", place, every=1)
        assert kept == (place > 0)
    resumed = train(MLP, data(), CONFIG, resume=path if path.exists() else None, checkpoint=path)
    same(resumed, whole)
    assert facts(load(path)) == facts(whole.checkpoint)


@given(
    places=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    every=st.integers(1, 8),
    intervals=st.lists(st.integers(1, 9), min_size=5, max_size=5),
    net=st.sampled_from(NETS),
    momentum=st.sampled_from([0.0, 0.5]),
    full=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_crashes_and_intervals(tmp_path_factory, places, every, intervals, net, momentum, full):
    config = CONFIG.but(
        momentum=momentum,
        nesterov=momentum > 0,
        batch_size=8 if not full else None,
        epochs=3 if not full else 21,
        clip_value=0.05,
    )
    whole = train(net, data(), config)
    path = tmp_path_factory.mktemp("runs") / "run.safetensors"

    def stop_at(place: int) -> Hook:
        def before(trainer: Trainer, order: Order, first: int, last: int) -> None:
            if (order.epoch if full else order.epoch * 7) + last > place:
                raise Crash

        return before

    for place, interval in zip(sorted(places), intervals, strict=False):
        with pytest.raises(Crash):
            rung = hooked("numpy", before=stop_at(place))
            changed = config.but(log_every=interval)
            train(
                net,
                data(),
                changed,
                rung=rung,
                checkpoint=path,
                checkpoint_every=every,
                resume=path if path.exists() else None,
            )
    same(train(net, data(), config, resume=path if path.exists() else None), whole)


ADAM = CONFIG.but(optimizer=Adam(0.01, weight_decay=0.01), schedule=Cosine(warmup=1, least=1e-4))


@pytest.mark.parametrize(
    "config",
    [
        ADAM, ADAM.but(optimizer=AdamW(0.01), schedule=StepDecay(every=0.7, gamma=0.5)), CONFIG.but(schedule=Cosine(warmup=0.5)),
        ADAM.but(optimizer=SGD(0.1), schedule=Constant(warmup=2), clip_value=0.05),
    ],
    ids=lambda config: f"{config.optimizer.described()}; {config.schedule.described()}",
)  # fmt: skip
@pytest.mark.parametrize("rung", ["numpy", "loops"])
def test_any_optimizer_and_schedule_go_on_bit_for_bit(tmp_path, rung, config):
    """Stopped twice in the middle of epochs: in the warm-up, and behind it."""
    whole = train(MLP, data(), config, rung=rung)
    path = tmp_path / "run.safetensors"
    assert crashed(path, MLP, config, rung, place=5, every=2)
    assert (load(path).made, tuple(load(path).slots)) == (4, config.optimizer.slots)
    assert crashed(path, MLP, config, rung, place=18, every=5, resume=path)
    same(train(MLP, data(), resume=path), whole)
    still = train(MLP, data(), config.but(schedule=Constant()), rung=rung)
    assert facts(still.checkpoint)["params"] != facts(whole.checkpoint)["params"]


def test_a_run_of_a_former_file_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    assert crashed(path, CNN, CONFIG, "numpy", place=10, every=3)
    path.write_bytes(former(*apart(path.read_bytes())))
    with pytest.raises(CheckpointError, match="is a checkpoint of format 1"):
        train(CNN, data(), CONFIG, resume=path)


def test_a_schedule_that_ends_with_the_run_tells_how_to_go_on(tmp_path):
    path, config = tmp_path / "run.safetensors", ADAM.but(epochs=2)
    whole = train(MLP, data(), config, checkpoint=path)
    with pytest.raises(CheckpointError) as error:
        train(MLP, data(), config.but(epochs=4), resume=path)
    assert "cosine, least 0.0001, warm-up 1 epoch, ends after 2 epochs there and 4 here: " in str(error.value)
    assert "Cosine(warmup=1, least=0.0001, epochs=2.0), or --schedule cosine:epochs=2, goes on" in str(error.value)
    assert "--from FILE" in str(error.value) and "\n" not in str(error.value)
    fixed = config.but(epochs=4, schedule=Cosine(warmup=1, least=1e-4, epochs=2.0))
    longer = train(MLP, data(), fixed, resume=path)
    same(longer, train(MLP, data(), fixed))
    assert longer.history[:2] == whole.history
    same(train(MLP, data(), config, resume=path), whole)


def test_other_schedules_do_not_mind_more_epochs(tmp_path):
    path, config = tmp_path / "run.safetensors", ADAM.but(epochs=2, schedule=StepDecay(every=1))
    train(MLP, data(), config, checkpoint=path)
    same(train(MLP, data(), config.but(epochs=4), resume=path), train(MLP, data(), config.but(epochs=4)))


def test_a_resumed_run_takes_net_settings_and_rung_from_where_it_stopped(tmp_path):
    path = tmp_path / "run.safetensors"
    assert crashed(path, CNN, CONFIG, "loops", place=10, every=3)
    run = train(CNN, data(), resume=path)
    assert run.config == CONFIG.but(initial="he") and run.rung == "loops"
    same(run, train(CNN, data(), CONFIG, rung="loops"))


def test_a_finished_run_comes_back_at_once(tmp_path):
    def no_step(trainer: Trainer, order: Order, first: int, last: int) -> None:
        raise AssertionError("it trained")

    path, again = tmp_path / "run.safetensors", tmp_path / "again.safetensors"
    whole = train(CNN, data(), CONFIG, checkpoint=path)
    run = train(CNN, data(), resume=path, rung=hooked("numpy", before=no_step), checkpoint=again)
    same(run, whole)
    assert run.test_accuracy is not None and run.history == whole.history
    assert again.read_bytes() == path.read_bytes()


@rungs
def test_a_finished_run_goes_on_for_more_epochs(tmp_path, rung):
    path = tmp_path / "run.safetensors"
    train(CNN, data(), CONFIG.but(epochs=2), rung=rung).save(path)
    same(train(CNN, data(), CONFIG.but(epochs=4), resume=path), train(CNN, data(), CONFIG.but(epochs=4), rung=rung))


@rungs
def test_the_number_of_threads_may_change(tmp_path, rung):
    """Where threads share a sum the last bits may then differ, and no more."""
    path = tmp_path / "run.safetensors"
    plain = find(rung)
    one, more = (plain.but(threads=count) if plain.has("threads") else plain for count in (1, min(2, cores())))
    assert crashed(path, CNN, CONFIG, one, place=10, every=3)
    run, whole = train(CNN, data(), CONFIG, resume=path, rung=more), train(CNN, data(), CONFIG, rung=one)
    assert run.rung == more.name
    for name, array in whole.params.items():
        assert np.allclose(run.params[name], array, rtol=1e-3, atol=1e-5)


def test_going_on_with_another_rung_must_be_said(tmp_path):
    path = tmp_path / "run.safetensors"
    assert crashed(path, CNN, CONFIG, "loops", place=10, every=3)
    run = train(CNN, data(), resume=path, rung="numpy")
    assert run.rung == "numpy"
    whole = train(CNN, data(), CONFIG, rung="numpy")
    for name, array in whole.params.items():
        assert np.allclose(run.params[name], array, rtol=1e-3, atol=1e-5)


def test_a_crash_while_scoring_leaves_the_last_checkpoint(tmp_path):
    path = tmp_path / "run.safetensors"
    whole = train(MLP, data(), CONFIG, checkpoint=path)
    unfinished = load(path)
    save(path, Checkpoint(**{**vars(unfinished), "finished": False, "test": None}))
    same(train(MLP, data(), resume=path), whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"net": MLP}, r"layer 0 is Conv2d\(.*\) there and Flatten\(\) here"),
        (
            {"net": AUTOENCODER},
            "layer 2 is MaxPool2d.* there and Conv2d.* here; the loss is CrossEntropyLoss there and MSELoss here",
        ),
        ({"data": data(samples=54)}, r"the training set has 53 samples there \('noise'\) and 54 here \('noise'\)"),
        (
            {"data": data(seed=1)},
            "train_x is 'uint8 53x1x4x4 crc32 [0-9a-f]{8}' there .* and 'uint8 53x1x4x4 crc32 [0-9a-f]{8}' here",
        ),
        ({"data": data(valid=10)}, "valid_x is"),
        ({"data": data().but(valid_x=None, valid_y=None)}, "valid_x is .* there .* and 'missing' here"),
        ({"data": data().but(scale=1 / 16)}, "pixels are scaled by 0.0039.* there and 0.0625 here"),
        ({"config": CONFIG.but(learning_rate=0.2)}, "learning_rate is 0.1 there and 0.2 here"),
        (
            {"config": CONFIG.but(optimizer=Adam())},
            "the optimizer is SGD there and Adam here; its weights can begin a new run",
        ),
        ({"config": CONFIG.but(schedule=Cosine())}, "the schedule is Constant there and Cosine here"),
        ({"config": CONFIG.but(schedule=Constant(warmup=2))}, "warmup is 0.0 there and 2 here"),
        (
            {"config": CONFIG.but(seed=6, batch_size=9, shuffle=False)},
            "batch_size is 8 there and 9 here; seed is 5 .* 6 here; shuffle is True .* False here",
        ),
        ({"config": CONFIG.but(epochs=1)}, "it is in epoch 2 there and epochs is 1 here"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_says_what_differs(tmp_path, change, words):
    path = tmp_path / "run.safetensors"
    assert crashed(path, CNN, CONFIG, "numpy", place=10, every=3)
    with pytest.raises(CheckpointError, match=f"belongs to another run: {words}") as error:
        train(**({"net": CNN, "data": data(), "config": CONFIG, "resume": path} | change))
    assert "\n" not in str(error.value) and "run.safetensors" in str(error.value)


def test_names_of_net_and_data_do_not_count(tmp_path):
    path = tmp_path / "run.safetensors"
    assert crashed(path, CNN, CONFIG, "numpy", place=10, every=3)
    run = train(replace(CNN, name="renamed"), data().but(name="renamed"), resume=path)
    same(run, train(CNN, data(), CONFIG))
    assert run.net.name == run.checkpoint.data.name == "renamed"


def test_restored_weights_predict_what_the_trained_ones_did(tmp_path):
    path = tmp_path / "run.safetensors"
    outputs = []

    def keep(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if (order.epoch, last) == (2, 7):
            outputs.append(trainer.predict(data().test_x, 1 / 255))

    train(CNN, data(), CONFIG, rung=hooked("numpy", after=keep)).save(path)
    with restore(load(path)) as trainer:
        assert np.array_equal(trainer.predict(data().test_x, 1 / 255), outputs[0])
    with restore(load(path), "loops") as trainer:
        assert np.allclose(trainer.predict(data().test_x, 1 / 255), outputs[0], rtol=1e-5, atol=1e-6)
