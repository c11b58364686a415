"""Honest programs whose history once went astray: at kinks again and again, where a sample is learnt, by factors that a
coarse format rounds.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from warpladder import ladder, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, Net, ReLU, Tanh
from warpladder.optimizers import SGD, Adam, AdamW, RMSprop
from warpladder.optimizers.schedules import OneCycle
from warpladder.proof import verify
from warpladder.proof.case_maker import CaseMaker
from warpladder.proof.history import make_history
from warpladder.proof.history.trajectory import Errors, Trajectory, train
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.samples import DatasetSamples, Noise
from warpladder.trainers.base import State, Trainer


def off(net: Net, config: TrainConfig, seed: int, precision: str = "fp32") -> tuple[float, int]:
    """Largest error of an honest program's last weights over its tolerance, and steps of the history."""
    maker = CaseMaker(net, config, np.random.default_rng(seed), precision)
    history = make_history(maker, Noise(net, np.uint8))
    trainer: Trainer
    if maker.precision.coarse:
        trainer = ReferenceTrainer(net, history.config, history.start, precision)
    else:
        trainer = ladder.find("numpy").build(net, history.config, history.start)
    trainer.load(history.dataset)
    trainer.run_epochs(list(history.orders))
    errors = ReferenceTrainer(net, config, history.start).norms(trainer.state().params - history.end)
    assert history.sharpness > 0.2
    return max(errors[name] / history.tolerances[name] for name in errors), len(history.losses)


@pytest.mark.parametrize("seed", [21, 193])
def test_a_history_ends_before_its_kinks_are_crossed_again_and_again(seed: int) -> None:
    """With steps of one size Adam goes to and fro over a pool's tie: 1.4 times the tolerance before."""
    optimizer = Adam(1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=1e-2)
    config = TrainConfig(batch_size=8, epochs=5, optimizer=optimizer, schedule=OneCycle())
    error, steps = off(nets.cnn((1, 8, 8)), config, seed)
    assert error < 0.5
    assert steps > 50


def test_digits_that_a_learnt_sample_loses_count() -> None:
    """A unit that is first active once its sample is learnt has a gradient of p - 1 alone, and RMSprop divides it by
    its size: 82 times the tolerance before.
    """
    layers = Linear(out_features=2), ReLU(), Linear(out_features=4), ReLU(), Linear(out_features=6)
    net, optimizer = Net("tiny", (4,), layers, CrossEntropyLoss()), RMSprop(1e-3, weight_decay=1.8e-6, momentum=0.9)
    config = TrainConfig(batch_size=256, optimizer=optimizer, schedule=OneCycle(), clip_value=0.0217645, epochs=7)
    for seed in range(20):
        assert off(net, config, seed)[0] < 0.5, seed


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.by_day("0", "5")
def test_honest_programs_of_a_format_are_among_the_twins(seed: int) -> None:
    """A pixel that is rounded to tf32 crosses a kink in every step."""
    assert off(nets.mlp((1, 8, 8)), TrainConfig(batch_size=None), seed, "tf32")[0] < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_one_step_that_is_left_out_shows_along_the_way(seed: int) -> None:
    """Errors of rounding, and kinks that are crossed, hardly ever have the direction of the training."""
    layers = Conv2d(out_channels=6, kernel_size=3), ReLU(), Conv2d(out_channels=8, kernel_size=3), ReLU(), Flatten()
    net = Net("convs", (1, 8, 8), (*layers, Linear(out_features=10)), CrossEntropyLoss())
    history = make_history(CaseMaker(net, TrainConfig(), np.random.default_rng(seed)), Noise(net, np.uint8))
    trainer = ladder.find("numpy").build(net, history.config, history.start)
    trainer.load(history.dataset)
    left_out = int(np.random.default_rng(seed).integers(len(history.orders)))
    trainer.run_epochs([order for number, order in enumerate(history.orders) if number != left_out])
    assert history.along(trainer.state().params) > 4 * history.ahead
    trainer.set_state(history.start)
    trainer.run_epochs(list(history.orders))
    assert history.along(trainer.state().params) < history.ahead / 4
    assert replace(history, end=history.end * np.nan).sharpness == 0  # training that went astray shows nothing


