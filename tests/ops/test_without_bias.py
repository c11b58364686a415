"""Linear and Conv2d without a bias: parameters, PyTorch's gradients, and the rungs' zeros that no update touches."""

from __future__ import annotations

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.errors import NetError
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.nets.describe import net_from_json, net_to_json
from warpladder.nets.params import initial, param_slices, views
from warpladder.proof import verify
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State

IMAGES = Net(
    "images", (1, 5, 5),
    (
        Conv2d(out_channels=16, kernel_size=3, padding=1, bias=False), ReLU(), Conv2d(out_channels=3, kernel_size=2),
        ReLU(), Flatten(), Linear(out_features=4, bias=False),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
FLAT = Net("flat", (9,), (Linear(out_features=7, bias=False), ReLU(), Linear(out_features=3)), CrossEntropyLoss())
CONFIG = TrainConfig(batch_size=4, momentum=0.9, weight_decay=0.01)


def test_parameters_are_the_weights_alone() -> None:
    names = ["0.weight", "2.weight", "2.bias", "5.weight"]
    assert [place.name for place in param_slices(IMAGES)] == names
    assert IMAGES.param_count == 16 * 9 + 3 * 16 * 4 + 3 + 4 * 48
    assert net_from_json(net_to_json(IMAGES)) == IMAGES
    assert str(Linear(out_features=7, bias=False)) == "Linear(out_features=7, bias=False)"
    with pytest.raises(NetError, match=r"bias=0\): wants True or False"):
        Linear(out_features=7, bias=0)  # type: ignore[arg-type]


def test_gradients_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(1)
    x, y = random.normal(size=(6, 1, 5, 5)), random.integers(0, 4, 6)
    reference = ReferenceTrainer(IMAGES, CONFIG, State(initial(IMAGES, 3).astype(np.float64)))
    loss, _, gradient = reference.gradients(x, y)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.ReLU(), nn.Conv2d(16, 3, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(48, 4, bias=False),
    ).double()  # fmt: skip
    named = views(IMAGES, reference.params)
    model.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in named.items()})
    theirs = nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
    theirs.backward()
    assert abs(loss - theirs.item()) <= 1e-12
    for name, parameter in model.named_parameters():
        assert np.abs(views(IMAGES, gradient)[name] - parameter.grad.numpy()).max() <= 1e-12, name


@pytest.mark.parametrize(
    ("name", "net"),
    [
        ("numpy", IMAGES),
        pytest.param("native", IMAGES, marks=pytest.mark.slow),
        ("loops", FLAT),
        pytest.param("torch:threads=1", IMAGES, marks=pytest.mark.slow),
        pytest.param("naive:device=emulated", IMAGES, marks=pytest.mark.slow),
        pytest.param("graph:device=emulated", FLAT, marks=pytest.mark.slow),
        pytest.param("tensor:device=emulated", IMAGES, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.usefixtures("cases_once")
def test_rungs_pass(name: str, net: Net) -> None:
    rung = find(name)
    if reason := rung.unsupported(net, CONFIG):
        pytest.skip(reason)
    verdict = verify(rung.build, net, CONFIG, precision=rung.precision)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("name", ["persistent:device=emulated", "sklearn"])
def test_what_needs_a_bias_refuses(name: str) -> None:
    assert "bias" in str(find(name).unsupported(FLAT, TrainConfig(batch_size=4)))
