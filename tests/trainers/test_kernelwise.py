"""Training by launches, on the emulator: buffers, feeds, slices, graphs, and what a trainer refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from compared_steps import bits, clear_of_switches, compare_epoch
from segments_here import boundaries
from strategies import Case, case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.errors import OutOfMemoryError, RungError
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU, params
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables.graph import TABLE as GRAPHED
from warpladder.ops.tables.naive import TABLE
from warpladder.ops.tables.resident import TABLE as FUSED
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.kernelwise.feeds import FEEDS, StreamedFeed
from warpladder.trainers.kernelwise.layout import ALIGN, ParameterLayout
from warpladder.trainers.kernelwise.timeline import Timeline, overlap
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.kernelwise.where import open_device

CONFIG = TrainConfig(batch_size=4, learning_rate=0.05, momentum=0.9, weight_decay=1e-3)
SMALL = nets.cnn((1, 8, 8), classes=4)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    yield open_device("emulated")


def built(
    device: Device, drawn: Case, feed: str = "resident", block_size: int | None = None, table: KernelTable = TABLE
) -> KernelTrainer:  # fmt: skip
    trainer = KernelTrainer(drawn.net, drawn.config, drawn.state, device, table, feed, block_size)
    trainer.load(drawn.dataset)
    return trainer


def after(trainer: KernelTrainer, drawn: Case, epochs: int = 2) -> bytes:
    out = b""
    with trainer:
        for epoch in range(epochs):
            order = type(drawn.order)(drawn.order.seed, epoch, drawn.order.n, drawn.order.shuffle)
            log = trainer.run(order, 0, drawn.config.steps(order.n))
            out += log.loss.tobytes() + log.correct.tobytes() + log.size.tobytes()
        return out + bits(trainer.state())


def test_every_tensor_starts_on_a_boundary_and_comes_back_as_it_went(device: Device) -> None:
    layout = ParameterLayout(SMALL)
    assert all(start % ALIGN == 0 for start in layout.starts) and layout.size % ALIGN == 0
    host = np.random.default_rng(0).normal(size=SMALL.param_count).astype(np.float32)
    flat = layout.zeros(device, "parameters")
    layout.upload(flat, host)
    assert layout.download(flat).tobytes() == host.tobytes()
    for name, view in layout.views(flat).items():
        assert np.array_equal(view.download(), params.views(SMALL, host)[name])
    wide = flat.download()
    assert np.count_nonzero(wide) == np.count_nonzero(host)  # nothing but zeros between


def test_relu_writes_over_its_input_but_never_over_the_nets(device: Device) -> None:
    net = Net("relu first", (6,), (ReLU(), Linear(out_features=5), ReLU(), Linear(out_features=6)), nets.MSELoss())
    for gathers in (False, True):
        cut = boundaries(net, TABLE, device, gathers=gathers)
        alone = {number: part.numbers for number, (part, _) in enumerate(cut.cut) if cut.in_place(number)}
        assert alone == {2 + gathers: (2,)}


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("table", [TABLE, GRAPHED], ids=["naive", "graphed"])
@pytest.mark.by_day("naive-")
def test_the_plan_of_memory_is_what_is_taken(device: Device, table: KernelTable, feed: str) -> None:
    """All but the segments' scratch memory, which depends on the kernels."""
    for net in (SMALL, nets.autoencoder((1, 8, 8)), nets.mlp((1, 4, 4)), nets.mlp10((1, 4, 4))):
        with built(device, case(net, CONFIG, seed=1, samples=9), feed, table=table) as trainer:
            held = trainer.memory()
            assert trainer.chain is not None
            planned = trainer.chain.boundaries.sizes(4, train=True)
            labels = 0 if trainer.chain.arrays.labels is None else 4 * 4
            assert held["input"] == planned.pop("input", 0) + labels
            flat = 4 * trainer.layout.size
            assert held["activations"] + held["gradients"] - flat == sum(planned.values())


@pytest.mark.parametrize("net", [SMALL, nets.autoencoder((1, 4, 4)), nets.mlp10((1, 4, 4))], ids=lambda net: net.name)
@pytest.mark.by_day("cnn", "mlp10")
def test_the_feeds_give_the_same_bits(device: Device, net: Net) -> None:
    for as_bytes in (True, False):
        drawn = case(net, CONFIG, seed=1, samples=11, as_bytes=as_bytes)
        assert len({after(built(device, drawn, feed), drawn) for feed in FEEDS}) == 1


