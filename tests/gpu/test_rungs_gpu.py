"""The GPU rungs on a GPU: proven on the five nets at full size, and the same bits a hundred times over."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import gpu
from warpladder.ladder import LADDER, find
from warpladder.nets import ZOO, Conv2d, Net
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.optimizers.schedules import Constant, Cosine, Schedule, StepDecay
from warpladder.proof import verify
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

GPU_RUNGS = [rung for rung in LADDER if rung.name in ("cupy", "library") or rung.has("device")]
rungs = pytest.mark.parametrize("rung", GPU_RUNGS, ids=lambda rung: rung.name)
ALL = [make() for make in ZOO]


#: Rungs that have kernels for linear layers alone.
LINEAR = ("tensor",)


def of(nets: list[Net]) -> pytest.MarkDecorator:
    """Each GPU rung with each of these nets that it has kernels for."""
    convolves = {net.name: any(isinstance(layer, Conv2d) for layer in net.layers) for net in nets}
    pairs = [(rung, net) for rung in GPU_RUNGS for net in nets if not (rung.name in LINEAR and convolves[net.name])]
    return pytest.mark.parametrize(("rung", "net"), pairs, ids=lambda each: each.name)


@of(ALL)
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_proven_at_full_size(rung: Rung, net: Net, batch: int) -> None:
    """The proof's cases hold a partial last batch and a remainder of one."""
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch))
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


@rungs
def test_proven_on_full_batches(rung: Rung) -> None:
    verdict = verify(rung.build, nets.mlp10(), TrainConfig(batch_size=None))
    assert verdict.passed, verdict.reason


@of(ALL[:-1])
@pytest.mark.parametrize(
    ("optimizer", "schedule"), [(Adam(1e-3, weight_decay=1e-2), Constant()), (AdamW(1e-3), Cosine(warmup=1)), (SGD(0.05, momentum=0.9), StepDecay(every=1))],
    ids=["Adam", "AdamW and a cosine", "SGD and steps"],
)  # fmt: skip
@pytest.mark.parametrize("batch", [7, None])
def test_proven_with_every_optimizer(
    rung: Rung, net: Net, optimizer: Optimizer, schedule: Schedule, batch: int | None
) -> None:
    verdict = verify(rung.build, net, TrainConfig(batch_size=batch, optimizer=optimizer, schedule=schedule))
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


@pytest.mark.parametrize("size", [32, 96, 256, 1024])
@pytest.mark.parametrize("net", [nets.mlp(), nets.cnn()], ids=lambda net: net.name)
def test_proven_at_every_block_size(net: Net, size: int) -> None:
    verdict = verify(find("naive", block_size=size).build, net, TrainConfig(batch_size=64))
    assert verdict.passed, verdict.reason


@of(ALL)
def test_what_is_closed_is_free_without_the_garbage_collector(rung: Rung, net: Net) -> None:
    drawn = case(net, TrainConfig(batch_size=7), seed=1, samples=17)
    with rung.build(
        net, drawn.config, drawn.state
    ) as first:  # a library's first use leaves garbage that knows who asked for it
        first.load(drawn.dataset)
        first.run(drawn.order, 0, 3)
    gc.collect()
    gc.disable()
    try:
        with rung.build(net, drawn.config, drawn.state) as trainer:
            if not isinstance(trainer, KernelTrainer):
                pytest.skip("it computes with arrays, whose memory has a pool")
            before = sum(trainer.device.held.values())
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 3)
            assert sum(trainer.device.held.values()) > before
            trainer.close()
            assert sum(trainer.device.held.values()) == before
    finally:
        gc.enable()


@of(ALL)
def test_a_hundred_runs_give_the_same_bits(rung: Rung, net: Net) -> None:
    config = TrainConfig(batch_size=7, learning_rate=0.01, momentum=0.9)
    drawn = case(net, config, seed=1, samples=17)
    seen = set()
    with rung.build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        for _ in range(100):
            trainer.set_state(drawn.state)
            log = trainer.run(drawn.order, 0, 3)
            assert np.isfinite(log.loss).all()
            state = trainer.state()
            seen.add(state.bits() + log.loss.tobytes() + log.correct.tobytes())
    assert len(seen) == 1


def test_the_cuda_rungs_that_share_kernels_share_bits() -> None:
    """Only the way that samples travel differs between naive and streamed."""
    config = TrainConfig(batch_size=16, learning_rate=0.05)
    drawn = case(nets.cnn(), config, seed=2, samples=50)
    ends = []
    for name in ("naive", "streamed"):
        with find(name).build(drawn.net, config, drawn.state) as trainer:
            trainer.load(drawn.dataset)
            for epoch in range(3):
                trainer.run(Order(0, epoch, 50), 0, 4)
            ends.append(trainer.state().params.tobytes())
    assert ends[0] == ends[1]


def test_block_size_1024_trains() -> None:
    """S1's program stayed at a loss of ln(10) there, because its summed gradients diverged."""
    config = TrainConfig(batch_size=64, learning_rate=0.05)
    rng = np.random.default_rng(0)
    drawn = case(nets.cnn(), config, seed=3, samples=512)
    labels = rng.integers(0, 10, 512).astype(drawn.dataset.train_y.dtype)  # type: ignore[union-attr]
    images = rng.integers(0, 30, (512, 1, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[0, 2 * label : 2 * label + 3] += 200  # a stripe that says the digit
    data = drawn.dataset.but(train_x=images, train_y=labels, scale=1 / 255)
    with find("naive", block_size=1024).build(drawn.net, config, State(drawn.state.params)) as trainer:
        trainer.load(data)
        losses = [trainer.run(Order(0, epoch, 512), 0, 8).loss.mean() for epoch in range(6)]
    assert losses[-1] < 0.5, losses
