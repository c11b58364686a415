"""Rules of initial weights: as stated, chosen by the samples or by name, stored with the run, the same in a climb."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

import warpladder as wl
from warpladder.checkpoint import load
from warpladder.checkpoint.document import from_document, to_document
from warpladder.cli import main
from warpladder.config import FEATURES, INITIAL, RECIPES, recipe
from warpladder.data import Dataset
from warpladder.errors import ConfigError
from warpladder.nets.params import initial, views
from warpladder.timing.task import ClimbTask
from warpladder.train.request import RunRequest
from warpladder.train.resolve import resolve, resolve_task

SHORT = wl.TrainConfig(epochs=1, batch_size=16)


def features(seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(60, 5)).astype(np.float32), rng.integers(0, 3, 60)
    return wl.data.arrays(x[:48], y[:48], x[48:], y[48:])


def same(a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("rule", "bounds"),
    [("pytorch", (1 / 45, 1 / 8)), ("glorot", (6 / (45 + 72), 6 / (8 + 7)))],
    ids=["pytorch", "glorot"],
)
def test_uniform_rules_fill_their_range(rule, bounds):
    """bounds : squares for a convolution of 5 to 8 channels by 3 x 3, and for a Linear of 8 to 7."""
    layers = (
        wl.Conv2d(out_channels=8, kernel_size=3), wl.BatchNorm2d(), wl.ReLU(), wl.AdaptiveAvgPool2d(1), wl.Flatten(),
        wl.Linear(out_features=7),
    )  # fmt: skip
    net = wl.Net("n", (5, 6, 6), layers, wl.CrossEntropyLoss())
    named = views(net, initial(net, 3, rule))
    for name, bound in zip(("0", "5"), map(math.sqrt, bounds), strict=True):
        assert 0.9 * bound < np.abs(named[f"{name}.weight"]).max() <= np.float32(bound)
        biases = named[f"{name}.bias"]
        assert (0 < np.abs(biases).max() <= bound) if rule == "pytorch" else not biases.any()
    assert (named["1.weight"] == 1).all() and not named["1.bias"].any()


def test_samples_choose_the_rule_unless_it_is_named():
    assert resolve_task(RunRequest("mlp", "digits")).config.initial == "he"
    assert resolve_task(RunRequest("mlp", features())).config == FEATURES.but(initial="pytorch")
    assert recipe("cnn", "photos", (3, 24, 24)) == FEATURES and recipe("cnn", "mnist", (1, 28, 28)) == RECIPES["cnn"]
    for rule in INITIAL:
        for data in ("digits", features()):
            task = resolve_task(RunRequest("mlp", data, SHORT.but(initial=rule)))
            assert task.config.initial == rule
            started = ClimbTask(task.net, task.data, task.config, 1, 1, 1.0).start().params
            run = resolve(RunRequest("mlp", data, SHORT, {"initial": rule}, rung="numpy")).start
            assert same([started], [np.concatenate([a.ravel() for a in run.params.values()])])
            assert np.array_equal(started, initial(task.net, 0, rule))
    with pytest.raises(ConfigError, match="initial wants he, pytorch or glorot, got 'zeros'"):
        wl.TrainConfig(initial="zeros")


def test_a_run_stores_its_rule_and_goes_on_with_it(tmp_path):
    path = tmp_path / "run.safetensors"
    data = features()
    wl.train("mlp", data, SHORT.but(initial="glorot"), rung="numpy", checkpoint=path)
    assert load(path).config.initial == "glorot"
    longer = wl.train("mlp", data, SHORT.but(epochs=2), rung="numpy", resume=path)
    straight = wl.train("mlp", data, SHORT.but(epochs=2, initial="glorot"), rung="numpy")
    assert longer.config == straight.config and same(longer.params.values(), straight.params.values())
    with pytest.raises(wl.errors.CheckpointError, match="initial is glorot there and he here"):
        wl.train("mlp", data, SHORT.but(epochs=2, initial="he"), rung="numpy", resume=path)


def test_a_run_of_an_earlier_version_drew_weights_by_he():
    run = wl.train("mlp", features(), SHORT.but(initial="he"), rung="numpy")
    document = to_document(run.checkpoint)
    del document["config"]["initial"]
    assert from_document(document, dict(run.params)).config == run.config


def test_given_weights_are_drawn_by_no_rule(tmp_path):
    data = features()
    first = wl.train("mlp", data, SHORT, rung="numpy")
    run = wl.train("mlp", data, first.config, rung="numpy", weights=first)
    assert first.config.initial == "pytorch" and run.config.initial is None
    run.save(tmp_path / "run.safetensors")
    assert wl.load(tmp_path / "run.safetensors").config == run.config
    with pytest.raises(ConfigError, match=r"draws its weights \(initial\) or begins with given ones \(from\)"):
        resolve(RunRequest("mlp", data, SHORT, {"initial": "he"}, weights=dict(first.params)))


def test_the_command_line_shows_the_rule(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ["train", "mlp10", "--data", "digits", "--rung", "numpy", "--epochs", "1", "--no-checkpoint"]
    for more, rule in (([], "he"), (["--initial", "glorot"], "glorot")):
        assert main([*words, *more]) == 0
        assert f"; initial weights: {rule}" in capsys.readouterr().out
