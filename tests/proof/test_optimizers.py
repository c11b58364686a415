"""Every rung and peer with every optimizer and schedule, and with every layer and loss: proven. .ci/run has each pair
of rung, net, optimizer and schedule in turns; at night all of them, and each layer and loss on each rung.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import product
from typing import Any

import pytest
from rungs_here import CPU_PEERS, HERE, TEMPLATED
from strategies import NARROW, ZOO

from warpladder.config import TrainConfig
from warpladder.nets import (
    ACTIVATIONS,
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    HuberLoss,
    L1Loss,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MSELoss,
    Net,
    ReLU,
    Residual,
    Sigmoid,
    SiLU,
    Tanh,
)
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from warpladder.optimizers.schedules import Constant, Cosine, OneCycle, Schedule, StepDecay
from warpladder.proof import verify
from warpladder.rungs.base import Rung

RUNGS = (*HERE, *TEMPLATED, *CPU_PEERS)
NETS = (*ZOO[:-1], NARROW)
OPTIMIZERS: tuple[Optimizer, ...] = (
    SGD(0.05, momentum=0.9, weight_decay=1e-3),
    SGD(0.05, momentum=0.9, nesterov=True),
    Adam(1e-3),
    Adam(1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=1e-2),
    AdamW(1e-3, weight_decay=0.1),
    RMSprop(1e-3, alpha=0.9, momentum=0.5, weight_decay=1e-2),
)
SCHEDULES: tuple[Schedule, ...] = (Constant(), Cosine(warmup=1), StepDecay(every=1, gamma=0.5), OneCycle())
BATCHES = (8, 1, None)


def cases() -> list:
    """Every combination; those beyond the first of each pair are marked for the night, as are full batches on the
    emulator, which take ten times as long.
    """
    out, met = [], set()
    for i, rung in enumerate(RUNGS):
        batches = 2 if rung.name.endswith("emulated") else len(BATCHES)
        for j, net in enumerate(NETS):
            # there is one optimizer more than nets: the first net takes two
            turns = (j, len(NETS)) if j == 0 else (j,)
            by_day = {(i + t) % len(OPTIMIZERS): (t % len(SCHEDULES), (i + t + 1) % batches) for t in turns}
            for o, s, b in product(range(len(OPTIMIZERS)), range(len(SCHEDULES)), range(len(BATCHES))):
                day = by_day.get(o) == (s, b) and (rung not in TEMPLATED or net in (NETS[0], NETS[2]))
                if day:
                    met |= {("rung", rung.name, o), ("schedule", rung.name, s), ("both", o, s)}
                marks = [] if day else [pytest.mark.nightly]
                name = f"{rung.name}-{net.name}-{OPTIMIZERS[o].name}{o}-{type(SCHEDULES[s]).__name__.lower()}-{BATCHES[b] or 'full'}"
                out.append(pytest.param(rung, net, OPTIMIZERS[o], SCHEDULES[s], BATCHES[b], id=name, marks=marks))
    assert {("both", o, s) for o, s in product(range(len(OPTIMIZERS)), range(len(SCHEDULES)))} <= met
    assert {("rung", rung.name, o) for rung in (*HERE, *CPU_PEERS) for o in range(len(OPTIMIZERS))} <= met
    return out


@pytest.mark.pairs
@pytest.mark.parametrize(("rung", "net", "optimizer", "schedule", "batch"), cases())
def test_proven(rung: Rung, net: Net, optimizer: Optimizer, schedule: Schedule, batch: int | None) -> None:
    config = TrainConfig(batch_size=batch, epochs=5, optimizer=optimizer, schedule=schedule)
    if reason := rung.unsupported(net, config):
        pytest.skip(reason)
    verdict = verify(rung.build, net, config, precision=rung.precision, transforms=rung.transforms)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


def with_layers(name: str, *layers: Layer | Residual, loss: Loss | None = None) -> Net:
    """Small net on images with these layers after its convolution."""
    first = Conv2d(out_channels=4, kernel_size=3, bias=False)
    last = (Flatten(), Linear(out_features=3))
    return Net(name, (2, 6, 6), (first, *layers, *last), CrossEntropyLoss() if loss is None else loss)


def learning(loss: Loss) -> Net:
    """Small net whose outputs are compared with its inputs by a loss."""
    return Net(type(loss).__name__, (6,), (Linear(out_features=5), ReLU(), Linear(out_features=6)), loss)


KINDS = (
    *(with_layers(kind.__name__, kind()) for kind in ACTIVATIONS),
    with_layers("averaged", AvgPool2d(2)), with_layers("globally averaged", ReLU(), AdaptiveAvgPool2d(1)),
    with_layers("dropped", ReLU(), Dropout(0.3)), with_layers("normal", BatchNorm2d(), ReLU(), Flatten(), BatchNorm1d()),
    with_layers("sums", Residual(Conv2d(out_channels=4, kernel_size=3, padding=1), ReLU()), ReLU()),
    with_layers("smoothed", ReLU(), loss=CrossEntropyLoss(weight=(1.0, 2.0, 0.5), label_smoothing=0.1)),
    *(learning(loss) for loss in (MSELoss(), L1Loss(), HuberLoss(delta=0.5), BCEWithLogitsLoss(pos_weight=(2.0,)))),
)  # fmt: skip
CONFIGS = (TrainConfig(batch_size=8, optimizer=OPTIMIZERS[-1], epochs=5), TrainConfig(batch_size=None, clip_norm=0.5))


def joined(name: str, loss: Loss, *layers: Layer) -> Net:
    """Small net with these layers between its first and last, whose outputs are compared with its inputs."""
    return Net(name, (6,), (Linear(out_features=8), *layers, Linear(out_features=6)), loss)


#: nets that have all kinds together: few enough for each rung by day
JOINED = (
    with_layers(
        "images", BatchNorm2d(), LeakyReLU(), AvgPool2d(2), Residual(Conv2d(out_channels=4, kernel_size=3, padding=1), SiLU()),
        AdaptiveAvgPool2d(), Dropout(0.2), loss=CrossEntropyLoss(weight=(1.0, 2.0, 0.5), label_smoothing=0.1),
    ),
    joined("absolute", L1Loss(), Tanh()),
    joined("huber", HuberLoss(delta=0.5), GELU()),
    joined("logits", BCEWithLogitsLoss(pos_weight=(2.0,)), BatchNorm1d(), Sigmoid()),
)  # fmt: skip


def kinds() -> list:
    """Each layer and loss on each rung; by day joined in a few nets, which meet RMSprop or clip_norm."""
    day: list[Any] = [(rung, net, CONFIGS[j > 0], []) for rung in RUNGS for j, net in enumerate(JOINED)]
    night = [
        (rung, net, CONFIGS[(i + j) % 2], [pytest.mark.nightly])
        for i, rung in enumerate(RUNGS)
        for j, net in enumerate(KINDS)
    ]
    return [
        pytest.param(rung, net, config, id=f"{rung.name}-{net.name}", marks=marks)
        for rung, net, config, marks in (*day, *night)
        if not rung.unsupported(net, config)
    ]


#: Peers that have no library here.
ABSENT = {"jax"} if find_spec("jax") is None else set()


def test_joined_nets_have_every_kind_and_train_on_every_rung() -> None:
    def parts(nets: tuple[Net, ...]) -> set[type]:
        every: list[Any] = [layer for net in nets for layer in net.layers]
        every += [inner for layer in every if isinstance(layer, Residual) for inner in layer.layers]
        return {type(each) for each in (*every, *(net.loss for net in nets))}

    assert parts(KINDS) - parts(JOINED) == {ReLU, MSELoss}  # in most other nets
    refused = {
        (rung.name, net.name) for rung in RUNGS for net in JOINED for config in CONFIGS if rung.unsupported(net, config)
    }
    assert {rung for rung, _ in refused} - ABSENT == {"sklearn", "torch:images=last"}


@pytest.mark.pairs
@pytest.mark.parametrize(("rung", "net", "config"), kinds())
def test_a_layer_or_loss_is_proven(rung: Rung, net: Net, config: TrainConfig) -> None:
    verdict = verify(rung.build, net, config, precision=rung.precision, transforms=rung.transforms)
    assert verdict.passed, verdict.reason
