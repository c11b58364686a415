"""Settings for each net on the data set that comes with the package: the first result is one to be proud of."""

import pytest

import warpladder as wl
from warpladder.config import DIGITS, RECIPES, recipe
from warpladder.nets import ZOO
from warpladder.train.request import DataRequest, RunRequest
from warpladder.train.resolve import resolve_task

#: Test accuracy on the digits at least: other people wrote the test samples, and 256 hidden units come to 94 %.
LEAST = {"softmax": 0.9, "mlp": 0.93, "mlp10": 0.86, "cnn": 0.95}


def test_every_net_has_settings_of_its_report_and_for_the_digits():
    assert set(RECIPES) == set(DIGITS) == {make.__name__ for make in ZOO}
    assert recipe("cnn", "digits") is DIGITS["cnn"] and recipe("cnn", "mnist") is recipe("cnn") is RECIPES["cnn"]
    assert recipe("mine", "digits") == wl.TrainConfig()


@pytest.mark.parametrize(
    "data", ["digits", DataRequest("digits"), wl.data.load("digits")], ids=["name", "request", "set"]
)
def test_the_recipe_is_that_of_net_and_data_however_the_data_are_named(data):
    assert resolve_task(RunRequest("mlp", data)).config == DIGITS["mlp"].but(initial="he")
    assert resolve_task(RunRequest("mlp", data, settings={"epochs": 3})).config == DIGITS["mlp"].but(
        epochs=3, initial="he"
    )
    config = wl.TrainConfig(epochs=2)
    assert resolve_task(RunRequest("mlp", data, config)).config == config.but(initial="he")


@pytest.mark.parametrize("net", LEAST)
@pytest.mark.by_day("softmax", "mlp10")
def test_training_on_the_digits_ends_well(net):
    run = wl.train(net, "digits")
    assert run.test_accuracy is not None and run.test_accuracy >= LEAST[net], run


def test_a_warm_up_longer_than_the_run_is_pointed_out():
    config = wl.TrainConfig(epochs=2, learning_rate=0.5, schedule=wl.Cosine(warmup=3))
    data = wl.data.load("digits", limit=32)
    with pytest.warns(
        UserWarning, match="the warm-up of 3 epochs is longer than the run of 2: the learning rate never comes to 0.5"
    ):
        wl.train("softmax", data, config)
