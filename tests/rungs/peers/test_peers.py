"""The peers train as we do: their updates against the float64 reference, and what they say they cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compared_steps import compare_epoch
from hypothesis import HealthCheck, assume, given, settings
from peer_stand_ins import STAND_INS, graph, stand_in
from rungs_here import CPU_PEERS
from strategies import NARROW, ZOO, Case, case, cases

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.errors import DeviceError, RungError
from warpladder.ladder import find
from warpladder.machine.peaks import CORES, TENSOR, Peaks
from warpladder.machine.precision import PRECISIONS
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from warpladder.optimizers.schedules import Cosine, OneCycle, StepDecay
from warpladder.proof import verify
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.rungs.base import Rung
from warpladder.rungs.peers import driver, jax
from warpladder.rungs.peers import torch as pytorch
from warpladder.rungs.peers.blocks import Block, Blocks
from warpladder.trainers.base import State, Trainer


def graph_with(
    net: Net, config: TrainConfig, state: State, functions: Callable[[Any], dict[str, Any]], **options: Any
) -> Trainer:
    """The same with functions of `torch.nn.functional` in place of its own, which `functions` is given."""
    from warpladder.rungs.peers.torch import net as torch_net
    from warpladder.rungs.peers.torch.function import NetFunction
    from warpladder.rungs.peers.torch.graph import GraphTrainer

    module: Any = torch_net

    class ChangedFunction(NetFunction):
        def output(self, tensors: Any, x: Any, batch: Any = None) -> Any:
            plain = module.functional
            module.functional = SimpleNamespace(**{**vars(plain), **functions(plain)})
            try:
                return super().output(tensors, x, batch)
            finally:
                module.functional = plain

    trainer = GraphTrainer(net, config, state, device="cpu", **options)
    trainer.function = ChangedFunction(net, trainer.format, trainer.images_last, trainer.criterion)
    return trainer


def apart(net: Net, config: TrainConfig, state: State) -> Trainer:
    """In bfloat16 with the bias added to a result that is rounded already, as PyTorch's convolutions do on a GPU."""

    def functions(plain: Any) -> dict[str, Any]:
        return {
            "conv2d": lambda x, w, b, *how: plain.conv2d(x, w, None, *how) + b.reshape(-1, 1, 1),
            "linear": lambda x, w, b: plain.linear(x, w) + b,
        }

    return graph_with(net, config, state, functions, images_last=True, precision="bf16")


def fourier(net: Net, config: TrainConfig, state: State) -> Trainer:
    """With convolutions in Fourier's form, as cuDNN may choose them."""
    import torch

    def conv2d(plain: Any, x: Any, w: Any, b: Any, stride: int, padding: int) -> Any:
        x = plain.pad(x, (padding, padding, padding, padding))
        size, k = x.shape[2:], w.shape[2:]
        product = torch.einsum("nchw,kchw->nkhw", torch.fft.rfft2(x), torch.fft.rfft2(w, s=size).conj())
        y = torch.fft.irfft2(product, s=size)[:, :, : size[0] - k[0] + 1 : stride, : size[1] - k[1] + 1 : stride]
        return y + b.reshape(-1, 1, 1)

    return graph_with(net, config, state, lambda plain: {"conv2d": partial(conv2d, plain)})


def jax_bf16(net: Net, config: TrainConfig, state: State) -> Trainer:
    """JAX's peer with products in bfloat16, on the CPU."""
    from warpladder.rungs.peers.jax.trainer import JaxTrainer

    return JaxTrainer(net, config, state, platform="cpu", precision="bf16")


def mixed(net: Net, config: TrainConfig, state: State) -> Trainer:
    """The peer with mixed precision, on the CPU."""
    from warpladder.rungs.peers.torch.trainer import TorchTrainer

    return TorchTrainer(net, config, state, precision="fp16", threads=1)


def mixed_bf16(net: Net, config: TrainConfig, state: State) -> Trainer:
    """The same in bf16, without a scaled loss."""
    from warpladder.rungs.peers.torch.trainer import TorchTrainer

    return TorchTrainer(net, config, state, precision="bf16", threads=1)


