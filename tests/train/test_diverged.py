"""Numbers that stop being finite: training stops at once, says where and why, and saves none of it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from rungs_here import NAMES
from runs import AUTOENCODER, CNN, CONFIG, MLP, data, hooked

from warpladder.checkpoint import load
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset, pixels
from warpladder.data.order import Order
from warpladder.errors import DivergedError
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.nets.params import initial, views
from warpladder.proof.reference import ReferenceTrainer
from warpladder.train import epochs, train
from warpladder.trainers.base import State, StepLog, Trainer

rungs = pytest.mark.parametrize("rung", NAMES)
DEEP = Net(
    "deep",
    (1, 4, 4),
    (
        Conv2d(out_channels=9, kernel_size=3),
        ReLU(),
        Conv2d(out_channels=9, kernel_size=2),
        ReLU(),
        Flatten(),
        Linear(out_features=9),
        ReLU(),
        Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)
PLAIN = TrainConfig(epochs=3, batch_size=8, seed=5)


def said(*arguments: Any, **keywords: Any) -> str:
    with pytest.raises(DivergedError) as error:
        train(*arguments, **keywords)
    assert "\n" not in str(error.value)
    return str(error.value)


def where(net: Net, some: Dataset, config: TrainConfig) -> tuple[int, int, int]:
    """(epoch, step, layer) of the first fault, both counted from 1: one step at a time, and the float64 reference's
    layers in float32's range.
    """
    samples = len(some.train_x)
    with find("numpy").build(net, config, State(initial(net, config.seed))) as trainer:
        trainer.load(some)
        for epoch in range(config.epochs):
            order = Order(config.seed, epoch, samples)
            for step in range(config.steps(samples)):
                before = trainer.state()
                with np.errstate(all="ignore"):
                    loss = trainer.run(order, step, step + 1).loss[0]
                if not math.isfinite(loss):
                    batch = order.indices(step * 8, min(step * 8 + 8, samples))
                    return (
                        epoch + 1,
                        step + 1,
                        first_layer(net, config, before, pixels(some.train_x[batch], some.scale)),
                    )
    raise AssertionError("it did not diverge")


def first_layer(net: Net, config: TrainConfig, state: State, x: np.ndarray) -> int:
    reference = ReferenceTrainer(net, config, state)
    with np.errstate(all="ignore"):
        out = reference.activations(x.astype(np.float64))
    for index, layer in enumerate(net.layers):
        weights = [array for name, array in views(net, state.params).items() if name.startswith(f"{index}.")]
        with np.errstate(all="ignore"):
            finite = np.isfinite(out[index + 1].astype(np.float32)).all()
        if not isinstance(layer, Flatten) and not (finite and all(np.isfinite(array).all() for array in weights)):
            return index
    return len(net.layers)


@pytest.mark.parametrize(
    ("net", "rate"),
    [
        (MLP, 1e20),
        (MLP, 1e38),
        (DEEP, 1e8),
        (DEEP, 1e14),
        (DEEP, 1e30),
        (AUTOENCODER, 1e5),
        (AUTOENCODER, 1e20),
        (AUTOENCODER, 1e38),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_message_names_the_first_layer_the_epoch_and_the_step(net, rate):
    some, config = data(samples=200), PLAIN.but(learning_rate=rate)
    message = said(net, some, config, rung="numpy")
    epoch, step, layer = where(net, some, config)
    assert message.startswith(f"training diverged in epoch {epoch}, step {step} of 25: ")
    name = (
        type(net.loss).__name__ if layer == len(net.layers) else f"layer {layer} ({type(net.layers[layer]).__name__})"
    )
    assert name in message, (name, message)
    assert f"lower the learning rate ({rate:g} now) or set a clip_value" in message


@rungs
def test_every_rung_stops_with_the_place_and_a_hint(rung):
    message = said(MLP, data(), PLAIN.but(learning_rate=1e30, clip_value=1e30), rung=rung)
    assert re.match(
        r"training diverged in epoch 1, step 2 of 7: layer [13] \(Linear\) gives -?(inf|nan): its largest input is \S+ and",
        message,
    )
    assert message.endswith("lower the learning rate (1e+30 now)")


def test_the_trace_starts_from_the_middle_of_an_epoch_too(monkeypatch):
    monkeypatch.setattr(epochs, "SNAPSHOT_SECONDS", 0.0)
    some, config = data(samples=200), PLAIN.but(learning_rate=1e10)
    assert said(AUTOENCODER, some, config.but(log_every=1)) == said(AUTOENCODER, some, config)


def test_a_pixel_that_is_no_number_is_named():
    floats = pixels(data().train_x, 1 / 255)
    floats[17, 0, 2, 3] = np.nan
    some = data().but(
        train_x=floats, valid_x=None, valid_y=None, test_x=floats[:5], test_y=np.zeros(5, np.int32), scale=1.0
    )
    message = said(MLP, some, PLAIN)
    position = Order(5, 0, 53).indices(0, 53).tolist().index(17)
    assert (
        message
        == f"training diverged in epoch 1, step {position // 8 + 1} of 7: sample 17 of the train part holds nan; mend the data"
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_rung_that_reports_nonsense_is_blamed(bad):
    honest = []

    def spoil(order: Order, first: int, log: StepLog) -> StepLog:
        if order.epoch == 1 and first <= 4 < first + len(log.loss):
            honest.append(float(log.loss[4 - first]))
            log.loss[4 - first] = bad
        return log

    message = said(CNN, data(), PLAIN, rung=hooked("numpy", log=spoil))
    assert message.startswith(
        f"training diverged in epoch 2, step 5 of 7: rung 'numpy' gives a loss of {bad}, but NumPy gives "
    )
    assert (
        float(message.partition("NumPy gives ")[2].split()[0]) == pytest.approx(honest[0], rel=1e-5)
        and "fault of the rung" in message
    )


@pytest.mark.parametrize(
    ("index", "words"),
    [(0, "layer 0 (Conv2d): its weight"), (27, "layer 0 (Conv2d): its bias"), (-1, "layer 4 (Linear): its bias")],
)
def test_a_weight_spoilt_in_the_last_step_of_an_epoch_does_not_pass(tmp_path, index, words):
    def spoil(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if order.epoch == 1 and last == 7:
            state = trainer.state()
            state.params[index] = np.nan
            trainer.set_state(state)

    path = tmp_path / "c.safetensors"
    message = said(CNN, data(), PLAIN, rung=hooked("numpy", after=spoil), checkpoint=path)
    assert (
        message
        == f"training diverged in epoch 2, at step 7 or before: {words} holds nan; lower the learning rate (0.01 now) or set a clip_value"
    )
    assert (load(path).epoch, load(path).step) == (1, 0)


def test_spoilt_momentum_does_not_pass():
    def spoil(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if last == 7:
            state = trainer.state()
            state.slots["momentum_buffer"][-1] = np.inf
            trainer.set_state(state)

    assert "layer 3 (Linear): its bias has momentum that holds inf" in said(
        MLP, data(), CONFIG, rung=hooked("numpy", after=spoil)
    )


@rungs
def test_an_update_that_overflows_in_the_only_step_does_not_pass(rung):
    config = TrainConfig(epochs=1, batch_size=None, learning_rate=3e38, weight_decay=100.0)
    assert "layer 1 (Linear): its weight holds" in said(MLP, data(), config, rung=rung)


def test_a_spoilt_state_is_never_written(tmp_path):
    def spoil(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if last == 6:
            trainer.set_state(State(np.full(MLP.param_count, np.nan, np.float32)))

    path = tmp_path / "c.safetensors"
    said(MLP, data(), PLAIN, rung=hooked("numpy", after=spoil), checkpoint=path, checkpoint_every=3)
    assert (load(path).epoch, load(path).step) == (0, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.safetensors"]


@pytest.mark.parametrize("part", ["valid", "test"])
def test_a_score_that_is_not_finite_is_traced_too(part):
    small, labels = pixels(data().train_x, 1 / 255), np.zeros(5, np.int32)
    huge = small[:4].copy()
    huge[2] = 3e38
    x, y = part + "_x", part + "_y"
    some = data().but(train_x=small, valid_x=None, valid_y=None, test_x=small[:5], test_y=labels, scale=1.0)
    message = said(MLP, some.but(**{x: huge, y: np.zeros(4, np.int32)}), PLAIN)
    place = "in epoch 1, after its last step" if part == "valid" else "after 3 epochs"
    assert re.match(
        rf"training diverged {place}: the {part} loss is (nan|inf): layer 1 \(Linear\) gives -?inf: its largest input is 3e\+38",
        message,
    )
