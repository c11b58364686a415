"""Epochs without losses: rungs and peers leave them out or say that they cannot, the proof judges both kinds of epoch,
and nobody takes a mask for a loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from liars import Liar, Wrapper
from loss_liars import LOSS_LIARS
from peer_stand_ins import STAND_INS
from rungs_here import CPU_PEERS, HERE
from runs import AUTOENCODER, CONFIG, MLP, NETS, data, facts, hooked
from shared_cases import CODER
from strategies import case

from warpladder import nets
from warpladder.checkpoint import decode, encode
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.errors import CheckpointError, ConfigError, DivergedError, RungError
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.optimizers import AdamW
from warpladder.optimizers.schedules import Cosine
from warpladder.proof import verify
from warpladder.proof.tolerance import bound
from warpladder.rungs.base import Rung
from warpladder.rungs.numpy import build as honest
from warpladder.train import train
from warpladder.trainers.base import StepLog

FAR = bound("float32", 1000, steps=7)
THIRD = TrainConfig(batch_size=8, loss_every=3)


def test_epochs_with_losses_are_the_multiples_from_one_on() -> None:
    assert [epoch + 1 for epoch in range(10) if THIRD.has_loss(epoch)] == [3, 6, 9]
    assert all(map(TrainConfig().has_loss, range(5)))
    for wrong in (0, -1, 1.0, True, None, 2**31):
        with pytest.raises(ConfigError, match="loss_every"):
            TrainConfig(loss_every=wrong)  # type: ignore[arg-type]


def test_logs_of_steps_are_of_one_kind() -> None:
    size = np.array([8, 8, 3])
    log = StepLog.without_loss(size)
    assert not log.has_loss and len(log.loss) == len(log.correct) == 0 and log.size is size
    assert [(each.has_loss, each.size.tolist()) for each in log.by_step()] == [(False, [8]), (False, [8]), (False, [3])]
    again = StepLog.joined(log.by_step())
    assert not again.has_loss and again.size.tolist() == [8, 8, 3] and len(again.loss) == 0
    with pytest.raises(ValueError, match="not of one epoch"):
        StepLog.joined([log, StepLog(np.zeros(1), np.zeros(1, np.int64), np.ones(1, np.int64))])


# Rungs

#: One net each for what a rung compiles on its own: several steps of an epoch, a full batch, and images.
TASKS = {
    "mlp": (nets.mlp((1, 4, 4)), THIRD),
    "full batch": (nets.mlp10((1, 4, 4)), THIRD.but(batch_size=None)),
    "images": (CODER, THIRD.but(batch_size=4)),
}


#: Rungs that leave losses out, with every task; peers have the images at night.
WITH_TASKS = [
    pytest.param(
        rung,
        *task,
        id=f"{rung.name}-{name}",
        marks=[pytest.mark.nightly] if name == "images" and rung not in HERE else [],
    )
    for rung in (*HERE, *CPU_PEERS, *STAND_INS)
    for name, task in TASKS.items()
    if "loss_every" not in (rung.unsupported(*task) or "")
]


@pytest.mark.parametrize(("rung", "net", "config"), WITH_TASKS)
def test_weights_go_the_same_way_without_losses(rung: Rung, net: Net, config: TrainConfig) -> None:
    if reason := rung.unsupported(net, config):
        pytest.skip(reason)
    drawn = case(net, config, seed=3, samples=19)
    orders = [Order(0, epoch, 19) for epoch in range(7)]
    found = []
    for settings in (config, config.but(loss_every=1)):
        with rung.build(net, settings, drawn.state) as trainer:
            trainer.load(drawn.dataset)
            logs = trainer.run_epochs(orders)
            found.append((logs, trainer.state()))
            trainer.set_state(drawn.state)
            one_by_one = [trainer.run(order, 0, settings.steps(19)) for order in orders]
            assert [log.has_loss for log in one_by_one] == [log.has_loss for log in logs]
            for log, other in zip(logs, one_by_one, strict=True):
                assert np.allclose(log.loss, other.loss, rtol=FAR, atol=0) and log.size.tolist() == other.size.tolist()
    (some, end), (every, whole) = found
    assert [log.has_loss for log in some] == [False, False, True, False, False, True, False]
    assert all(log.has_loss for log in every)
    for log, other in zip(some, every, strict=True):
        assert log.size.tolist() == other.size.tolist()
        assert len(log.loss) == len(log.correct) == (len(log.size) if log.has_loss else 0)
        if log.has_loss:
            assert (
                np.allclose(log.loss, other.loss, rtol=FAR, atol=0) and log.correct.tolist() == other.correct.tolist()
            )
    assert np.linalg.norm(end.params - whole.params) <= FAR * np.linalg.norm(whole.params - drawn.state.params)
    assert end.step == whole.step == drawn.state.step + 7 * config.steps(19)


@pytest.mark.parametrize("rung", ("loops", "numpy", "native"))
def test_the_ladder_ends_in_the_same_bits_whatever_the_losses(rung: str) -> None:
    for net in NETS:
        ends = [train(net, data(), CONFIG.but(loss_every=every, epochs=4), rung=rung).params for every in (1, 2, 9)]
        assert len({b"".join(array.tobytes() for array in params.values()) for params in ends}) == 1


@pytest.mark.parametrize("name", ("sklearn",))
def test_who_cannot_leave_a_loss_out_says_so(name: str) -> None:
    reason = find(name).unsupported(nets.mlp(), THIRD)
    assert reason is not None and "loss_every" in reason
    with pytest.raises(RungError, match="loss_every"):
        train(MLP, data(), CONFIG.but(loss_every=2, nesterov=False, weight_decay=0.0), rung=name)


# The proof


@pytest.mark.parametrize(
    "rung",
    (*(rung for rung in HERE if rung.unsupported(nets.mlp(), THIRD) is None), *CPU_PEERS[:1]),
    ids=lambda rung: rung.name,
)
@pytest.mark.usefixtures("cases_once")
@pytest.mark.by_day("native", "naive-emulated", "torch")
def test_rungs_are_proven_in_both_kinds_of_epoch(rung: Rung) -> None:
    config = TrainConfig(batch_size=4, optimizer=AdamW(), schedule=Cosine(warmup=1), clip_value=5.0, loss_every=2)
    if reason := rung.unsupported(nets.mlp10((1, 8, 8)), config):
        pytest.skip(reason)
    verdict = verify(rung.build, nets.mlp10((1, 8, 8)), config)
    assert verdict.passed, verdict.reason
    assert verdict.checks["no loss"] > 10
    assert "no loss" not in verify(honest, nets.mlp10((1, 8, 8)), config.but(loss_every=1)).checks


@pytest.mark.parametrize("every", (2, 10, 2**31 - 1))
def test_honest_trainers_pass_whatever_the_epochs(every: int) -> None:
    for build in (honest, Wrapper):
        verdict = verify(build, nets.softmax((1, 4, 4)), THIRD.but(loss_every=every))
        assert verdict.passed, verdict.reason


@pytest.mark.parametrize("liar", LOSS_LIARS, ids=str)
@pytest.mark.parametrize(
    ("net", "batch"),
    ((nets.mlp((1, 8, 8)), 8), (nets.mlp10((1, 8, 8)), None), (CODER, 4)),
    ids=("mlp", "mlp10", "coder"),
)
@pytest.mark.usefixtures("cases_once")
def test_liars_about_losses_are_caught(liar: Liar, net: Net, batch: int | None) -> None:
    verdict = verify(liar.build, net, TrainConfig(batch_size=batch).but(**liar.settings))
    assert not verdict.passed
    assert verdict.reason.startswith(liar.caught_by), verdict.reason


# Training runs


def test_epochs_without_losses_have_none_in_the_history() -> None:
    run = train(MLP, data(), CONFIG.but(epochs=7, loss_every=3))
    whole = train(MLP, data(), CONFIG.but(epochs=7))
    for log, other in zip(run.history, whole.history, strict=True):
        if log.epoch % 3:
            assert log.train_loss is None and log.train_accuracy is None
        else:
            assert (log.train_loss, log.train_accuracy) == (other.train_loss, other.train_accuracy)
        assert (log.valid_loss, log.valid_accuracy) == (other.valid_loss, other.valid_accuracy) and log.seconds > 0
    assert "nan" not in repr(run).lower()
    alone = train(AUTOENCODER, data(), CONFIG.but(epochs=2, loss_every=2))
    assert [log.train_loss is None for log in alone.history] == [True, False]


@pytest.mark.parametrize("epochs", (2, 5, 6))
def test_a_run_that_goes_on_ends_as_one_that_never_stopped(epochs: int, tmp_path: Any) -> None:
    """Stopped in an epoch without losses, in one with them, and between two."""
    config = CONFIG.but(epochs=8, loss_every=3)
    whole = train(MLP, data(), config)

    class Crash(Exception):
        pass

    for stop in (0, 4):

        def crash(trainer: Any, order: Order, first: int, last: int, stop: int = stop) -> None:
            if order.epoch == epochs and first >= stop:
                raise Crash

        path = tmp_path / f"{stop}.safetensors"
        with pytest.raises(Crash):
            train(MLP, data(), config, rung=hooked("numpy", before=crash), checkpoint=path, checkpoint_every=1)
        assert facts(train(MLP, data(), resume=path).checkpoint) == facts(whole.checkpoint)


def test_a_checkpoint_whose_losses_do_not_fit_is_refused() -> None:
    kept = train(MLP, data(), CONFIG.but(epochs=3, loss_every=2)).checkpoint
    assert facts(decode(encode(kept))) == facts(kept)
    first, second, third = kept.history
    for history in ((replace(first, train_loss=1.0), second, third), (first, replace(second, train_loss=None), third)):
        with pytest.raises(CheckpointError, match=r"logs (a|no) loss of epoch (1|2), where loss_every is 2"):
            decode(encode(replace(kept, history=history)))


def test_a_run_goes_on_with_its_own_loss_every(tmp_path: Any) -> None:
    path = tmp_path / "c.safetensors"
    train(MLP, data(), CONFIG.but(epochs=3, loss_every=2), checkpoint=path)
    with pytest.raises(CheckpointError, match="loss_every is 2 there and 3 here"):
        train(MLP, data(), CONFIG.but(epochs=5, loss_every=3), resume=path)
    going_on = train(MLP, data(), CONFIG.but(epochs=5, loss_every=2), resume=path)
    assert [log.epoch for log in going_on.history if log.train_loss is not None] == [2, 4]


def test_divergence_in_an_epoch_without_losses_is_told() -> None:
    wild = CONFIG.but(epochs=6, loss_every=6, learning_rate=1e30, batch_size=None)
    with pytest.raises(
        DivergedError, match=r"training diverged in epoch \d, after its last step: the valid loss is nan: layer \d"
    ):
        train(MLP, data(), wild)
    with pytest.raises(DivergedError, match=r"training diverged in epoch \d, at step \d or before: layer \d"):
        train(MLP, data().but(valid_x=None, valid_y=None), wild)
    with pytest.raises(DivergedError, match="loss of nan"):
        spoilt = hooked("numpy", log=lambda order, first, log: replace(log, loss=np.full_like(log.loss, math.nan)))
        train(MLP, data(), CONFIG.but(epochs=6, loss_every=3), rung=spoilt)