COARSE = (
    stand_in("graph-bf16", partial(graph, images_last=True, precision="bf16"), "bf16"),
    stand_in("graph-bf16-apart", apart, "bf16"),
    stand_in("graph-fp16", partial(graph, images_last=True, precision="fp16"), "fp16"),
    stand_in("amp", mixed, "fp16"),
    stand_in("amp-bf16", mixed_bf16, "bf16"),
    Rung("jax-bf16", "", "", jax_bf16, find("jax").unsupported, precision="bf16"),
)

peers = pytest.mark.parametrize("peer", CPU_PEERS + STAND_INS, ids=lambda peer: peer.name)

PLAIN = TrainConfig(batch_size=4, learning_rate=0.05)
SETTINGS = {
    "plain": PLAIN,
    "momentum": PLAIN.but(momentum=0.9),
    "nesterov": PLAIN.but(momentum=0.9, nesterov=True),
    "decay": PLAIN.but(weight_decay=0.1, momentum=0.5),
    "clip": PLAIN.but(clip_value=0.003),
    "norm": PLAIN.but(clip_norm=0.1, momentum=0.9),
    "full": PLAIN.but(batch_size=None),
}


def suited(peer: Rung, drawn: Case) -> Case:
    """The case with settings that the peer has, or a skip."""
    if reason := peer.unsupported(drawn.net, drawn.config):
        pytest.skip(f"{peer.name}: {reason}")
    return drawn


@peers
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
@pytest.mark.by_day("nesterov-", "mlp-")
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
        # weights, not updates: these tell a wrong optimizer or batch, and compare_epoch the rest
        error = np.linalg.norm(trainer.state().params - reference.state().params) / np.linalg.norm(
            reference.state().params
        )
        assert error <= bound("float32", 1000, steps=drawn.steps)


