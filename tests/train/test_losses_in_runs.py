"""Losses in whole runs: --loss, checkpoints, resuming, nets in files, PyTorch's modules, predictions and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from losses import LOSSES, NEW, data_for, net_of, torch_loss

import warpladder as wl
from warpladder.cli import group
from warpladder.config.spelling import read_loss
from warpladder.data import Dataset
from warpladder.errors import CheckpointError, ConfigError, DataError, NetError, WarpladderError
from warpladder.nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Linear, Loss, MSELoss, Net
from warpladder.nets.describe import net_from_json, net_to_json
from warpladder.nets.file import load_net

CONFIG = wl.TrainConfig(epochs=2, batch_size=6, learning_rate=0.1)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_nets_carry_their_loss(loss: Loss) -> None:
    net = net_of(loss)
    assert net_from_json(net_to_json(net)) == net


def test_a_plain_loss_is_its_name() -> None:
    assert net_to_json(net_of(HuberLoss()))["loss"] == "HuberLoss"
    with pytest.raises(NetError, match=r"loss: HuberLoss has no 'detla' \(did you mean 'delta'\?\): it has delta"):
        net_from_json(net_to_json(net_of(MSELoss())) | {"loss": {"type": "HuberLoss", "detla": 2}})


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("l1", L1Loss()),
        ("HuberLoss:delta=0.5", HuberLoss(delta=0.5)),
        ("cross-entropy:weight=1+2:label-smoothing=0.1", CrossEntropyLoss((1.0, 2.0), 0.1)),
        ("bce:pos_weight=3", BCEWithLogitsLoss((3.0,))),
        ("BCEWithLogitsLoss", BCEWithLogitsLoss()),
        ("mse", MSELoss()),
    ],
)
def test_losses_as_text(text: str, loss: Loss) -> None:
    assert read_loss(text) == loss


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hubr", "there is no loss 'hubr': did you mean 'huber'?"),
        ("huber:delta", "settings of the loss are written as in 'huber:delta=0.5', got 'delta'"),
        ("huber:delta=1:delta=2", "delta of the loss is given twice"),
        ("huber:delta=much", "HuberLoss: delta wants a finite number"),
        ("l1:delta=1", "L1Loss has no 'delta': it has no settings"),
    ],
)
def test_losses_that_are_none(text: str, message: str) -> None:
    with pytest.raises((ConfigError, NetError)) as error:
        read_loss(text)
    assert message in str(error.value)


def test_a_file_states_its_loss(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    layer = 'in_shape = [3]\n[[layers]]\ntype = "Linear"\nout_features = 2\n'
    path.write_text('loss = {type = "CrossEntropyLoss", label_smoothing = 0.1, weight = [1, 2]}\n' + layer)
    assert load_net(path).loss == CrossEntropyLoss((1.0, 2.0), 0.1)
    path.write_text('loss = {type = "CrossEntropyLoss", smoothing = 0.1}\n' + layer)
    with pytest.raises(NetError, match="CrossEntropyLoss has no 'smoothing'"):
        load_net(path)


@pytest.mark.parametrize("loss", NEW, ids=str)
def test_a_run_goes_on_in_the_same_bits(loss: Loss, tmp_path: Path) -> None:
    net = net_of(loss)
    data = data_for(net, weighted=True)
    whole = wl.train(net, data, CONFIG.but(epochs=4), rung="numpy")
    wl.train(net, data, CONFIG, rung="numpy").save(tmp_path / "run.safetensors")
    resumed = wl.train(net, data, CONFIG.but(epochs=4), resume=tmp_path / "run.safetensors")
    assert all(np.array_equal(whole.params[name], resumed.params[name]) for name in whole.params)
    assert resumed.net.loss == loss
    with pytest.raises(CheckpointError, match="train_weight"):
        wl.train(net, data_for(net), CONFIG.but(epochs=4), resume=tmp_path / "run.safetensors")


@pytest.mark.parametrize("loss", NEW, ids=str)
def test_scores_are_pytorchs_losses(loss: Loss) -> None:
    torch = pytest.importorskip("torch")
    net = net_of(loss)
    data = data_for(net)
    data = data.but(test_x=data.train_x, test_y=data.train_y)
    run = wl.train(net, data, CONFIG, rung="numpy")
    out, y = torch.tensor(run.outputs(data.train_x).astype(np.float64)), torch.tensor(data.train_y)
    wanted = torch_loss(loss)(out, y.long() if y.ndim == 1 else y.double()).item()
    assert run.checkpoint.test is not None
    assert run.checkpoint.test.loss == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("loss", NEW, ids=str)
def test_modules_of_pytorch_come_with_their_loss(loss: Loss) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(12, 4))
    assert wl.from_torch(module, loss=torch_loss(loss)).net.loss == loss
    assert wl.from_torch(module, loss=loss).net.loss == loss


def test_binary_targets_are_predicted() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = np.column_stack([x[:, 0] > 0, x[:, 1] + x[:, 2] > 0]).astype(np.float32)
    net = Net("two", (3,), (Linear(out_features=2),), BCEWithLogitsLoss())
    run = wl.train(
        net, Dataset("two", x, y, x, y), wl.TrainConfig(epochs=20, batch_size=20, learning_rate=1.0), rung="numpy"
    )
    assert run.predict(x).dtype == np.int64 and set(np.unique(run.predict(x))) == {0, 1}
    assert np.allclose(run.predict_proba(x), 1 / (1 + np.exp(-run.outputs(x).astype(float))))
    assert run.score(x, y) == (run.predict(x) == y).mean() > 0.95
    assert run.checkpoint.test is not None and run.checkpoint.test.accuracy == pytest.approx(run.score(x, y))
    with pytest.raises(DataError, match="y wants targets from 0 to 1"):
        run.score(x, 2 * y)


def test_labels_of_two_classes_are_targets_of_one_output() -> None:
    data = wl.data.arrays([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"], [[0.0], [3.0]], ["a", "b"])
    net = Net("one", (1,), (Linear(out_features=1),), BCEWithLogitsLoss())
    run = wl.train(net, data, wl.TrainConfig(epochs=300, batch_size=None, learning_rate=1.0), rung="numpy")
    assert run.predict([[0.0], [3.0]]).tolist() == ["a", "b"] == run.classes_.tolist()
    assert run.predict_proba([[3.0]])[0, 0] > 0.5 and run.score([[0.0], [3.0]], ["a", "b"]) == 1
    assert run.score([[0.0], [3.0]], ["b", "a"]) == 0 and run.fit_to(data).outputs == 1
    with pytest.raises(DataError, match="'c'"):
        run.score([[0.0], [3.0]], ["a", "c"])
    numbers = wl.data.arrays([[0.0], [3.0]], [0, 1], [[0.0]], [0])
    assert wl.train(net, numbers, CONFIG, rung="numpy").predict([[0.0]]).shape == (1, 1)
    with pytest.raises(WarpladderError):
        wl.train(net, wl.data.arrays([[0.0], [1.0], [2.0]], [0, 1, 2], [[0.0]], [0]), CONFIG, rung="numpy")


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, np.nan]])
def test_weights_that_cannot_be(weight: list[float]) -> None:
    with pytest.raises(DataError):
        wl.data.arrays([[0.0], [1.0]], [0, 1], [[0.0]], [0], sample_weight=weight)


def invoke(*arguments: Any) -> str:
    found = CliRunner().invoke(group, [str(each) for each in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.slow
def test_the_command_line(tmp_path: Path) -> None:
    rng, table, kept = np.random.default_rng(0), tmp_path / "t.csv", tmp_path / "c.safetensors"
    a = rng.normal(size=200)
    table.write_text(
        "a,b,y\n" + "".join(f"{value:.3f},{'yes' if value > 0 else 'no'},{3 * value:.3f}\n" for value in a)
    )
    own = ("--data", table, "--hidden", 4, "--rung", "numpy", "--epochs", 3, "--checkpoint", kept, "--overwrite")
    assert "R2" in invoke("train", *own, "--target", "y", "--drop", "b", "--loss", "huber:delta=0.5")
    assert "accuracy" in invoke("train", *own, "--label", "b", "--drop", "y", "--loss", "bce", "--lr", 1)
    assert "accuracy" in invoke("evaluate", kept, "--data", table)
    assert set(invoke("predict", kept, table).split()) <= {"yes", "no"}
    heading, *lines = invoke("predict", kept, table, "--proba").split()
    assert heading == "no,yes" and all(0 <= float(value) <= 1 for line in lines for value in line.split(","))
