"""`Residual` in a net: the chain that it becomes, names, shapes, refusals, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import warpladder as wl
from warpladder.errors import NetError
from warpladder.nets import Branch, Shortcut, Sum
from warpladder.nets.describe import net_from_json, net_to_json

CONV = wl.Conv2d(out_channels=4, kernel_size=3, padding=1)
HALF = wl.Conv2d(out_channels=6, kernel_size=3, stride=2, padding=1)


def wrong(value: object) -> Any:
    return value


def net(*layers: Any, in_shape: tuple[int, ...] = (4, 7, 7)) -> wl.Net:
    return wl.Net("n", in_shape, layers, wl.MSELoss())


def test_a_residual_is_a_branch_its_layers_and_a_sum() -> None:
    made = net(CONV, wl.Residual(CONV, wl.ReLU(), CONV), wl.ReLU())
    assert made.layers == (CONV, Branch(), CONV, wl.ReLU(), CONV, Sum(), wl.ReLU())
    assert made.skips.stored == {5: 1} and made.skips.returned == {1: 6}
    assert made.names == ("0", "1", "1.layers.0", "1.layers.1", "1.layers.2", "1", "2")
    assert made == net(*made.layers) and net(CONV, wl.Residual([CONV])) == net(CONV, wl.Residual(CONV))


def test_a_projection_follows_from_both_shapes() -> None:
    made = net(wl.Residual(HALF, projection=True))
    project = wl.Conv2d(out_channels=6, kernel_size=1, stride=2)
    assert made.layers == (Branch(), HALF, Shortcut(channels=4, height=7, width=7), project, Sum())
    assert made.skips.stored == {2: 0, 4: 2} and made.skips.returned == {2: 5, 0: 3}
    assert made.names[1] == "0.layers.0" and made.names[3] == "0.projection.0"
    assert made == net(wl.Residual(HALF, projection=project)) == net(wl.Residual(HALF, projection=[project]))
    flat = net(wl.Residual(wl.Linear(out_features=3), projection=True), in_shape=(5,))
    assert flat.layers[3] == wl.Linear(out_features=3) and flat.layers[2] == Shortcut(channels=5)


def test_one_residual_stands_inside_of_another() -> None:
    made = net(wl.Residual(wl.Residual(CONV, projection=[CONV]), CONV), CONV)
    assert made.names == (
        "0", "0.layers.0", "0.layers.0.layers.0", "0.layers.0", "0.layers.0.projection.0", "0.layers.0", "0.layers.1", "0", "1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: net(wl.Residual(HALF)), r"layer 2: Residual cannot add 4x7x7 and f\(x\) of 6x4x4: add projection=True"),
        (lambda: net(wl.Residual(HALF, projection=[CONV])), r"cannot add 4x7x7 and f\(x\) of 6x4x4"),
        (lambda: net(wl.Residual(wl.Upsample2d(scale_factor=2), CONV, projection=True)), "no 1 x 1 convolution leads from 4x7x7 to 4x14x14"),
        (lambda: wl.Residual(), "wants the layers of f"),
        (lambda: wl.Residual(CONV, wrong(3)), "3 is not a layer"),
        (lambda: wl.Residual(CONV, projection=wrong("yes")), "wants True, a layer or a list"),
        (lambda: wl.Residual(CONV, projection=[wrong(None)]), "None is not a layer"),
        (lambda: net(CONV, Sum()), "layer 1: a Sum without a Branch"),
        (lambda: net(wl.Residual(wl.Linear(out_features=3)), CONV), "layer 1: Linear wants a flat input"),
        (lambda: net(wl.Residual(wl.ReLU())), "no layer with parameters"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_a_line(make: Any, words: str) -> None:
    with pytest.raises(NetError, match=words):
        make()


def test_a_net_shows_its_residuals_and_is_stored_as_json() -> None:
    made = net(wl.Residual(HALF, projection=True))
    assert "Residual: store x" in repr(made) and "Residual: add" in repr(made)
    assert str(wl.Residual(wl.ReLU(), projection=True)) == "Residual(ReLU(), projection=True)"
    assert net_from_json(json.loads(json.dumps(net_to_json(made)))) == made


FILE = """
in_shape = [4, 7, 7]
loss = "MSELoss"
[[layers]]
type = "Residual"
layers = [{ type = "Conv2d", out_channels = 6, kernel_size = 3, stride = 2, padding = 1 }, { type = "ReLU" }]
projection = %s
"""


@pytest.mark.parametrize(
    "projection",
    ["true", '{ type = "Conv2d", out_channels = 6, kernel_size = 1, stride = 2 }', '[{ type = "Conv2d", out_channels = 6, kernel_size = 1, stride = 2 }]'],
)  # fmt: skip
def test_a_file_has_residuals(tmp_path: Path, projection: str) -> None:
    file = tmp_path / "n.toml"
    file.write_text(FILE % projection)
    assert wl.load_net(file) == net(wl.Residual(HALF, wl.ReLU(), projection=True))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("projection = true", 'projection = "yes"', "wants projection = true, or a list"),
        ("layers = [", "layer = [", "Residual has no 'layer'"),
        ('"ReLU"', '"Relu"', r"layer 0, layers 1: there is no layer 'Relu' \(did you mean 'ReLU'\?\).*Residual$"),
        ('"ReLU"', '"Branch"', "there is no layer 'Branch'"),
        ('"ReLU" }', '"ReLU", a = 1 }', "layer 0, layers 1: ReLU has no 'a'"),
    ],
)
def test_a_file_names_the_fault(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = FILE % "true"
    assert old in text
    file = tmp_path / "n.toml"
    file.write_text(text.replace(old, new))
    with pytest.raises(NetError, match=words):
        wl.load_net(file)