@pytest.mark.parametrize(
    "peer", [find("torch", threads=1), find("torch:images=last", threads=1), *STAND_INS[:2]], ids=lambda peer: peer.name
)
@pytest.mark.by_day("torch:threads=1", "graph]")
@settings(
    max_examples=settings().max_examples // 5, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)  # many drawn nets have no convolution
@given(drawn=cases())
def test_steps_of_drawn_nets(peer: Rung, drawn: Case) -> None:
    """The check that our own rungs pass: each tensor's update, at a rate at which it dwarfs the weights."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    assume(not peer.unsupported(drawn.net, drawn.config))
    assume(compare_epoch(peer, drawn) or not drawn.steps)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # each is compiled, for seconds
@given(drawn=cases())
def test_steps_of_drawn_nets_in_jax(drawn: Case) -> None:
    if reason := find("jax").unsupported(drawn.net, drawn.config):
        pytest.skip(reason)
    assume(compare_epoch(find("jax"), drawn) or not drawn.steps)


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
    net = nets.cnn((1, 8, 8)) if "images=last" in peer.name else nets.mlp((1, 8, 8))
    drawn = suited(peer, case(net, PLAIN.but(momentum=0.9), seed=3, samples=8))
    with peer.build(net, drawn.config, drawn.state) as trainer:
        assert trainer.state().params.tobytes() == drawn.state.params.tobytes()
        buffer = trainer.state().slots["momentum_buffer"]
        assert np.abs(buffer - drawn.state.slots["momentum_buffer"]).max() <= 1e-6 * np.abs(buffer).max()
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 2)
        held = trainer.state()
        trainer.set_state(held)
        assert trainer.state().bits() == held.bits()


OPTIMIZERS = {
    "momentum": PLAIN.but(momentum=0.9, weight_decay=0.01),
    "nesterov": PLAIN.but(momentum=0.9, nesterov=True),
    "adam": PLAIN.but(optimizer=Adam(0.02, betas=(0.8, 0.99), eps=1e-3)),
    "adam and decay": PLAIN.but(optimizer=Adam(0.02, weight_decay=0.1), clip_value=0.1),
    "adamw": PLAIN.but(optimizer=AdamW(0.02, weight_decay=0.5)),
    "sgd by cosine": PLAIN.but(schedule=Cosine(warmup=0.5), epochs=2),
    "nesterov by steps": PLAIN.but(
        momentum=0.9, nesterov=True, weight_decay=0.01, schedule=StepDecay(every=0.4, gamma=0.5)
    ),
    "adam by cosine": PLAIN.but(optimizer=Adam(0.02), schedule=Cosine(warmup=0.5, least=1e-3), epochs=2),
    "rmsprop": PLAIN.but(optimizer=RMSprop(0.01, alpha=0.9, momentum=0.5, weight_decay=0.1), clip_norm=0.5),
    "rmsprop by one cycle": PLAIN.but(optimizer=RMSprop(0.01, eps=1e-3), schedule=OneCycle(), epochs=2),
    "adamw by cosine": PLAIN.but(optimizer=AdamW(0.02, weight_decay=0.5), schedule=Cosine(warmup=0.5), epochs=2),
}


def small(peer: Rung) -> Net:
    """A net that the peer can train."""
    if peer.name == "sklearn":
        return Net("small", (9,), (Linear(out_features=7), ReLU(), Linear(out_features=4)), CrossEntropyLoss())
    return Net(
        "small",
        (1, 6, 6),
        (Conv2d(out_channels=3, kernel_size=3), ReLU(), Flatten(), Linear(out_features=4)),
        CrossEntropyLoss(),
    )


def agree(found: State, wanted: State, steps: int) -> None:
    """Parameters and every slot, after so many steps from the same state."""
    assert found.step == wanted.step and found.slots.keys() == wanted.slots.keys()
    for ours, theirs in (
        (found.params, wanted.params),
        *((found.slots[name], wanted.slots[name]) for name in found.slots),
    ):
        assert ours.dtype == np.float32
        error = np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
        assert error <= bound("float32", 1000, steps=steps)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What inductor would compile runs as it is written."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    monkeypatch.setattr(torch, "compile", lambda function, **how: function)


STEPPING = (*CPU_PEERS, *STAND_INS, stand_in("compiled", partial(graph, compiled=True, images_last=True)))
stepping = pytest.mark.parametrize("peer", STEPPING, ids=lambda peer: peer.name)


@stepping
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.by_day(  # each optimizer in each kind of step, and of each kind of optimizer one on every peer
    "-torch]", "-graph]", "-sklearn]", "adam and decay-", "nesterov by steps-", "rmsprop by one cycle-"
)
@pytest.mark.usefixtures("uncompiled")
def test_every_optimizer_and_schedule_steps_as_the_reference(peer: Rung, name: str) -> None:
    """From a state in the middle of a run: an epoch of ten steps in two ranges, then the beginning of the next one."""
    drawn = suited(peer, case(small(peer), OPTIMIZERS[name], seed=3, samples=38))
    drawn = replace(drawn, state=drawn.state.but(step=3))
    reference = ReferenceTrainer(drawn.net, drawn.config, drawn.state)
    with peer.build(drawn.net, drawn.config, drawn.state) as trainer:
        for each in (trainer, reference):
            each.load(drawn.dataset)
        agree(trainer.state(), drawn.state, 1)
        for order, first, last in (
            (drawn.order, 0, 10),
            (replace(drawn.order, epoch=1), 0, 3),
            (replace(drawn.order, epoch=1), 3, 5),
        ):
            found, wanted = trainer.run(order, first, last), reference.run(order, first, last)
            assert np.abs(found.loss / wanted.loss - 1).max() <= 1e-4
            agree(trainer.state(), reference.state(), trainer.state().step - 3)
        held = trainer.state()
        trainer.run(drawn.order, 5, 10)
        trainer.set_state(held)
        assert trainer.state().bits() == held.bits()


@pytest.mark.parametrize(
    "peer",
    [peer for peer in STEPPING if peer.name in ("jax", "graph", "compiled", "torch")],
    ids=lambda peer: peer.name,
)
@pytest.mark.parametrize("name", ["momentum", "adam by cosine"])
@pytest.mark.usefixtures("uncompiled")
def test_epochs_of_one_step_together_step_as_the_reference(peer: Rung, name: str) -> None:
    drawn = case(small(peer), OPTIMIZERS[name].but(batch_size=None, epochs=20), seed=4, samples=8)
    orders = [replace(drawn.order, epoch=epoch) for epoch in range(13)]
    if reason := peer.unsupported(drawn.net, drawn.config):
        pytest.skip(reason)
    reference = ReferenceTrainer(drawn.net, drawn.config, drawn.state)
    with peer.build(drawn.net, drawn.config, drawn.state) as trainer:
        for each in (trainer, reference):
            each.load(drawn.dataset)
        found, wanted = trainer.run_epochs(orders), reference.run_epochs(orders)
        assert np.allclose([log.loss[0] for log in found], [log.loss[0] for log in wanted], rtol=1e-4, atol=0)
        agree(trainer.state(), reference.state(), len(orders))


def test_what_the_peers_have_no_step_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adagrad is no optimizer of warpladder's: PyTorch has one of that name."""
    from adagrad import Adagrad

    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    net = nets.mlp((1, 8, 8))
    assert find("torch").unsupported(net, PLAIN.but(optimizer=Adagrad(0.1))) is None
    graphs = pytorch.TorchOptions(device="cuda", mode="graph")
    assert "SGD, Adam, AdamW and RMSprop, not Adagrad" in str(
        pytorch.unsupported(net, PLAIN.but(optimizer=Adagrad(0.1)), graphs)
    )
    monkeypatch.setattr(Adagrad, "slots", ("total",))
    assert "torch.optim.Adagrad keeps sum" in str(find("torch").unsupported(net, PLAIN.but(optimizer=Adagrad(0.1))))

    class Unheard(SGD):
        pass

    class ASGD(SGD):  # torch.optim's has no momentum
        pass

    try:
        assert "torch.optim has no Unheard" in str(find("torch").unsupported(net, PLAIN.but(optimizer=Unheard(0.1))))
        assert "momentum" in str(find("torch").unsupported(net, PLAIN.but(optimizer=ASGD(0.1))))
    finally:
        for name in ("unheard", "asgd"):
            del Optimizer.known[name]


def test_settings_of_one_rule_share_jax_s_programs() -> None:
    """Whether a setting is 0 decides which arithmetic there is; its value is no part of the program, which cannot take
    it for one.
    """
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    from warpladder.rungs.peers.jax.steps import Rule

    rule = Rule.of(PLAIN.but(optimizer=Adam(0.1, weight_decay=0.2)))
    assert rule == Rule.of(
        PLAIN.but(optimizer=Adam(0.3, betas=(0.5, 0.6), eps=1e-3, weight_decay=0.4), schedule=Cosine())
    )
    assert hash(rule) == hash(Rule.of(PLAIN.but(optimizer=Adam(0.3, weight_decay=0.4))))
    assert rule != Rule.of(PLAIN.but(optimizer=AdamW(0.1, weight_decay=0.2)))
    assert rule != Rule.of(PLAIN.but(optimizer=Adam(0.1)))
    assert Rule.of(PLAIN) == Rule.of(PLAIN.but(learning_rate=0.0))
    assert Rule.of(PLAIN) != Rule.of(PLAIN.but(momentum=0.1)) != Rule.of(PLAIN.but(momentum=0.1, nesterov=True))
    assert Rule.of(PLAIN) != Rule.of(PLAIN.but(schedule=Cosine())) == Rule.of(PLAIN.but(schedule=StepDecay()))
    with pytest.raises(TypeError):
        2.0 * dict(rule.settings)["weight_decay"]  # type: ignore[operator]


@peers
@pytest.mark.parametrize(
    "setting",
    ["plain", pytest.param("nesterov", marks=pytest.mark.nightly), pytest.param("full", marks=pytest.mark.slow)],
)
@pytest.mark.by_day("plain-graph]", "sklearn", "jax")
def test_proof(peer: Rung, setting: str) -> None:
    """The proof that a climb asks for before it times anything; test_verify.py proves torch with more settings."""
    net = small(peer)
    config = suited(peer, case(net, SETTINGS[setting], seed=0, samples=1)).config
    verdict = verify(peer.build, net, config)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("net", [ZOO[1], pytest.param(ZOO[3], marks=pytest.mark.slow)], ids=lambda net: net.name)
@pytest.mark.parametrize("peer", COARSE, ids=lambda peer: peer.name)
@pytest.mark.by_day("jax-bf16", "amp-mlp")
def test_proof_in_coarse_formats(peer: Rung, net: Net) -> None:
    config = suited(peer, case(net, TrainConfig(batch_size=4, momentum=0.9, clip_value=5.0), seed=0, samples=1)).config
    verdict = verify(peer.build, net, config, precision=peer.precision)
    assert verdict.passed, verdict.reason
    finer = verify(peer.build, net, config)
    assert not finer.passed and finer.reason.startswith(("update", "loss")), finer.reason


@pytest.mark.parametrize(
    "optimizer",
    [SGD(0.05, momentum=0.9), SGD(0.05), Adam(1e-3), RMSprop(1e-3)],
    ids=["momentum", "SGD", "Adam", "RMSprop"],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "compile"])
