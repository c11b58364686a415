"""Whole epochs in one call: the same bits as one by one, fewer waits, and a training loop that asks for them where
nothing is to be done between.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from peer_stand_ins import STAND_INS
from runs import CNN, CONFIG, MLP, data, facts, hooked
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device.emulator import EmulatedDevice
from warpladder.errors import ConfigError, DivergedError
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.ops.tables.graph import TABLE
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine
from warpladder.proof.tolerance import bound
from warpladder.rungs.base import Rung
from warpladder.train import Run, train
from warpladder.train import epochs as training_loop
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import epoch_log
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.native.trainer import NativeTrainer

FULL = TrainConfig(batch_size=None, learning_rate=1e-2, momentum=0.9)


def graphed(net: Net, config: TrainConfig, state: State) -> Trainer:
    return GraphedTrainer(net, config, state, EmulatedDevice(), TABLE)


GRAPHED = Rung("graphed", "", "", graphed)


def both(
    rung: Rung, net: Net, config: TrainConfig, epochs: int
) -> tuple[tuple[list[StepLog], State], tuple[list[StepLog], State], int]:
    """Logs and end of epochs in one call, the same one by one, and how often the first waited for the device."""
    drawn = case(net, config, seed=3, samples=20)
    orders = [Order(0, epoch, 20) for epoch in range(epochs)]
    waits = 0
    with rung.build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        if isinstance(trainer, kernelwise.KernelTrainer):
            finished = trainer._finished

            def counted(first: int, size: np.ndarray, has_loss: bool) -> StepLog:
                nonlocal waits
                waits += 1
                return finished(first, size, has_loss)

            trainer._finished = counted  # type: ignore[method-assign]
        together = trainer.run_epochs(orders), trainer.state()
        waited = waits
        trainer.set_state(drawn.state)
        apart = [trainer.run(order, 0, config.steps(20)) for order in orders], trainer.state()
    return together, apart, waited


@pytest.mark.parametrize(
    ("net", "config", "waits"),
    [
        (nets.mlp10((1, 5, 7)), FULL, 3),  # 9 epochs, of which the log holds four
        (nets.softmax((1, 5, 7)), FULL, 3),
        (nets.mlp((1, 5, 7)), FULL, 9),  # computed layer by layer, in the order of each epoch
        (nets.mlp10((1, 5, 7)), FULL.but(batch_size=8), 9),
    ],
    ids=("mlp10", "softmax", "mlp", "batches"),
)
def test_a_graph_waits_once_where_epochs_are_alike(
    net: Net, config: TrainConfig, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch_log, "REPEATS", 4)
    (logs, end), (wanted, wanted_end), waited = both(GRAPHED, net, config, 9)
    assert waited == waits
    assert len(logs) == 9
    for log, other in zip(logs, wanted, strict=True):
        assert np.isfinite(log.loss).all()
        for name in ("loss", "correct", "size"):
            found, expected = getattr(log, name), getattr(other, name)
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert end.bits() == wanted_end.bits()
    assert len({log.loss[0] for log in logs}) == 9  # it learns


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("net", "config"),
    [
        (nets.mlp10((1, 5, 7)), FULL),
        (nets.mlp((1, 5, 7)), FULL.but(optimizer=Adam(1e-3), schedule=Cosine(warmup=2), epochs=20)),
        (CNN, FULL.but(loss_every=3)),
        (nets.autoencoder((3, 8, 8)), FULL),
        (nets.mlp10((1, 5, 7)), FULL.but(batch_size=8)),  # several steps an epoch, the last one smaller
    ],
    ids=("SGD", "Adam", "few losses", "MSE", "batches"),
)
def test_native_trains_the_same_epochs_in_one_call(net: Net, config: TrainConfig, threads: int) -> None:
    def native(net: Net, config: TrainConfig, state: State) -> Trainer:
        return NativeTrainer(net, config, state, threads)

    (logs, end), (wanted, wanted_end), _ = both(Rung("native", "", "", native), net, config, 9)
    assert [log.has_loss for log in logs] == [config.has_loss(epoch) for epoch in range(9)]
    for log, other in zip(logs, wanted, strict=True):
        assert [each.tobytes() for each in (log.loss, log.correct, log.size)] == [
            each.tobytes() for each in (other.loss, other.correct, other.size)
        ]
    assert end.bits() == wanted_end.bits()
    losses = [log.loss[0] for log in logs if log.has_loss]
    assert np.isfinite(losses).all() and len(set(losses)) == len(losses)  # it learns


@pytest.mark.parametrize("peer", (*STAND_INS, find("jax"), find("torch", threads=1)), ids=lambda peer: peer.name)
@pytest.mark.parametrize("net", (MLP, CNN), ids=lambda net: net.name)
def test_peers_train_the_same_epochs_together(peer: Rung, net: Net) -> None:
    if reason := peer.unsupported(net, FULL):
        pytest.skip(reason)
    epochs = 130  # two blocks of the longest, and some by themselves
    (logs, end), (wanted, wanted_end), _ = both(peer, net, FULL, epochs)
    assert [log.size.tolist() for log in logs] == [[20]] * epochs
    assert [len(log.loss) for log in logs] == [len(log.correct) for log in logs] == [1] * epochs
    losses, others = (np.concatenate([log.loss for log in some]) for some in (logs, wanted))
    assert np.abs(losses / others - 1).max() <= 1e-4
    assert np.linalg.norm(end.params - wanted_end.params) <= bound("float32", 1000, steps=epochs) * np.linalg.norm(
        wanted_end.params
    )


@pytest.mark.parametrize("rung", (GRAPHED, *STAND_INS[:1], find("jax")), ids=lambda rung: rung.name)
def test_an_order_over_other_samples_is_refused(rung: Rung) -> None:
    if reason := rung.unsupported(MLP, FULL):
        pytest.skip(reason)
    net = nets.mlp10((1, 5, 7))
    drawn = case(net, FULL, seed=3, samples=20)
    with rung.build(net, FULL, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        with pytest.raises(ConfigError, match="the order is over 21 samples, the training set has 20"):
            trainer.run_epochs([Order(0, 0, 20), Order(0, 1, 21)])
        assert trainer.run_epochs([]) == []
        assert trainer.state().params.tobytes() == drawn.state.params.tobytes()


# The training loop


def plain(samples: int = 53) -> Dataset:
    return data(samples).but(valid_x=None, valid_y=None)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many epochs each call of `run_epochs` is given from here on."""
    calls: list[int] = []
    original = Trainer.run_epochs

    def noted(self: Trainer, orders: list[Order]) -> list[StepLog]:
        calls.append(len(orders))
        return original(self, orders)

    monkeypatch.setattr(Trainer, "run_epochs", noted)
    return calls


