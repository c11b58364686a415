"""Targets of a table: learnt with mean 0 and deviation 1, predicted in their own units."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score

import warpladder as wl
from warpladder.cli import main
from warpladder.data import table
from warpladder.errors import DataError


@pytest.fixture
def houses(tmp_path: Path) -> Path:
    """Area, colour and age of 200 houses, price and tax."""
    rng = np.random.default_rng(0)
    area, age = rng.normal(100, 30, 200), rng.exponential(5, 200)
    colour = rng.choice(["red", "blue"], 200)
    price = 900 + 20 * area + 500 * (colour == "red") + rng.normal(0, 20, 200)
    path = tmp_path / "houses.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["area", "colour", "age", "price", "tax"])
        for row in zip(area, colour, age, price, price / 5 + age, strict=True):
            out.writerow([each if isinstance(each, str) else f"{each:.4f}" for each in row])
    return path


def test_predictions_are_in_the_units_of_the_targets(houses: Path, tmp_path: Path) -> None:
    data = table(houses, target=["price", "tax"])
    assert data.has_targets and data.outputs == 2 and data.in_shape == (4,)
    run = wl.train("mlp", data, wl.TrainConfig(epochs=60, batch_size=16, learning_rate=0.05), rung="numpy")
    run.save(tmp_path / "net.safetensors")
    again = wl.load(tmp_path / "net.safetensors")
    assert data.table is not None and data.test_y is not None
    wanted = data.table.in_units(data.test_y)
    found = again.predict(data.test_x)
    assert again.score(data.test_x, wanted) == pytest.approx(r2_score(wanted, found)) and r2_score(wanted, found) > 0.8
    own = again.score(data.test_x, data.test_y)
    assert own == pytest.approx(again.score(data.test_x, wanted), rel=1e-6)
    assert again.score(data.test_x[:20], data.test_y[:20]) > 0.8
    frame = pytest.importorskip("pandas").read_csv(houses)
    expected = again.score(frame, frame[["price", "tax"]])
    assert again.score(frame) == pytest.approx(expected) == again.score(houses)
    with pytest.raises(DataError, match="scoring needs targets"):
        again.score(frame.drop(columns="tax"))
    test = again.checkpoint.test
    assert test is not None and test.r2 == pytest.approx(r2_score(wanted, found), rel=1e-4)
    assert test.mae == pytest.approx(mean_absolute_error(wanted, found), rel=1e-4)


def test_the_command_line(houses: Path, tmp_path: Path, capsys: Any) -> None:
    net = tmp_path / "net.safetensors"
    assert main(["train", "mlp", "--data", str(houses), "--target", "price", "--rung", "numpy", "--epochs", "3",
                 "--checkpoint", str(net)]) == 0  # fmt: skip
    assert "R2" in capsys.readouterr().out
    assert main(["evaluate", str(net), "--data", str(houses)]) == 0
    assert ", MAE " in capsys.readouterr().out
    assert main(["predict", str(net), str(houses)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 200 and np.array(lines, float).mean() > 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "colour"}, "line 2, column 'colour': the target '(red|blue)' is no number"),
        ({"target": "price", "label": "colour"}, "leave out label or target"),
        ({"target": "pric"}, "did you mean 'price'"),
        ({"target": ["tax", "tax"]}, "'tax' is named twice"),
        ({"label": "price"}, "--target price"),
    ],
)
def test_what_is_no_target(houses: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        table(houses, **options)
    assert "\n" not in str(caught.value)


def test_each_of_several_targets_is_scored(houses: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["--data", str(houses), "--target", "price", "--target", "tax", "--rung", "numpy", "--epochs", "3"]
    assert main(["train", "mlp", *words, "--repeat", "2", "--checkpoint", str(tmp_path / "net.safetensors")]) == 0
    assert "test R2" in capsys.readouterr().out
    net = wl.load(tmp_path / "net-seed-1.safetensors")
    assert main(["evaluate", str(tmp_path / "net-seed-1.safetensors"), "--data", str(houses)]) == 0
    shown, data = capsys.readouterr().out.splitlines(), table(houses, target=["price", "tax"], seed=1)
    assert data.table is not None and data.test_y is not None
    wanted, found = data.table.in_units(data.test_y), net.predict(data.test_x)
    for i, name in enumerate(("price", "tax")):
        r2, mae = r2_score(wanted[:, i], found[:, i]), mean_absolute_error(wanted[:, i], found[:, i])
        assert f"{name}: R2 {r2:.4g}, MAE {mae:.4g}" in shown


def test_a_gap_in_a_target_is_refused_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "gap.csv").write_text("a,b\n1,2\n5,\n7,3\n")
    with pytest.raises(DataError, match="line 3, column 'b': the target is missing"):
        table(tmp_path / "gap.csv", target="b")