def test_a_step_in_fp16_that_overflows_is_left_out_and_halves_the_scale(
    compiled: bool, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    from warpladder.rungs.peers.torch.graph import GraphTrainer
    from warpladder.rungs.peers.torch.scale import INTERVAL

    monkeypatch.setattr(torch, "compile", lambda function, **how: function)  # what inductor is given, as it stands
    drawn = case(nets.mlp((1, 8, 8)), TrainConfig(batch_size=4, optimizer=optimizer), seed=2, samples=40)
    with GraphTrainer(
        drawn.net, drawn.config, drawn.state, device="cpu", precision="fp16", compiled=compiled
    ) as trainer:
        trainer.load(drawn.dataset)
        scale: Any = trainer.scale
        before, first = trainer.state(), float(scale.scale)
        trainer.run(drawn.order, 0, 1)
        after = trainer.state()
        assert not np.array_equal(after.params, before.params) and float(scale.scale) == first and int(scale.steps) == 1
        scale.scale.fill_(2.0**40)
        log = trainer.run(drawn.order, 1, 3)
        left_out = trainer.state()
        assert np.isfinite(log.loss).all() and float(scale.scale) == 2.0**38 and int(scale.steps) == 0
        assert left_out.params.tobytes() == after.params.tobytes() and left_out.step == after.step + 2
        assert all(np.array_equal(left_out.slots[name], after.slots[name]) for name in after.slots)
        scale.scale.fill_(first)
        scale.steps.fill_(INTERVAL - 1)
        trainer.run(drawn.order, 3, 4)
        assert float(scale.scale) == 2 * first and int(scale.steps) == 0
        trainer.set_state(drawn.state)
        assert float(scale.scale) == first


@pytest.mark.parametrize("net", [ZOO[3], NARROW], ids=["cnn", "autoencoder"])
@pytest.mark.by_day("autoencoder")
def test_convolutions_in_another_form_are_proven_on_samples_that_stand_it(net: Net) -> None:
    """On data that only direct sums compute exactly an honest program in Fourier's form falls on other sides of
    switches.
    """
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    config = PLAIN.but(momentum=0.9, clip_value=5.0)
    verdict = verify(fourier, net, config, transforms=True)
    assert verdict.passed, verdict.reason
    direct = verify(fourier, net, config)
    assert not direct.passed and direct.reason.startswith("update"), direct.reason


def test_training_goes_on_after_weights_that_are_not_finite() -> None:
    """scikit-learn raises there; a trainer lets its log tell."""
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=4, samples=8)
    with find("sklearn").build(
        drawn.net, drawn.config, replace(drawn.state, params=np.full_like(drawn.state.params, np.nan))
    ) as trainer:
        trainer.load(drawn.dataset)
        assert not np.isfinite(trainer.run(drawn.order, 0, 2).loss).any()


