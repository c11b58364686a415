"""The peers train as we do: their updates against the float64 reference, and what they say they cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings

from strategies import ZOO, Case, case, cases
from test_steps import compare_epoch
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.ladder import PEERS, find
from warpladder.nets import CrossEntropyLoss, Linear, Net, ReLU
from warpladder.rungs.base import Rung
from warpladder.tolerance import bound
from warpladder.trainers.reference import ReferenceTrainer

pytest.importorskip("torch", reason="the peers are tested where torch is installed: pip install torch==2.13.0")

peers = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)

PLAIN = TrainConfig(
    batch_size=4, learning_rate=0.05, threads=1
)  # OpenMP's threads wait for each other by spinning: slow where cores are shared
SETTINGS = {
    "plain": PLAIN,
    "momentum": PLAIN.but(momentum=0.9),
    "nesterov": PLAIN.but(momentum=0.9, nesterov=True),
    "decay": PLAIN.but(weight_decay=0.1, momentum=0.5),
    "clip": PLAIN.but(clip_value=0.003),
    "full": PLAIN.but(batch_size=None),
}


def supported(peer: Rung, drawn: Case) -> None:
    if reason := peer.unsupported(drawn.net, drawn.config):
        pytest.skip(f"{peer.name}: {reason}")


@peers
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
def test_an_epoch_is_the_reference_s(peer: Rung, net: Net, setting: str) -> None:
    """Ten samples in batches of 4, 4 and 2: the weights after three steps, from a state with momentum in it."""
    drawn = case(net, SETTINGS[setting], seed=1, samples=10)
    supported(peer, drawn)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    reference.load(drawn.dataset)
    with peer.build(net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        found, wanted = trainer.run(drawn.order, 0, drawn.steps), reference.run(drawn.order, 0, drawn.steps)
        assert found.size.tolist() == wanted.size.tolist()
        if not peer.deviations:
            assert np.abs(found.loss / wanted.loss - 1).max() <= 1e-4
            assert found.correct.tolist() == wanted.correct.tolist()
        # weights, not updates: these tell a wrong optimiser or batch, and compare_epoch the rest
        error = np.linalg.norm(trainer.state().params - reference.state().params) / np.linalg.norm(reference.state().params)
        assert error <= bound("float32", 1000, steps=drawn.steps)


@pytest.mark.parametrize("peer", [find("torch"), find("torch-channels-last")], ids=lambda peer: peer.name)
@settings(max_examples=40, deadline=None)
@given(drawn=cases())
def test_steps_of_drawn_nets(peer: Rung, drawn: Case) -> None:
    """The check that our own rungs pass: each tensor's update, at a rate at which it dwarfs the weights."""
    drawn = replace(drawn, config=drawn.config.but(threads=1))
    assume(not peer.unsupported(drawn.net, drawn.config))
    assume(compare_epoch(peer, drawn) or not drawn.steps)


@peers
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
def test_predictions(peer: Rung, net: Net) -> None:
    drawn = case(net, PLAIN, seed=2, samples=9)
    supported(peer, drawn)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    with peer.build(net, drawn.config, drawn.state) as trainer:
        for count in (9, 1, 0, 5):
            x = drawn.dataset.train_x[:count]
            found, wanted = trainer.predict(x, drawn.dataset.scale), reference.predict(x, drawn.dataset.scale)
            if any("probabilities" in each for each in peer.deviations):
                wanted = wanted - np.log(np.exp(wanted).sum(axis=1, keepdims=True))
            assert found.shape == wanted.shape
            assert np.linalg.norm(found - wanted) <= 10 * bound("float32", 1000) * np.linalg.norm(wanted)


@peers
def test_state_is_kept_to_the_bit(peer: Rung) -> None:
    net = nets.cnn((1, 8, 8)) if peer.name == "torch-channels-last" else nets.mlp((1, 8, 8))
    drawn = case(net, PLAIN.but(momentum=0.9), seed=3, samples=8)
    with peer.build(net, drawn.config, drawn.state) as trainer:
        assert trainer.state().params.tobytes() == drawn.state.params.tobytes()
        velocity = trainer.state().velocity
        assert np.abs(velocity - drawn.state.velocity).max() <= 1e-6 * np.abs(velocity).max()
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 2)
        held = trainer.state()
        trainer.set_state(held)
        assert trainer.state().params.tobytes() == held.params.tobytes()


def test_what_the_peers_cannot_train() -> None:
    sklearn = find("sklearn")
    assert "Linear" in str(sklearn.unsupported(nets.cnn(), PLAIN))
    assert "cross-entropy" in str(sklearn.unsupported(Net("a", (4,), (Linear(4),), nets.MSELoss()), PLAIN))
    assert "two classes" in str(sklearn.unsupported(nets.mlp(classes=2), PLAIN))
    assert "clip" in str(sklearn.unsupported(nets.mlp(), SETTINGS["clip"]))
    assert sklearn.unsupported(Net("deep", (4,), (Linear(5), ReLU(), Linear(3), ReLU(), Linear(4)), CrossEntropyLoss()), PLAIN) is None
    assert "convolution" in str(find("torch-channels-last").unsupported(nets.mlp(), PLAIN))


def test_a_missing_torch_is_said_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpladder.peers.torch.find_spec", lambda name: None)
    assert "pip install" in str(find("torch").unsupported(nets.mlp(), PLAIN))


