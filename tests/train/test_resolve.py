"""What `train` and `climb` are given: names stand for what they name, everything else that is wrong is told in a
sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runs import CONFIG, MLP, data

import warpladder as wl
from warpladder.errors import ArgumentError, ConfigError, DataError, NetError, RungError, WarpladderError
from warpladder.train.resolve import resolve_config

pytestmark = pytest.mark.usefixtures("small_climbs")

NOISE = data()


def test_names_stand_for_what_they_name():
    one = wl.TrainConfig(epochs=1)
    run = wl.train("softmax", "digits", one, rung="numpy")
    digits = wl.data.load("digits")
    same = wl.train(wl.nets.softmax((1, 8, 8)), digits, one)
    assert run.net == same.net and all(np.array_equal(array, same.params[name]) for name, array in run.params.items())
    assert wl.nets.named("autoencoder", (3, 8, 8)) == wl.nets.autoencoder((3, 8, 8))
    assert wl.nets.named("mlp", (1, 8, 8), 3) == wl.nets.mlp((1, 8, 8), 3)


def test_a_climb_takes_names_and_no_number_of_epochs():
    results = wl.climb(MLP, NOISE, CONFIG.but(epochs=2), ["numpy", wl.ladder.find("native")], repeats=1, budget=1)
    assert [rung.name for rung in results.timed()] == ["numpy", "native"] and results.epochs == 2
    assert all(rung.trained_epochs == 2 for rung in results.rungs)


def test_a_climb_standardises_as_training_does():
    x = NOISE.train_x.reshape(53, 16).astype(float) + 1e4
    table = wl.data.arrays(x, NOISE.train_y, x, NOISE.train_y, standardize=True)
    net = wl.Net("table", (16,), (wl.Linear(out_features=3),), wl.CrossEntropyLoss())
    results = wl.climb(net, table, CONFIG, ["numpy"], epochs=1, repeats=1, budget=1)
    run = wl.train(net, table, CONFIG.but(epochs=1))
    assert results.rungs[0].status == "timed" and results.rungs[0].test_accuracy == run.test_accuracy
    assert results.data.dtype == "float32" and results.command == ""


def test_a_climb_on_standardised_data_says_so_where_it_says_how_to_repeat_it():
    data = wl.data.load("digits", standardize=True)
    results = wl.climb("softmax", data, CONFIG, ["numpy"], epochs=1, repeats=1, budget=1)
    assert "--scale-features" in results.command


TRAIN: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "an unknown net": (("mlpp", NOISE), {}, NetError, "there is no net 'mlpp'; there are softmax, mlp"),
    "an unknown data set": ((MLP, "dgits"), {}, DataError, "there is no data set 'dgits'"),
    "a net's function": (
        (wl.nets.mlp, NOISE),
        {},
        ArgumentError,
        r"got an object of type 'function': call it: wl.nets.mlp\(\(1, 4, 4\)\)",
    ),
    "a class": ((wl.Net, NOISE), {}, ArgumentError, "net wants a Net or a name such as 'mlp', got the class 'Net'"),
    "a list of layers": (([wl.ReLU()], NOISE), {}, ArgumentError, "net wants a Net .* got an object of type 'list'"),
    "no net": ((None, NOISE), {}, ArgumentError, "net wants a Net .* got None"),
    "two arrays": (
        (MLP, (NOISE.train_x, NOISE.train_y)),
        {},
        ArgumentError,
        r"data wants a Dataset .* make one with wl.data.arrays\(...\)",
    ),
    "an array": ((MLP, NOISE.train_x), {}, ArgumentError, "got an object of type 'ndarray'"),
    "a dict of settings": (
        (MLP, NOISE, {"epochs": 1}),
        {},
        ArgumentError,
        r"got a dict: write wl.TrainConfig\(\*\*config\)",
    ),
    "a number of epochs": (
        (MLP, NOISE, 5),
        {},
        ArgumentError,
        r"config wants a TrainConfig, got 5: write wl.TrainConfig\(epochs=5",
    ),
    "the class of settings": ((MLP, NOISE, wl.TrainConfig), {}, ArgumentError, "got the class 'TrainConfig'"),
    "an unknown rung": ((MLP, NOISE), {"rung": "natve"}, RungError, "there is no rung 'natve'"),
    "a list of rungs": (
        (MLP, NOISE),
        {"rung": ["numpy"]},
        ArgumentError,
        "rung wants a Rung or a name such as 'native'",
    ),
}

CLIMB: dict[str, tuple[Any, type[Exception], str]] = {
    "one name": ("numpy", ArgumentError, r"rungs wants a list .* write \['numpy'\]"),
    "names with commas": ("numpy,native", ArgumentError, r"write \['numpy', 'native'\]"),
    "one rung": (wl.ladder.find("native"), ArgumentError, r"write \['native'\]"),
    "a number": (3, ArgumentError, "rungs wants a list"),
    "a list of numbers": ([3], ArgumentError, "rung wants a Rung or a name such as 'native', got 3"),
    "an unknown name": (["numpy", "natve"], RungError, "there is no rung 'natve'"),
    "none": ([], RungError, "at least one rung"),
}


@pytest.mark.parametrize("case", TRAIN)
def test_what_cannot_be_trained(case):
    arguments, settings, kind, words = TRAIN[case]
    with pytest.raises(kind, match=words) as caught:
        wl.train(*arguments, **settings)
    assert isinstance(caught.value, WarpladderError) and "\n" not in str(caught.value)


@pytest.mark.parametrize("case", CLIMB)
def test_what_cannot_be_climbed(case):
    rungs, kind, words = CLIMB[case]
    with pytest.raises(kind, match=words) as caught:
        wl.climb(MLP, NOISE, CONFIG, rungs)
    assert "\n" not in str(caught.value)


def test_a_climb_refuses_the_same_nets_data_and_settings():
    wrong: list[tuple[Any, ...]] = [
        ("mlpp", NOISE, CONFIG),
        (MLP, "dgits", CONFIG),
        (MLP, NOISE, {}),
        (None, NOISE, None),
    ]
    for net, samples, config in wrong:
        with pytest.raises(WarpladderError) as caught:
            wl.climb(net, samples, config, ["numpy"])
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="epochs wants a whole number"):
        wl.climb(MLP, NOISE, CONFIG, ["numpy"], epochs=-1)


def test_a_recipe_stands_in_for_settings_that_are_not_given():
    assert resolve_config("softmax").epochs == 20 and resolve_config(MLP.name) == wl.TrainConfig()


# Layers, called as no type checker would let them be

loose: Any = wl

LAYERS = {
    "PyTorch's order": (lambda: loose.Conv2d(1, 16, 3), r"Conv2d\(1, 16, 3\): Conv2d takes out_channels, .* by name, for input sizes are inferred"),
    "PyTorch's order, half by name": (lambda: loose.Conv2d(1, 16, kernel_size=3), r"write Conv2d\(out_channels=..., kernel_size=...\)"),
    "no names": (lambda: loose.Conv2d(16, 3), r"write Conv2d\(out_channels=..., kernel_size=...\)"),
    "an input size": (lambda: loose.Conv2d(in_channels=1, out_channels=2, kernel_size=3), "has no in_channels, for input sizes are inferred"),
    "dilation": (lambda: loose.Conv2d(out_channels=2, kernel_size=3, dilation=2), "Conv2d has no dilation; it has out_channels"),
    "Linear in PyTorch's order": (lambda: loose.Linear(784, 10), r"Linear takes out_features, bias by name, for input sizes are inferred"),
    "Linear of one number": (lambda: loose.Linear(10), r"write Linear\(out_features=...\)"),
    "Linear of nothing": (lambda: loose.Linear(), "Linear wants out_features"),
    "Upsample's size": (lambda: loose.Upsample2d(2), r"write Upsample2d\(scale_factor=...\)"),
    "a pool's padding": (lambda: loose.MaxPool2d(2, 2, 1), "MaxPool2d takes kernel_size, stride by name"),
    "a pool of nothing": (lambda: loose.MaxPool2d(), "MaxPool2d wants kernel_size"),
    "inplace": (lambda: loose.ReLU(inplace=True), "ReLU has no inplace; it has no settings"),
    "a first axis": (lambda: loose.Flatten(1), r"Flatten has no settings: write Flatten\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layers_take_by_name_what_pytorch_reads_otherwise(case):
    make, words = LAYERS[case]
    with pytest.raises(TypeError, match=words) as caught:
        make()
    assert isinstance(caught.value, ArgumentError) and "\n" not in str(caught.value)


def test_what_pytorch_has_in_the_same_place_needs_no_name():
    assert wl.MaxPool2d(3, 2) == wl.MaxPool2d(kernel_size=3, stride=2) and wl.MaxPool2d(2).stride == 2
