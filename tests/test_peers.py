"""The peers train as we do: their updates against the float64 reference, and what they say they cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from rungs_here import CPU_PEERS
from strategies import ZOO, Case, case, cases
from test_steps import compare_epoch
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.errors import RungError
from warpladder.ladder import find
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.rungs.base import Rung
from warpladder.tolerance import bound
from warpladder.trainers.reference import ReferenceTrainer
from warpladder.verify import verify

peers = pytest.mark.parametrize("peer", CPU_PEERS, ids=lambda peer: peer.name)

# one thread: OpenMP's threads wait for each other by spinning, which is slow where cores are shared
PLAIN = TrainConfig(batch_size=4, learning_rate=0.05, threads=1)
SETTINGS = {
    "plain": PLAIN,
    "momentum": PLAIN.but(momentum=0.9),
    "nesterov": PLAIN.but(momentum=0.9, nesterov=True),
    "decay": PLAIN.but(weight_decay=0.1, momentum=0.5),
    "clip": PLAIN.but(clip_value=0.003),
    "full": PLAIN.but(batch_size=None),
}


def suited(peer: Rung, drawn: Case) -> Case:
    """The case with settings that the peer has, or a skip."""
    if peer.name == "jax":
        drawn = replace(drawn, config=drawn.config.but(threads=None))
    if reason := peer.unsupported(drawn.net, drawn.config):
        pytest.skip(f"{peer.name}: {reason}")
    return drawn


@peers
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
def test_an_epoch_is_the_reference_s(peer: Rung, net: Net, setting: str) -> None:
    """Ten samples in batches of 4, 4 and 2: the weights after three steps, from a state with momentum in it."""
    drawn = suited(peer, case(net, SETTINGS[setting], seed=1, samples=10))
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    reference.load(drawn.dataset)
    with peer.build(net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        found, wanted = trainer.run(drawn.order, 0, drawn.steps), reference.run(drawn.order, 0, drawn.steps)
        assert found.size.tolist() == wanted.size.tolist()
        assert np.abs(found.loss / wanted.loss - 1).max() <= 1e-4
        assert found.correct.tolist() == wanted.correct.tolist()
        # weights, not updates: these tell a wrong optimiser or batch, and compare_epoch the rest
        error = np.linalg.norm(trainer.state().params - reference.state().params) / np.linalg.norm(reference.state().params)
        assert error <= bound("float32", 1000, steps=drawn.steps)


@pytest.mark.parametrize("peer", [find("torch"), find("torch-channels-last")], ids=lambda peer: peer.name)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])  # many drawn nets have no convolution
@given(drawn=cases())
def test_steps_of_drawn_nets(peer: Rung, drawn: Case) -> None:
    """The check that our own rungs pass: each tensor's update, at a rate at which it dwarfs the weights."""
    drawn = replace(drawn, config=drawn.config.but(threads=1))
    assume(not peer.unsupported(drawn.net, drawn.config))
    assume(compare_epoch(peer, drawn) or not drawn.steps)


@peers
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
def test_predictions(peer: Rung, net: Net) -> None:
    drawn = suited(peer, case(net, PLAIN, seed=2, samples=9))
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    with peer.build(net, drawn.config, drawn.state) as trainer:
        for count in (9, 1, 0, 5):
            x = drawn.dataset.train_x[:count]
            found, wanted = trainer.predict(x, drawn.dataset.scale), reference.predict(x, drawn.dataset.scale)
            assert found.shape == wanted.shape
            assert np.linalg.norm(found - wanted) <= 10 * bound("float32", 1000) * np.linalg.norm(wanted)


@peers
def test_state_is_kept_to_the_bit(peer: Rung) -> None:
    net = nets.cnn((1, 8, 8)) if peer.name == "torch-channels-last" else nets.mlp((1, 8, 8))
    drawn = suited(peer, case(net, PLAIN.but(momentum=0.9), seed=3, samples=8))
    with peer.build(net, drawn.config, drawn.state) as trainer:
        assert trainer.state().params.tobytes() == drawn.state.params.tobytes()
        velocity = trainer.state().velocity
        assert np.abs(velocity - drawn.state.velocity).max() <= 1e-6 * np.abs(velocity).max()
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 2)
        held = trainer.state()
        trainer.set_state(held)
        assert trainer.state().params.tobytes() == held.params.tobytes()


@peers
@pytest.mark.parametrize("setting", ["plain", "nesterov", "full"])
def test_proof(peer: Rung, setting: str) -> None:
    """The proof that a climb asks for before it times anything."""
    net = Net("small", (1, 6, 6), (Conv2d(3, 3), ReLU(), Flatten(), Linear(4)), CrossEntropyLoss())
    if peer.name == "sklearn":
        net = Net("small", (9,), (Linear(7), ReLU(), Linear(4)), CrossEntropyLoss())
    config = suited(peer, case(net, SETTINGS[setting], seed=0, samples=1)).config
    verdict = verify(peer.build, net, config)
    assert verdict.passed, verdict.reason


def test_training_goes_on_after_weights_that_are_not_finite() -> None:
    """scikit-learn raises there; a trainer lets its log tell."""
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=4, samples=8)
    with find("sklearn").build(drawn.net, drawn.config, replace(drawn.state, params=np.full_like(drawn.state.params, np.nan))) as trainer:
        trainer.load(drawn.dataset)
        assert not np.isfinite(trainer.run(drawn.order, 0, 2).loss).any()


def test_a_scikit_learn_that_trains_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=5, samples=8)
    with find("sklearn").build(drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        monkeypatch.delattr("warpladder.peers.sklearn_trainer.Recorder._backprop")
        with pytest.raises(RungError, match="another version"):
            trainer.run(drawn.order, 0, 2)


def test_threads_are_given_back() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=6, samples=8)
    before = torch.get_num_threads()
    with find("torch").build(drawn.net, drawn.config.but(threads=before + 1), drawn.state) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 1)
        trainer.predict(drawn.dataset.train_x, 1.0)
        assert torch.get_num_threads() == before


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
