"""Labels with gaps, names and numbers against the outputs of a net that was trained on others: mapped by value, or said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import warpladder as wl
from warpladder.data import arrays
from warpladder.data.dataset import Dataset

SOME = np.random.default_rng(0)
CENTRES = 4 * SOME.normal(size=(10, 6))
NUMBERS = np.arange(400) % 10
NAMES = np.array([f"n{number}" for number in range(10)])
CONFIG = wl.TrainConfig(epochs=60, learning_rate=0.05, batch_size=20)
X = (CENTRES[NUMBERS] + SOME.normal(size=(400, 6))).astype(np.float32)


def part(keep: np.ndarray, labels: np.ndarray = NUMBERS) -> Dataset:
    """Samples of some labels, with the same ones to test with."""
    return arrays(X[keep], labels[keep], X[keep], labels[keep], name="some")


def net(classes: int = 10) -> wl.Net:
    layers = (wl.Linear(out_features=24), wl.ReLU(), wl.Linear(out_features=classes))
    return wl.Net("ten", (6,), layers, wl.CrossEntropyLoss())


@pytest.fixture(scope="module")
def trained() -> wl.Run:
    run = wl.train(net(), part(NUMBERS >= 0), CONFIG, rung="numpy")
    assert run.score(X, NUMBERS) > 0.95
    return run


@pytest.mark.parametrize("keep", [NUMBERS % 2 == 0, NUMBERS >= 5], ids=["even", "the upper five"])
def test_labels_below_the_outputs_are_the_numbers_of_outputs(trained: wl.Run, keep: np.ndarray) -> None:
    run = wl.train(net(), part(keep), wl.TrainConfig(epochs=0), rung="numpy", weights=trained)
    assert run.classes_.tolist() == list(range(10))
    assert run.score(X[keep], NUMBERS[keep]) > 0.95


def test_a_net_of_as_many_outputs_as_classes_numbers_them() -> None:
    even = NUMBERS % 2 == 0
    run = wl.train(net(5), part(even), CONFIG, rung="numpy")
    assert run.classes_.tolist() == [0, 2, 4, 6, 8] and run.score(X[even], NUMBERS[even]) > 0.95


Command = Callable[..., tuple[int, str, str]]


def evaluated(run: Command, trained: wl.Run, labels: np.ndarray, keep: np.ndarray | None = None) -> str:
    """Output of `evaluate` on samples with these labels, in a file."""
    keep = NUMBERS >= 0 if keep is None else keep
    trained.save("net.safetensors", overwrite=True)
    np.savez("some.npz", x_train=X[keep], y_train=labels[keep], x_test=X[keep], y_test=labels[keep])
    return "".join(run("evaluate", "net.safetensors", "--data", "some.npz", "--rung", "numpy")[1:])


def test_evaluate_takes_labels_by_value(
    run: Command, trained: wl.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "accuracy 9" in evaluated(run, trained, NUMBERS, NUMBERS % 2 == 0)
    assert "labels up to 10" in evaluated(run, trained, NUMBERS + 1)
    assert "are names" in evaluated(run, trained, NAMES[NUMBERS])


def test_evaluate_warns_of_numbers_where_classes_have_names(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = wl.train(net(), part(NUMBERS >= 0, NAMES[NUMBERS]), CONFIG, rung="numpy")
    found = evaluated(run, named, NUMBERS)
    assert "accuracy 9" in found and "0 as 'n0', 1 as 'n1', 2 as 'n2', ..." in found