def test_large_logits_that_tie_are_kinks() -> None:
    """Logits of 10^5 are off by tenths. Next to a tie of two the probabilities change with them, and training goes
    another way: each of these seeds refused numpy, by 1.8 to 55 tolerances.
    """
    rng, net = np.random.default_rng(5), Net("soft", (12,), (Linear(out_features=5),), CrossEntropyLoss())
    x = (rng.normal(size=(300, 12)) * 2.0**16).astype(np.float32)
    data = Dataset("table", x, rng.integers(0, 5, 300).astype(np.int32), x[:1], np.zeros(1, np.int32), 1.0)
    for seed in (3, 11, 15, 212):
        maker = CaseMaker(net, TrainConfig(batch_size=8), np.random.default_rng(seed))
        history = make_history(maker, DatasetSamples(net, data))
        assert history.sharpness > 1
        trainers = [ladder.find("numpy").build(net, history.config, history.start) for _ in range(2)]
        logs = []
        for trainer, skipped in zip(trainers, (None, len(history.orders) // 2), strict=True):
            trainer.load(history.dataset)
            for number, order in enumerate(history.orders):
                if number != skipped:
                    logs.append(trainer.run(order, 0, history.config.steps(order.n)))
        honest, late = (history.along(trainer.state().params.astype(np.float64)) for trainer in trainers)
        losses = np.concatenate([log.loss for log in logs[: len(history.orders)]])
        assert np.all(np.abs(losses - history.losses) < 0.8 * history.loss_tolerances), seed
        assert honest < 0.8 * history.ahead < 0.8 * late, seed


def wide(draw: int) -> tuple[Net, TrainConfig, Dataset]:
    """Small net behind two features of sizes 2^-14 to 2^15, and up to three samples."""
    rng = np.random.default_rng(draw)
    classes, hidden = int(rng.integers(2, 60)), int(rng.integers(1, 12))
    layers = Linear(out_features=hidden), Tanh(), Linear(out_features=classes)
    net = Net("wide", (2,), layers, CrossEntropyLoss())
    n = int(rng.integers(1, 4))
    x = (rng.normal(size=(n, 2)) * 2.0 ** rng.integers(-14, 16, (1, 2))).astype(np.float32)
    data = Dataset("wide", x, rng.integers(0, classes, n).astype(np.int32), x[:1], np.zeros(1, np.int32), 1.0)
    optimizer = (AdamW(1e-3), SGD(0.01, momentum=0.9), RMSprop(1e-3), Adam(1e-3))[draw % 4]
    return net, TrainConfig(batch_size=1, optimizer=optimizer), data


@pytest.mark.parametrize(
    "draw", [11, *(pytest.param(draw, marks=pytest.mark.slow) for draw in (41, 110, 167, 218, 224, 286))]
)
def test_saturated_units_have_few_digits(draw: int) -> None:
    """Honest programs were off by 0.28 of a movement, by 6 tolerances of the loss, and by 9 of a movement."""
    net, config, data = wide(draw)
    verdict = verify(find("numpy").build, net, config, dataset=data, seed=draw, reach=4)
    assert verdict.passed, verdict.reason


def test_a_twins_difference_is_computed_where_a_gradient_grows() -> None:
    """A unit leaves saturation, and one step moves it more than all others: 1.8 tolerances of the loss before."""
    net, config, data = wide(32)
    history = make_history(CaseMaker(net, config, np.random.default_rng(32)), DatasetSamples(net, data))
    assert history.sharpness > 1
    losses = []
    for skipped in (None, len(history.orders) // 2):
        trainer = find("numpy").build(net, history.config, history.start)
        trainer.load(history.dataset)
        orders = [order for number, order in enumerate(history.orders) if number != skipped]
        losses.append(np.concatenate([log.loss for log in trainer.run_epochs(orders)]))
        is_on_the_way = history.along(trainer.state().params) < history.ahead
        assert is_on_the_way == (skipped is None)
    assert np.all(np.abs(losses[0] - history.losses) < 0.8 * history.loss_tolerances)


def test_a_twin_whose_losses_happen_to_cancel() -> None:
    """Tolerances of a net of few parameters hardly depend on the signs of the twin's errors: sevenfold before."""
    net = Net("line", (3,), (Linear(out_features=1),), nets.MSELoss())
    start = State(np.array([0.5, -0.25, 0.75, 0.1]))
    random = np.random.default_rng(0)
    x, y = random.random((4, 3), np.float32), random.random((4, 1), np.float32)
    orders, config = tuple(Order(0, epoch, 4, shuffle=False) for epoch in range(20)), TrainConfig(batch_size=4)
    found = []
    for signs in itertools.product((-1e-6, 1e-6), repeat=4):
        shares = np.stack([np.array(signs), np.zeros(4)])
        true = Trajectory(net, config, start)
        twin = Trajectory(net, config, start, Errors(shares, np.ones((4, 1)), 1e-6, named("fp32")))
        train(true, [twin], Dataset("four", x, y, x[:1], y[:1]), orders, named("fp32"))
        found.append(true.losses_off(twin)[-1])
    assert max(found) < 3 * min(found)
