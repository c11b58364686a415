"""The peers on a GPU: proven in the precision that they name, and doing on the device what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strategies import ZOO, case, data

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.nets.params import initial
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.optimizers.schedules import Constant, Cosine, Schedule, StepDecay
from warpladder.proof import verify
from warpladder.rungs.base import Rung
from warpladder.rungs.peers import driver, jax
from warpladder.rungs.peers import torch as pytorch
from warpladder.trainers.base import State, Trainer

if driver.no_gpu() is not None:
    pytest.skip(str(driver.no_gpu()), allow_module_level=True)

#: Precisions that a climb times where somebody names them; "compile" with fp16 is what people call compiled with
#: automatic mixed precision.
PRECISE = tuple(
    find(f"torch:device=cuda:{options}")
    for options in (
        "precision=fp64",
        "precision=tf32",
        "precision=bf16",
        "mode=graph:precision=fp16",
        "mode=compile:precision=fp16",
    )
)
PEERS = (*pytorch.GPU_PEERS, *jax.GPU_PEERS, *PRECISE)
peers = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)

#: Where every shape is compiled for seconds, two nets have to do.
QUICK = ("torch:device=cuda:mode=compile", "jax:device=cuda")
SLOW_NETS = ("mlp", "cnn")

EVERYTHING = TrainConfig(batch_size=4, momentum=0.9, nesterov=True, weight_decay=5e-4, clip_value=5.0)


def build(peer: Rung, net: Net, config: TrainConfig, state: State) -> Trainer:
    if reason := peer.unsupported(net, config):
        pytest.skip(reason)
    return peer.build(net, config, state)


def start(net: Net) -> State:
    return State(initial(net, 0))


@peers
@pytest.mark.parametrize("net", ZOO, ids=lambda net: net.name)
def test_proven(peer: Rung, net: Net) -> None:
    if peer.name.startswith(QUICK) and net.name not in SLOW_NETS:
        pytest.skip("compiled for each shape of each case: two nets have to do")
    if reason := peer.unsupported(net, EVERYTHING):
        pytest.skip(reason)
    verdict = verify(
        peer.build, net, EVERYTHING, bitwise=not peer.deviations, precision=peer.precision, transforms=peer.transforms
    )
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("name", ["torch:device=cuda", "torch:device=cuda:mode=graph", "jax:device=cuda"])
def test_proven_on_full_batches(name: str) -> None:
    peer, net, config = find(name), nets.mlp10((1, 8, 8)), TrainConfig(batch_size=None)
    if reason := peer.unsupported(net, config):
        pytest.skip(reason)
    verdict = verify(peer.build, net, config, bitwise=not peer.deviations, precision=peer.precision)
    assert verdict.passed, verdict.reason


@peers
@pytest.mark.parametrize(
    ("optimizer", "schedule"), [(Adam(1e-3, weight_decay=1e-2), Constant()), (AdamW(1e-3), Cosine(warmup=1)), (SGD(0.05, momentum=0.9), StepDecay(every=1))],
    ids=["Adam", "AdamW and a cosine", "SGD and steps"],
)  # fmt: skip
def test_proven_with_every_optimizer(peer: Rung, optimizer: Optimizer, schedule: Schedule) -> None:
    """On a perceptron alone: what differs between nets is not the update."""
    net, config = nets.mlp((1, 8, 8)), TrainConfig(batch_size=4, optimizer=optimizer, schedule=schedule)
    if reason := peer.unsupported(net, config):
        pytest.skip(reason)
    verdict = verify(
        peer.build, net, config, bitwise=not peer.deviations, precision=peer.precision, transforms=peer.transforms
    )
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    "name",
    [
        "torch:device=cuda:mode=graph:precision=tf32",
        "jax:device=cuda:precision=tf32",
        "torch:device=cuda:mode=graph:precision=bf16",
        "jax:device=cuda:precision=bf16",
        *(peer.name for peer in PRECISE[1:]),
    ],
)
def test_coarse_products_are_used(name: str) -> None:
    """What names a coarser format must not pass as float32: it would not be the peer that its time is taken for."""
    peer, net = find(name), nets.mlp((1, 8, 8))
    if reason := peer.unsupported(net, EVERYTHING):
        pytest.skip(reason)
    assert not verify(peer.build, net, EVERYTHING, bitwise=False).passed


@peers
def test_an_epoch_of_many_blocks(peer: Rung) -> None:
    """Blocks of every length and a partial batch, in one range and in several, end in nearly the same weights as on the
    CPU.
    """
    net, config = nets.mlp((1, 8, 8)), TrainConfig(batch_size=8, learning_rate=0.05)
    drawn = case(net, config, seed=1, samples=8 * 150 + 3)
    with build(peer, net, config, drawn.state) as found, find("numpy").build(net, config, drawn.state) as wanted:
        for trainer in (found, wanted):
            trainer.load(drawn.dataset)
        logs = [found.run(drawn.order, 0, 151), wanted.run(drawn.order, 0, 151)]
        far = {"fp64": 1e-4, "fp32": 1e-4, "bf16": 5e-2}.get(
            peer.precision, 1e-2
        )  # of a trajectory, which a proof does not follow
        assert np.abs(logs[0].loss / logs[1].loss - 1).max() <= far
        assert logs[0].size.tolist() == logs[1].size.tolist()
        assert np.linalg.norm(found.state().params - wanted.state().params) <= far * np.linalg.norm(
            wanted.state().params
        )
        once = found.state().params
        found.set_state(drawn.state)
        for first, last in ((0, 1), (1, 70), (70, 150), (150, 151)):
            found.run(drawn.order, first, last)
        assert np.linalg.norm(found.state().params - once) <= far * np.linalg.norm(once)


@pytest.mark.parametrize("mode", ["graph", "compile"])
def test_a_captured_step_in_fp16_that_overflows_is_left_out(mode: str) -> None:
    """The scale is moved by what is in the graph: no host looks at it between two steps."""
    peer = find(f"torch:device=cuda:mode={mode}:precision=fp16")
    drawn = case(nets.mlp((1, 8, 8)), TrainConfig(batch_size=4, momentum=0.9, learning_rate=0.05), seed=2, samples=40)
    with build(peer, drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        scale: Any = trainer.scale  # type: ignore[attr-defined]
        first = float(scale.scale)
        trainer.run(drawn.order, 0, 1)
        after = trainer.state()
        assert not np.array_equal(after.params, drawn.state.params) and float(scale.scale) == first
        scale.scale.fill_(2.0**40)
        log = trainer.run(drawn.order, 1, 3)
        assert np.isfinite(log.loss).all() and float(scale.scale) == 2.0**38
        assert trainer.state().params.tobytes() == after.params.tobytes()


def test_the_peak_is_that_of_the_precision() -> None:
    found = driver.gpu()
    assert not isinstance(found, str)
    rates = [found.of(name) for name in ("fp64", "fp32", "tf32", "bf16") if found.lacks(name) is None]
    assert all(rate > 1e11 for rate in rates) and found.of("fp16") == max(found.of("fp16"), *rates)


def test_pytorch_s_switches_do_what_they_say_and_are_given_back() -> None:
    torch = pytest.importorskip("torch")
    if reason := find("torch:device=cuda").unsupported(nets.mlp(), EVERYTHING):
        pytest.skip(reason)
    from warpladder.rungs.peers.torch.net import arithmetic

    def error(f: Any, *given: Any) -> float:
        true = f(*(a.double() for a in given))
        return float((f(*given) - true).norm() / true.norm())

    def switches() -> tuple[Any, ...]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark

    a, b = (torch.randn(512, 512, device="cuda") for _ in "ab")
    x, w = torch.randn(8, 64, 16, 16, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    before = switches()
    for precision, least, most in (("fp32", 0.0, 2e-6), ("tf32", 1e-4, 1e-3)):
        with arithmetic(precision):
            assert least <= error(torch.mm, a, b) <= most
            assert least <= error(torch.nn.functional.conv2d, x, w) <= most
    assert switches() == before


@peers
def test_nothing_is_left_to_do_when_a_run_returns(peer: Rung) -> None:
    net, config = nets.cnn(), TrainConfig(batch_size=64)
    dataset = data(net, np.random.default_rng(0), 64 * 70)
    with build(peer, net, config, start(net)) as trainer:
        trainer.load(dataset)
        trainer.run(Order(0, 0, 64 * 70), 0, 70)
        if peer.name.startswith("jax"):
            assert all(a.is_ready() for a in trainer.params.values())  # type: ignore[attr-defined]
        else:
            import torch

            assert torch.cuda.current_stream().query()
        assert trainer.peak() is not None and trainer.peak() > 1e12  # type: ignore[operator]