def test_another_block_size_gives_nearly_the_same(device: Device) -> None:
    drawn = case(SMALL, CONFIG, seed=1, samples=11)
    with built(device, drawn) as one, built(device, drawn, block_size=96) as other:
        for trainer in (one, other):
            trainer.run(drawn.order, 0, 3)
        assert np.allclose(one.state().params, other.state().params, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("net", [SMALL, nets.autoencoder((1, 4, 4))], ids=lambda net: net.name)
@pytest.mark.by_day("cnn")
def test_batches_larger_than_the_buffers(net: Net, feed: str, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch in slices, the last one partial, is still one step with the whole batch's mean."""
    monkeypatch.setattr(
        kernelwise, "SLICE_BYTES", 2 * sum(boundaries(net, FUSED, device).sizes(1, train=True).values())
    )
    config = TrainConfig(batch_size=5, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2, clip_value=1.0)
    drawn = clear_of_switches(net, config, samples=8)

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return KernelTrainer(net, config, state, device, FUSED, feed)

    with build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and trainer.chain is not None
        assert trainer.chain.capacity == 2
    assert compare_epoch(Rung("sliced", "", "", build), drawn) == 2


def test_graphs_of_any_number_of_steps_give_the_bits_of_single_steps(device: Device) -> None:
    drawn = case(SMALL, CONFIG, seed=1, samples=43)
    wanted = after(built(device, drawn), drawn)
    for cuts in ((0, 11), (0, 1, 2, 11), (0, 7, 10, 11)):
        trainer = GraphedTrainer(drawn.net, drawn.config, drawn.state, device, TABLE)
        trainer.load(drawn.dataset)
        out = b""
        with trainer:
            for epoch in range(2):
                order = type(drawn.order)(drawn.order.seed, epoch, 43, True)
                logs = [trainer.run(order, first, last) for first, last in pairwise(cuts)]
                out += b"".join(
                    np.concatenate([getattr(log, what) for log in logs]).tobytes()
                    for what in ("loss", "correct", "size")
                )
            assert out + bits(trainer.state()) == wanted
            assert {count & (count - 1) for _, count in trainer.graphs} == {0}


def test_a_graph_replays_only_what_is_on_the_device() -> None:
    with pytest.raises(RungError, match="has no option 'feed': it has device, block_size"):
        find("graph", feed="streamed")


def test_a_timeline_has_a_copy_and_a_computation_of_every_step(device: Device) -> None:
    drawn = case(SMALL, CONFIG, seed=1, samples=18)
    with built(device, drawn, "streamed") as trainer:
        assert isinstance(trainer.feed, StreamedFeed)
        watch = Timeline(trainer.feed)
        trainer.run(drawn.order, 0, 5)
        spans = watch.spans()
        watch.close()
        assert sorted((span.what, span.step) for span in spans) == [
            (what, step) for what in ("compute", "copy") for step in range(5)
        ]
        assert all(span.end >= span.begin >= 0 for span in spans)
        assert 0 <= overlap(spans) <= 1
        trainer.run(drawn.order, 0, 5)
        assert len(watch.events) == 4 * 5  # it listens no more


def test_too_little_memory_is_predicted_and_told_by_buffer(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(nets.cnn(), CONFIG, seed=1, samples=9)
    trainer = KernelTrainer(drawn.net, drawn.config, drawn.state, device, TABLE, "resident")
    with monkeypatch.context() as patch:
        patch.setattr(type(device), "free_memory", lambda self: 100_000)
        with pytest.raises(
            OutOfMemoryError, match=r"0\.1 MB of memory free.*layer 2 .Conv2d. 0\.3 MB.*A smaller batch needs less"
        ):
            trainer.load(drawn.dataset)
    trainer.load(drawn.dataset)  # and it goes on
    assert np.isfinite(trainer.run(drawn.order, 0, 3).loss).all()
    trainer.close()


def test_the_block_size_and_the_feed_are_the_users(device: Device) -> None:
    drawn = case(SMALL, CONFIG, seed=1, samples=9)
    with find("resident", block_size=64, feed="sync", device="emulated").build(
        drawn.net, drawn.config, drawn.state
    ) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and isinstance(trainer.feed, FEEDS["sync"])
        assert trainer.block_size == 64


def test_labels_beyond_the_batch_do_not_matter(device: Device) -> None:
    """A net whose batch is one sample, and a data set of one."""
    net = Net("one", (1, 3, 3), (Flatten(), Linear(out_features=3)), CrossEntropyLoss())
    drawn = case(net, CONFIG.but(batch_size=1), seed=1, samples=1)
    with built(device, drawn, "sync") as trainer:
        log = trainer.run(drawn.order, 0, 1)
        assert log.size.tolist() == [1] and np.isfinite(log.loss).all()
