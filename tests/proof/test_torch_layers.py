"""Whole training steps of the reference with every layer, loss, optimizer and schedule against torch.autograd and
torch.optim, in float64, to 1e-12: parameters and running statistics after each step, and predictions at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import warpladder as wl
from warpladder.config import TrainConfig
from warpladder.data.order import Order, layer_key
from warpladder.nets import Net, params
from warpladder.ops.dropout.reference import mask
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional

#: Odd batches of 7, and 5 at last: signs of the L1 loss never cancel to a rounding error, which RMSprop would divide by
#: itself.
SAMPLES, BATCH, EPOCHS = 19, 7, 3


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Nets this small gain nothing from more, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Masked(nn.Module):  # type: ignore[name-defined]
    """Dropout by the masks of an order: `at` is set to the order and the positions of a batch, None in prediction."""

    at: tuple[Order, np.ndarray] | None = None

    def __init__(self, p: float, number: int) -> None:
        super().__init__()
        self.layer, self.number = wl.Dropout(p), number

    def forward(self, x: Any) -> Any:
        if Masked.at is None:
            return x
        order, places = Masked.at
        kept = mask(self.layer, layer_key(order.mask_key, self.number), places, tuple(x.shape[1:])) != 0
        return x * torch.from_numpy(kept) / (1 - self.layer.p)


class Plus(nn.Module):  # type: ignore[name-defined]
    """x + f(x), or projection(x) + f(x)."""

    def __init__(self, *layers: Any, projection: Any = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.projection = nn.Identity() if projection is None else nn.Sequential(projection)

    def forward(self, x: Any) -> Any:
        return self.projection(x) + self.layers(x)


RESNET = (
    (3, 8, 8),
    (
        wl.Conv2d(out_channels=4, kernel_size=3, padding="same", bias=False),  # type: ignore[arg-type]
        wl.BatchNorm2d(), wl.ReLU(),
        wl.Dropout(0.3),
        wl.Residual(
            wl.Conv2d(out_channels=6, kernel_size=3, stride=2, padding=1, bias=False), wl.BatchNorm2d(), wl.GELU(),
            wl.Conv2d(out_channels=6, kernel_size=3, padding=1, bias=False), wl.BatchNorm2d(momentum=0.3, eps=1e-3),
            projection=wl.Conv2d(out_channels=6, kernel_size=1, stride=2),
        ),
        wl.LeakyReLU(0.1), wl.AvgPool2d(2), wl.Residual(wl.Conv2d(out_channels=6, kernel_size=3, padding=1), wl.SiLU()),
        wl.AdaptiveAvgPool2d(1), wl.Flatten(),
    ),
    lambda: [
        nn.Conv2d(3, 4, 3, padding="same", bias=False), nn.BatchNorm2d(4), nn.ReLU(), Masked(0.3, 3),
        Plus(
            nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), nn.GELU(),
            nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6, momentum=0.3, eps=1e-3),
            projection=nn.Conv2d(4, 6, 1, stride=2),
        ),
        nn.LeakyReLU(0.1), nn.AvgPool2d(2), Plus(nn.Conv2d(6, 6, 3, padding=1), nn.SiLU()),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ],
)  # fmt: skip
PERCEPTRON = (
    (7,),
    (
        wl.Linear(out_features=9, bias=False), wl.BatchNorm1d(), wl.Tanh(), wl.Dropout(0.5), wl.Linear(out_features=8),
        wl.Sigmoid(), wl.Residual(wl.Linear(out_features=8), wl.GELU(approximate="tanh")),
    ),
    lambda: [
        nn.Linear(7, 9, bias=False), nn.BatchNorm1d(9), nn.Tanh(), Masked(0.5, 3), nn.Linear(9, 8), nn.Sigmoid(),
        Plus(nn.Linear(8, 8), nn.GELU(approximate="tanh")),
    ],
)  # fmt: skip

WEIGHTS = (1.0, 3.0, 0.5)
#: Each loss, and PyTorch's of one sample at a time, with the weight of a sample in the batch's mean.
LOSSES: dict[str, tuple[Any, Callable[[Any, Any], tuple[Any, Any]]]] = {
    "cross entropy": (
        wl.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=0.1),
        lambda out, y: (
            F.cross_entropy(out, y, torch.tensor(WEIGHTS, dtype=out.dtype), label_smoothing=0.1, reduction="none"),
            torch.tensor(WEIGHTS, dtype=out.dtype)[y],
        ),
    ),
    "mse": (wl.MSELoss(), lambda out, y: (F.mse_loss(out, y, reduction="none").mean(1), None)),
    "l1": (wl.L1Loss(), lambda out, y: (F.l1_loss(out, y, reduction="none").mean(1), None)),
    "huber": (
        wl.HuberLoss(delta=0.7),
        lambda out, y: (F.huber_loss(out, y, reduction="none", delta=0.7).mean(1), None),
    ),
    "bce": (
        wl.BCEWithLogitsLoss(pos_weight=(2.0, 1.0, 0.25)),
        lambda out, y: (
            F.binary_cross_entropy_with_logits(
                out, y, pos_weight=torch.tensor([2.0, 1.0, 0.25], dtype=out.dtype), reduction="none"
            ).mean(1),
            None,
        ),
    ),
}
OPTIMIZERS = [
    wl.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    wl.Adam(1e-2, weight_decay=1e-3),
    wl.AdamW(1e-2, weight_decay=0.1),
    wl.RMSprop(1e-2, alpha=0.9, momentum=0.5),
]


def optimizer_of(module: Any, ours: Any) -> Any:
    settings = {name: value for name, value in vars(ours).items() if name != "learning_rate"}
    kind = getattr(torch.optim, type(ours).__name__)
    return kind(module.parameters(), lr=ours.learning_rate, foreach=False, **settings)


@pytest.mark.by_day("mse-RMSprop-alike", "cross entropy-SGD-weighted")
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", [RESNET, PERCEPTRON], ids=["resnet", "perceptron"])
def test_steps_are_torchs_to_twelve_digits(kind: Any, name: str, optimizer: Any, weighted: bool) -> None:
    shape, layers, modules = kind
    loss, of_samples = LOSSES[name]
    rng = np.random.default_rng(4)
    x = rng.normal(size=(SAMPLES, *shape)).astype(np.float32)
    y = rng.integers(0, 3, SAMPLES) if name == "cross entropy" else rng.normal(size=(SAMPLES, 3)).astype(np.float32)
    y = (y > 0).astype(np.float32) if name == "bce" else y
    each = rng.uniform(0.2, 2, SAMPLES).astype(np.float32) if weighted else None
    data = wl.data.arrays(x, y, x, y, sample_weight=each, targets=name != "cross entropy")
    net = Net("all", shape, (*layers, wl.Linear(out_features=3)), loss)
    config = TrainConfig(
        batch_size=BATCH, epochs=EPOCHS, optimizer=optimizer, schedule=wl.OneCycle(), clip_norm=0.5, seed=2
    )
    buffers = params.initial_buffers(net).astype(np.float64)
    ours = ReferenceTrainer(net, config, State(params.initial(net, 5), {
        slot: np.zeros(net.param_count) for slot in optimizer.slots}, 0, buffers))  # fmt: skip
    ours.load(data)
    module = nn.Sequential(*modules(), nn.Linear(6 if len(shape) == 3 else 8, 3)).double()
    load(module, net, ours)
    theirs = optimizer_of(module, optimizer)
    for epoch in range(EPOCHS):
        order = Order(config.seed, epoch, SAMPLES)
        for step in range(config.steps(SAMPLES)):
            places = np.arange(step * BATCH, min((step + 1) * BATCH, SAMPLES))
            rows = order.indices(int(places[0]), int(places[-1]) + 1)
            number = epoch * config.steps(SAMPLES) + step
            for group in theirs.param_groups:
                group["lr"] = float(config.rates(number, number + 1, SAMPLES)[0])
            Masked.at = order, places
            goal = torch.from_numpy(y[rows]).long() if name == "cross entropy" else torch.from_numpy(y[rows]).double()
            losses, shares = of_samples(module(torch.from_numpy(x[rows]).double()), goal)
            weights = (
                torch.ones(len(rows), dtype=torch.float64) if each is None else torch.from_numpy(each[rows]).double()
            )
            mean = (weights * losses).sum() / (weights if shares is None else weights * shares).sum()
            theirs.zero_grad()
            mean.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 0.5)
            theirs.step()
            Masked.at = None
            log = ours.run(order, step, step + 1)
            assert abs(log.loss[0] - mean.item()) <= 1e-12
            compare(module, net, ours)
    module.eval()
    with torch.no_grad():
        wanted = module(torch.from_numpy(x).double()).numpy()
    assert np.abs(ours.predict(x, 1.0) - wanted).max() <= 1e-12 * max(1, np.abs(wanted).max())


def load(module: Any, net: Net, ours: ReferenceTrainer) -> None:
    """Give PyTorch's module the reference's parameters, whose names and order are the same."""
    named = params.views(net, ours.params)
    assert [name for name, _ in module.named_parameters()] == list(named)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(named[name].copy()))


def compare(module: Any, net: Net, ours: ReferenceTrainer) -> None:
    found = params.views(net, ours.params) | params.buffer_views(net, ours.buffers)
    wanted = {name: array.numpy() for name, array in module.state_dict().items() if "num_batches" not in name}
    assert sorted(found) == sorted(wanted)
    for name, array in wanted.items():
        assert np.abs(found[name] - array).max() <= 1e-12 * max(1, np.abs(array).max()), name