def test_a_scikit_learn_that_trains_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=5, samples=8)
    with find("sklearn").build(drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        monkeypatch.delattr("warpladder.rungs.peers.sklearn.trainer.Recorder._backprop")
        with pytest.raises(RungError, match="another version"):
            trainer.run(drawn.order, 0, 2)


def test_ctrl_c_while_scikit_learn_trains_stops_the_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLPClassifier takes a KeyboardInterrupt for its own and returns: a climb went on, with this peer as failed."""

    def pressed(*arguments: object) -> None:
        raise KeyboardInterrupt

    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=5, samples=8)
    with find("sklearn").build(drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        monkeypatch.setattr("warpladder.rungs.peers.sklearn.trainer.MLPClassifier._backprop", pressed)
        with pytest.raises(KeyboardInterrupt):
            trainer.run(drawn.order, 0, 2)


def test_threads_are_given_back() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=6, samples=8)
    before = torch.get_num_threads()
    with find("torch", threads=before + 1).build(drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 1)
        trainer.predict(drawn.dataset.train_x, 1.0)
        assert torch.get_num_threads() == before


def test_what_the_peers_cannot_train() -> None:
    sklearn = find("sklearn")
    assert "Linear" in str(sklearn.unsupported(nets.cnn(), PLAIN))
    assert "cross-entropy" in str(sklearn.unsupported(Net("a", (4,), (Linear(out_features=4),), nets.MSELoss()), PLAIN))
    assert "two classes" in str(sklearn.unsupported(nets.mlp(classes=2), PLAIN))
    assert "clip" in str(sklearn.unsupported(nets.mlp(), SETTINGS["clip"]))
    assert "no AdamW" in str(sklearn.unsupported(nets.mlp(), OPTIMIZERS["adamw"]))
    assert "weight decay" in str(sklearn.unsupported(nets.mlp(), OPTIMIZERS["adam and decay"]))
    assert "schedule" in str(sklearn.unsupported(nets.mlp(), PLAIN.but(momentum=0.9, schedule=Cosine())))
    assert (
        sklearn.unsupported(
            Net(
                "deep",
                (4,),
                (Linear(out_features=5), ReLU(), Linear(out_features=3), ReLU(), Linear(out_features=4)),
                CrossEntropyLoss(),
            ),
            PLAIN,
        )
        is None
    )
    assert "convolution" in str(find("torch:images=last").unsupported(nets.mlp(), PLAIN))


def test_a_missing_torch_is_said_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpladder.rungs.peers.torch.find_spec", lambda name: None)
    assert "pip install" in str(find("torch").unsupported(nets.mlp(), PLAIN))


def test_peers_on_a_gpu_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "gpu", lambda: "the NVIDIA driver shows no GPU")
    monkeypatch.setattr("warpladder.rungs.peers.torch.find_spec", lambda name: True)
    monkeypatch.setattr("warpladder.rungs.peers.torch.metadata.version", lambda name: "2.13.0+cpu")
    for peer in pytorch.GPU_PEERS:
        assert "without CUDA" in str(peer.unsupported(nets.mlp(), PLAIN))
    monkeypatch.setattr("warpladder.rungs.peers.torch.metadata.version", lambda name: "2.13.0")
    for peer in pytorch.GPU_PEERS:
        assert "no GPU" in str(peer.unsupported(nets.mlp(), PLAIN))
    for missing, said in (("jax", "pip install"), ("jax_cuda13_plugin", "CUDA plugin")):
        monkeypatch.setattr(
            "warpladder.rungs.peers.jax.find_spec",
            lambda name, missing=missing: not name.startswith(missing[:7]) or None,
        )
        for peer in jax.GPU_PEERS:
            assert said in str(peer.unsupported(nets.mlp(), PLAIN))
    monkeypatch.setattr("warpladder.rungs.peers.jax.find_spec", lambda name: True)
    assert "no GPU" in str(find("jax:device=cuda").unsupported(nets.mlp(), PLAIN))


def test_a_peer_of_the_gpu_never_trains_on_the_cpu() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=7, samples=8)
    for peer in (*pytorch.GPU_PEERS, *jax.GPU_PEERS):
        with pytest.raises(RungError, match=r"no GPU here|no gpu here"):
            peer.build(drawn.net, drawn.config, drawn.state)


def test_jax_does_not_promise_a_number_of_threads() -> None:
    pytest.importorskip("jax")
    assert "threads" in str(find("jax", threads=1000).unsupported(nets.mlp(), PLAIN))


@pytest.mark.parametrize(
    ("config", "samples", "lengths", "partial"),
    [
        (TrainConfig(batch_size=4), 58, (10, 8, 4, 1), 2),
        (TrainConfig(batch_size=4), 56, (10, 8, 4, 1), 0),
        (TrainConfig(batch_size=4, drop_last=True), 59, (10, 8, 4, 1), 0),
        (TrainConfig(batch_size=4), 11, (2, 1), 3),
        (TrainConfig(batch_size=4), 40, (10, 8, 1), 0),
        (TrainConfig(batch_size=None), 9, (1,), 0),
        (TrainConfig(batch_size=9), 5, (1,), 0),
    ],
)
def test_blocks_cover_every_range_of_steps_once(
    config: TrainConfig, samples: int, lengths: tuple[int, ...], partial: int
) -> None:
    blocks = Blocks.of(config, samples, most=10)
    assert (blocks.lengths, blocks.partial) == (lengths, partial)
    steps = config.steps(samples)
    for first in range(steps + 1):
        for last in range(first, steps + 1):
            found = list(blocks.cut(first, last))
            assert [step for block in found for step in range(block.first, block.first + block.steps)] == list(
                range(first, last)
            )
            for block in found:
                assert all(
                    min(blocks.batch, samples - step * blocks.batch) == block.size
                    for step in range(block.first, block.first + block.steps)
                )
    assert blocks.whole == {(block.steps, block.size) for block in blocks.cut(0, steps)}
    assert list(Blocks.of(TrainConfig(batch_size=4), 26, most=4).cut(0, 7)) == [
        Block(0, 4, 4),
        Block(4, 2, 4),
        Block(6, 1, 2),
    ]


def test_an_epoch_is_one_block_and_its_partial_batch_and_a_range_is_a_few() -> None:
    blocks = Blocks.of(TrainConfig(batch_size=64), 60_000, most=60_000)
    assert blocks.lengths == (937, 512, 64, 8, 1)
    assert list(blocks.cut(0, 938)) == [Block(0, 937, 64), Block(937, 1, 32)]
    assert [block.steps for block in blocks.cut(100, 200)] == [64, 8, 8, 8, 8, 1, 1, 1, 1]
    assert blocks.whole == {(937, 64), (1, 32)}


def test_peaks_grow_as_precision_falls() -> None:
    """An H100's datasheet has 67, 495 and 989 TFLOP/s, the last two at a clock of 1.83 GHz."""
    h100 = Peaks((9, 0), 132, 1.98e9)
    assert h100.of("fp32") == pytest.approx(67e12, rel=0.01)
    assert h100.of("tf32") == pytest.approx(495e12 * 1.98 / 1.83, rel=0.01)
    assert h100.of("fp16") == h100.of("bf16") == pytest.approx(989e12 * 1.98 / 1.83, rel=0.01)
    assert h100.of("fp64") == 2 * h100.of("fp64", CORES) == pytest.approx(67e12, rel=0.01)
    assert h100.of("fp32") < h100.of("fp32", TENSOR) < h100.of("tf32")  # of three products of halves
    assert Peaks((9, 3), 132, 1.98e9).of("tf32") == h100.of("tf32")
    assert Peaks((6, 1), 10, 1e9).of("fp32") == Peaks((7, 0), 10, 1e9).of("fp32")


def test_a_gpu_says_which_precision_it_lacks() -> None:
    t4, a100 = Peaks((7, 5), 40, 1.59e9), Peaks((8, 0), 108, 1.41e9)
    assert t4.lacks("bf16") == "bf16 needs a GPU of compute capability 8.0 or later, and this one has 7.5"
    assert t4.lacks("tf32") and [t4.lacks(name) for name in ("fp64", "fp32", "fp16")] == [None] * 3
    assert [a100.lacks(name) for name in PRECISIONS] == [None] * len(PRECISIONS)
    for wrong in (lambda: t4.of("bf16"), lambda: a100.of("bf16", CORES), lambda: t4.of("fp64", TENSOR)):
        with pytest.raises(DeviceError):
            wrong()


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX's threads are none of the workers' business
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_with_workers_keeps_the_order(workers: int) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    drawn = case(nets.mlp((1, 8, 8)), PLAIN, seed=8, samples=26)
    with (
        find("torch", loader=True, workers=workers).build(drawn.net, drawn.config, drawn.state) as found,
        find("torch").build(drawn.net, drawn.config, drawn.state) as wanted,
    ):
        found.workers = workers  # type: ignore[attr-defined]
        for trainer in (found, wanted):
            trainer.load(drawn.dataset)
        for first, last in ((0, 7), (2, 5), (6, 7), (3, 3)):
            ours, theirs = found.run(drawn.order, first, last), wanted.run(drawn.order, first, last)
            assert ours.loss.tolist() == theirs.loss.tolist()
            assert ours.size.tolist() == theirs.size.tolist()
            assert ours.correct.tolist() == theirs.correct.tolist()
        assert found.state().params.tobytes() == wanted.state().params.tobytes()


@pytest.mark.parametrize(("size", "k"), [(8, 2), (9, 2), (7, 3), (5, 5)])
def test_both_kinds_of_pools_give_a_tie_to_the_first_in_jax(size: int, k: int) -> None:
    jnp = pytest.importorskip("jax.numpy")
    from jax import vjp

    from warpladder.rungs.peers.jax.net import pool, pool_windows

    rng = np.random.default_rng(0)
    x = jnp.asarray(
        rng.integers(0, 3, (4, size, size, 5)), jnp.bfloat16
    )  # of three numbers most windows hold two that are equal
    (a, back_a), (b, back_b) = vjp(lambda x: pool(x, k, k), x), vjp(lambda x: pool_windows(x, k), x)
    dy = jnp.asarray(rng.integers(1, 9, a.shape), jnp.bfloat16)
    assert np.array_equal(a, b)
    assert np.array_equal(back_a(dy)[0], back_b(dy)[0])
    assert float(back_b(dy)[0].sum()) == float(dy.sum())


@pytest.mark.slow
def test_trainers_of_the_same_settings_share_a_compiled_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten sizes of a batch: PyTorch stores eight functions for the code of one, and reports any further as an error."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    compiled: list[Any] = []
    real = torch.compile

    def counted(function: Any, **how: Any) -> Any:
        compiled.append(function)
        return real(function, backend="eager", **how)

    monkeypatch.setattr(torch, "compile", counted)
    net = Net("shared", (9,), (Linear(out_features=7), ReLU(), Linear(out_features=4)), CrossEntropyLoss())
    for size in (*range(2, 12), 2, 11):
        drawn = case(net, PLAIN.but(batch_size=size), seed=size, samples=2 * size)
        reference = ReferenceTrainer(net, drawn.config, drawn.state)
        with graph(net, drawn.config, drawn.state, compiled=True) as trainer:
            for each in (trainer, reference):
                each.load(drawn.dataset)
                each.run(drawn.order, 0, 2)
            agree(trainer.state(), reference.state(), 2)
    assert len(compiled) == 10
