"""Settings are checked when they are made."""

import json
import math
from typing import Any

import numpy as np
import pytest

from warpladder import nets
from warpladder.config import RECIPES, TrainConfig
from warpladder.errors import ConfigError
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Constant, Cosine, StepDecay


def test_scalars_of_numpy_are_pythons_numbers():
    """Loops over arrays and `y.max() + 1` give such; JSON, and so a checkpoint, has none of them."""
    n: Any = np
    made = TrainConfig(
        epochs=n.int64(3), batch_size=n.uint8(16), seed=n.int32(7), learning_rate=n.float32(0.5), momentum=n.float64(0.9),
        shuffle=n.True_, clip_norm=n.float16(2), early_stopping=n.array(4),
    )  # fmt: skip
    wanted = {"epochs": 3, "batch_size": 16, "seed": 7, "shuffle": True, "clip_norm": 2.0, "early_stopping": 4}
    assert {name: getattr(made, name) for name in wanted} == wanted and made.learning_rate == 0.5
    assert all(type(getattr(made, name)) is type(value) for name, value in wanted.items())
    assert TrainConfig.from_dict(json.loads(json.dumps(made.as_dict()))) == made
    assert made.but(epochs=n.int64(9)) == made.but(epochs=9)
    assert Adam(n.float64(0.25), betas=(n.float64(0.5), n.float32(0.75))) == Adam(0.25, betas=(0.5, 0.75))
    assert Cosine(warmup=n.int64(2)) == Cosine(warmup=2)
    net = nets.mlp(in_shape=n.zeros((5, 4)).shape[1:], hidden=n.array([8, 6]), classes=n.arange(3).max() + 1)
    assert net == nets.mlp(in_shape=(4,), hidden=(8, 6), classes=3)
    same = nets.Net(net.name, (n.int64(4),), net.layers, net.loss)
    assert same == net and type(same.in_shape[0]) is int
    for value in (n.float64(3), n.int64(-1), n.array([3]), n.array("3")):
        with pytest.raises(ConfigError, match="epochs wants a whole number of at least 0"):
            TrainConfig(epochs=value)


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": -1},
        {"epochs": 1.0},
        {"epochs": True},
        {"batch_size": 0},
        {"batch_size": "64"},
        {"learning_rate": -0.1},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"learning_rate": "0.1"},
        {"momentum": -0.5},
        {"momentum": 1.0},
        {"momentum": 1.5},
        {"weight_decay": math.nan},
        {"clip_value": -1},
        {"clip_value": 0},
        {"clip_norm": -1},
        {"clip_norm": 0},
        {"clip_norm": math.nan},
        {"clip_value": 1.0, "clip_norm": 1.0},
        {"nesterov": True},
        {"nesterov": 1, "momentum": 0.9},
        {"shuffle": "no"},
        {"seed": -1},
        {"seed": 2**32},
        {"log_every": 0},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_by_name(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))) as caught:
        TrainConfig(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("batch_size", "drop_last", "batch", "steps"),
    [(64, False, 64, 23), (64, True, 64, 22), (None, False, 1437, 1), (9999, True, 1437, 1), (1, False, 1, 1437)],
)
def test_batches_and_steps(batch_size, drop_last, batch, steps):
    config = TrainConfig(batch_size=batch_size, drop_last=drop_last)
    assert (config.batch(1437), config.steps(1437)) == (batch, steps)


def test_a_copy_with_changes():
    config = TrainConfig(momentum=0.9)
    assert config.but(epochs=7) == TrainConfig(epochs=7, momentum=0.9)
    with pytest.raises(
        ConfigError, match=r"there is no setting 'lr': did you mean 'learning_rate'\? there are batch_size"
    ):
        config.but(lr=0.1)
    with pytest.raises(ConfigError, match="epochs"):
        config.but(epochs=-1)


def test_a_setting_of_the_optimizer_changes_the_one_that_there_is_and_stands_next_to_no_other():
    config = TrainConfig(optimizer=Adam(0.1)).but(learning_rate=0.2, betas=(0.8, 0.9))
    assert config.optimizer == Adam(0.2, betas=(0.8, 0.9)) and config.but(eps=1e-3).optimizer == Adam(
        0.2, betas=(0.8, 0.9), eps=1e-3
    )
    with pytest.raises(
        ConfigError, match=r"it has learning_rate, betas, eps, weight_decay; momentum is a setting of .*SGD"
    ):
        config.but(momentum=0.9)
    for both in (
        lambda: TrainConfig(optimizer=Adam(1e-3), learning_rate=0.1),
        lambda: config.but(optimizer=SGD(0.1), learning_rate=0.2),
    ):
        with pytest.raises(ConfigError, match="learning_rate stands next to an optimizer that has its own: write it"):
            both()


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(), TrainConfig(momentum=0.9, nesterov=True, clip_value=5.0), TrainConfig(optimizer=Adam(betas=(0.8, 0.9)), schedule=Cosine(warmup=1)),
        TrainConfig(optimizer=AdamW(1), schedule=StepDecay(every=2)), TrainConfig(schedule=Cosine(epochs=3)),
    ],
    ids=lambda config: config.optimizer.described(),
)  # fmt: skip
def test_settings_come_back_from_json(config):
    assert TrainConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    flat = {name: value for name, value in config.as_dict().items() if name not in ("optimizer", "schedule")}
    if isinstance(config.optimizer, SGD):
        flat |= {name: getattr(config.optimizer, name) for name in ("learning_rate", "momentum", "nesterov")}
        assert TrainConfig.from_dict(flat).optimizer == config.optimizer


def test_what_a_schedule_that_ends_with_the_run_is_in_a_longer_one():
    config = TrainConfig(epochs=4, schedule=Cosine(warmup=1, least=1e-3))
    fixed = config.but(schedule=config.schedule.over(4))
    assert not fixed.schedule.by_epochs and fixed.schedule.over(9) is fixed.schedule
    assert config.rates(0, 60, 640).tobytes() == fixed.but(epochs=9).rates(0, 60, 640).tobytes()


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (SGD(0.1), "SGD 0.1"), (SGD(0.1, momentum=0.9, nesterov=True, weight_decay=5e-4), "SGD 0.1, momentum 0.9, nesterov, weight decay 0.0005"),
        (Adam(), "Adam 0.001"), (AdamW(1e-5, betas=(0.9, 0.99), eps=1e-6), "AdamW 1e-05, betas 0.9 0.99, eps 1e-06"),
        (Constant(), "constant"), (Constant(warmup=0.5), "constant, warm-up 0.5 epochs"), (StepDecay(every=5), "stepdecay, every 5"),
        (Cosine(warmup=1, least=1e-5, epochs=20), "cosine, least 1e-05, epochs 20, warm-up 1 epoch"),
    ],
)  # fmt: skip
def test_an_optimizer_or_schedule_in_a_few_words(thing, words):
    assert thing.described() == words


def test_there_is_a_recipe_for_every_net():
    assert list(RECIPES) == [make.__name__ for make in nets.ZOO]
