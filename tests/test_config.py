"""Settings are checked when they are made."""

import math

import pytest

from warpladder import nets
from warpladder.config import RECIPES, TrainConfig
from warpladder.errors import ConfigError


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
        {"learning_rate": None},
        {"momentum": -0.5},
        {"momentum": 1.0},
        {"momentum": 1.5},
        {"weight_decay": math.nan},
        {"clip_value": -1},
        {"clip_value": 0},
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
    with pytest.raises(ConfigError, match="there is no setting 'lr'; the settings are batch_size"):
        config.but(lr=0.1)
    with pytest.raises(ConfigError, match="epochs"):
        config.but(epochs=-1)


def test_there_is_a_recipe_for_every_net():
    assert list(RECIPES) == [make.__name__ for make in nets.ZOO]
