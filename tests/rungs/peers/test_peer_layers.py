"""Layers that know more than their input, on the peers: normalisations, masks and residual connections."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from peer_stand_ins import STAND_INS, graph, stand_in

import warpladder as wl
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.nets.params import initial
from warpladder.proof.reference import ReferenceTrainer
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State

LOSS, N = wl.CrossEntropyLoss(), 24  # batches of 5 and a last one of 4: of two samples BatchNorm leaves but signs
FIRST = wl.Conv2d(out_channels=4, kernel_size=3)
NETS = (
    Net(
        "normal", (2, 6, 6),
        (
            FIRST, wl.BatchNorm2d(eps=1e-3), wl.ReLU(), wl.MaxPool2d(2), wl.BatchNorm2d(affine=False, momentum=0.3), wl.Flatten(), wl.BatchNorm1d(),
            wl.Linear(out_features=3),
        ),
        LOSS,
    ),
    Net(
        "dropped", (2, 6, 6),
        (FIRST, wl.Dropout(0.3), wl.ReLU(), wl.Flatten(), wl.Dropout(0.5), wl.Linear(out_features=8), wl.Dropout(0.2), wl.Linear(out_features=3)), LOSS,
    ),
    Net(
        "flat sums", (2, 6, 6),
        (
            FIRST, wl.Flatten(), wl.Residual(wl.Linear(out_features=64), wl.Tanh()), wl.BatchNorm1d(),
            wl.Residual(wl.Dropout(0.1), projection=wl.Linear(out_features=64)), wl.Linear(out_features=3),
        ),
        LOSS,
    ),
    Net(
        "sums of flat", (2, 6, 6),
        (FIRST, wl.Residual(wl.Flatten(), projection=[wl.Conv2d(out_channels=4, kernel_size=1), wl.Flatten()]), wl.BatchNorm1d(), wl.Linear(out_features=3)), LOSS,
    ),
    Net(
        "small ResNet", (3, 8, 8),
        (
            wl.Conv2d(out_channels=4, kernel_size=3, padding=1), wl.BatchNorm2d(), wl.ReLU(),
            wl.Residual(
                wl.Conv2d(out_channels=8, kernel_size=3, padding=1, stride=2, bias=False), wl.BatchNorm2d(), wl.ReLU(),
                wl.Conv2d(out_channels=8, kernel_size=3, padding=1), wl.BatchNorm2d(), projection=True,
            ),
            wl.ReLU(), wl.AdaptiveAvgPool2d(1), wl.Flatten(), wl.Linear(out_features=3),
        ),
        LOSS,
    ),
)  # fmt: skip
PEERS = (
    find("torch"), find("torch:precision=fp64"), find("torch:images=last"), find("jax"), *STAND_INS,
    stand_in("compiled", partial(graph, compiled=True, images_last=True)),
)  # fmt: skip
CONFIGS = {
    "batches": wl.TrainConfig(batch_size=5, learning_rate=0.004, momentum=0.9, loss_every=2),
    "full": wl.TrainConfig(batch_size=None, learning_rate=0.02),
}


def data(net: Net) -> Dataset:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, *net.in_shape)).astype(np.float32), rng.integers(0, 3, N).astype(np.int32)
    return Dataset("drawn", x, y, x[:2], y[:2])


def turn(peer: Rung, net: Net, config: str) -> list[pytest.MarkDecorator]:
    """Marks: JAX, which compiles for seconds, trains by day in batches what has every layer, and all in full batches."""
    is_dear = peer.name == "jax" and config == "batches" and net.name not in ("small ResNet", "dropped")
    return [pytest.mark.slow] if is_dear else []


EVERY = [
    pytest.param(peer, net, CONFIGS[config], id=f"{peer.name}-{net.name}-{config}", marks=turn(peer, net, config))
    for peer in PEERS
    for net in NETS
    for config in CONFIGS
]


@pytest.mark.parametrize(("peer", "net", "config"), EVERY)
def test_three_epochs_are_the_references(
    peer: Rung, net: Net, config: wl.TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses, parameters, running statistics and predictions after three epochs, the last one in two ranges."""
    if reason := peer.unsupported(net, config):
        pytest.skip(reason)
    if "torch" in peer.name or "jax" not in peer.name:
        torch = pytest.importorskip("torch")
        monkeypatch.setattr(torch, "compile", lambda function, **how: function)
    start, steps = State(initial(net, 0)), config.steps(N)
    ranges = [(0, 0, steps), (1, 0, steps), (2, 0, steps // 2), (2, steps // 2, steps)]
    with ReferenceTrainer(net, config, start) as truth, peer.build(net, config, start) as trainer:
        for each in (truth, trainer):
            each.load(data(net))
        for epoch, first, last in ranges:
            found, wanted = (each.run(Order(7, epoch, N), first, last) for each in (trainer, truth))
            assert found.has_loss == wanted.has_loss and found.correct.tolist() == wanted.correct.tolist()
            if found.has_loss:
                assert np.allclose(found.loss, wanted.loss, rtol=1e-4, atol=0)
        state, true = trainer.state(), truth.state()
        assert np.linalg.norm(state.params - true.params) <= 1e-4 * np.linalg.norm(true.params - start.params)
        if net.normalizes:
            assert state.buffers is not None and true.buffers is not None
            assert np.allclose(state.buffers, true.buffers, rtol=1e-4, atol=1e-5)
        x = data(net).train_x
        assert np.allclose(trainer.predict(x, 1.0), truth.predict(x, 1.0), rtol=1e-3, atol=1e-3)
        held = trainer.state()
        trainer.run(Order(7, 3, N), 0, steps)
        trainer.set_state(held)
        assert trainer.state().bits() == held.bits()