def trained(config: TrainConfig, some: Dataset) -> tuple[object, Run]:
    run = train(MLP, some, config, rung="numpy")
    return [array.tobytes() for array in run.params.values()], run


@pytest.mark.parametrize(
    ("batch", "log_every", "calls"),
    [(None, 100, [22]), (None, 10, [10, 10, 2]), (None, 1, []), (27, 100, [22]), (27, 5, [2] * 11), (8, 100, [14, 8])],
)
def test_short_epochs_are_trained_together(
    batch: int | None, log_every: int, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.but(epochs=23, batch_size=batch, log_every=log_every)
    wanted, one_by_one = trained(config.but(log_every=1), plain())
    monkeypatch.setattr(training_loop, "CALL_SECONDS", 1000.0)
    found = asked(monkeypatch)
    weights, run = trained(config, plain())
    assert found == calls  # the first epoch is for itself, to see how long a step takes
    assert weights == wanted
    assert [replace(log, seconds=0.0) for log in run.history] == [
        replace(log, seconds=0.0) for log in one_by_one.history
    ]
    assert [log.epoch for log in run.history] == list(range(1, 24)) and all(log.seconds > 0 for log in run.history)


def test_epochs_are_apart_where_something_is_done_between_them(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = asked(monkeypatch)
    config = CONFIG.but(epochs=4, batch_size=None)
    run = train(MLP, data(), config, rung="numpy")
    assert all(log.valid_loss is not None for log in run.history)
    kept = train(MLP, plain(), config, rung="numpy", checkpoint=tmp_path / "c.safetensors")
    assert calls == []
    going_on = train(MLP, plain(), rung="numpy", resume=tmp_path / "c.safetensors", config=config.but(epochs=9))
    assert calls == [4] and len(going_on.history) == 9  # the first for itself, and four together
    assert facts(train(MLP, plain(), config, rung="numpy").checkpoint) == facts(kept.checkpoint)


def test_a_loss_that_is_not_finite_is_traced_to_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_loop, "CALL_SECONDS", 1000.0)
    for rate in (1e3, 1e5, 1e10, 1e30):
        said = []
        for log_every in (1, 100):
            config = CONFIG.but(epochs=60, batch_size=None, learning_rate=rate, log_every=log_every)
            with pytest.raises(DivergedError) as error:
                train(CNN, plain(), config, rung="numpy")
            said.append(str(error.value))
        assert said[0] == said[1], rate


def test_a_rung_that_reports_nonsense_in_one_of_many_epochs_is_blamed() -> None:
    def spoil(order: Order, first: int, log: StepLog) -> StepLog:
        return StepLog(np.full(1, math.nan), log.correct, log.size) if order.epoch == 7 else log

    with pytest.raises(
        DivergedError,
        match=r"training diverged in epoch 8, step 1 of 1: rung 'numpy' gives a loss of nan, but NumPy gives",
    ):
        train(MLP, plain(), CONFIG.but(epochs=20, batch_size=None, log_every=100), rung=hooked("numpy", log=spoil))
