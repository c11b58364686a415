"""The memory of a trainer of kernels: all of it is accounted for, none of it is held twice, and what predicts alone is
small.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clockwork import Clockwork
from plans import own_plans
from strategies import Case, case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.errors import OutOfMemoryError
from warpladder.nets import Net
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables import gemm, naive, resident, tiled
from warpladder.ops.tables import graph as graphed
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.kernelwise.trainer import KernelTrainer

TABLES = {
    "naive": naive.TABLE,
    "resident": resident.TABLE,
    "tiled": tiled.TABLE,
    "gemm": gemm.TABLE,
    "graph": graphed.TABLE,
}
NETS = (
    nets.softmax((1, 8, 8)),
    nets.mlp((1, 8, 8)),
    nets.mlp10((1, 8, 8)),
    nets.cnn((1, 8, 8)),
    nets.autoencoder((1, 8, 8)),
)


def clockwork(memory: int = 80 << 30) -> Clockwork:
    return Clockwork(lambda launch: 1e-5, hardware=None, memory=memory)


def built(device: Clockwork, drawn: Case, table: KernelTable, feed: str = "resident") -> KernelTrainer:
    if table is graphed.TABLE:
        return GraphedTrainer(drawn.net, drawn.config, drawn.state, device, table)
    return KernelTrainer(drawn.net, drawn.config, drawn.state, device, table, feed)


@pytest.mark.parametrize("feed", ["sync", "streamed", "resident"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_all_that_is_held_is_told(net: Net, table: str, feed: str) -> None:
    if feed != "resident" and table == "graph":
        pytest.skip("a graph's samples are on the device")
    device = clockwork()
    drawn = case(net, TrainConfig(batch_size=4, momentum=0.9), seed=1, samples=30)
    with built(device, drawn, TABLES[table], feed) as trainer:
        for _ in range(2):
            assert sum(trainer.memory().values()) == sum(device.held.values())
            trainer.load(drawn.dataset)
        labels = drawn.dataset.train_y
        trainer.load(
            replace(drawn.dataset, train_x=drawn.dataset.train_x[:9], train_y=None if labels is None else labels[:9])
        )
        assert sum(trainer.memory().values()) == sum(device.held.values())


@pytest.mark.parametrize("table", TABLES)
def test_slices_and_their_sum_are_told_too(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelwise, "SLICE_BYTES", 1 << 14)
    device = clockwork()
    drawn = case(nets.cnn((1, 8, 8)), TrainConfig(batch_size=20), seed=1, samples=30)
    with built(device, drawn, TABLES[table]) as trainer:
        trainer.load(drawn.dataset)
        assert trainer.total is not None
        assert sum(trainer.memory().values()) == sum(device.held.values())


@pytest.mark.parametrize("table", ["naive", "gemm", "graph"])
@pytest.mark.parametrize("net", [nets.mlp(), nets.mlp10(), nets.cnn()], ids=lambda net: net.name)
def test_a_second_data_set_is_loaded_where_there_is_room_for_one(net: Net, table: str) -> None:
    """What was bound for the first is let go before there is asked for room."""
    drawn = case(net, TrainConfig(batch_size=500), seed=1, samples=500)
    roomy = clockwork()
    with built(roomy, drawn, TABLES[table]) as trainer:
        trainer.load(drawn.dataset)
        for part in trainer.parts():
            trainer.program(part)
        need = sum(roomy.held.values())
    device = clockwork(need * 3 // 2)
    with built(device, drawn, TABLES[table]) as trainer:
        for _ in range(3):
            trainer.load(drawn.dataset)
            for part in trainer.parts():
                trainer.program(part)
        assert sum(device.held.values()) == need
    with built(clockwork(need - 1000), drawn, TABLES[table]) as trainer, pytest.raises(OutOfMemoryError):
        trainer.load(drawn.dataset)


@pytest.mark.parametrize("hardware", [None, "Clockwork, compute capability 9.0"], ids=["", "tuned"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_what_is_let_go_is_free_at_once(
    net: Net, table: str, hardware: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for the garbage collector, whose turn takes longer the more a process holds; tuning binds ops
    that nothing keeps.
    """
    own_plans(monkeypatch, tmp_path)
    device = Clockwork(lambda launch: 1e-5, hardware)
    drawn = case(net, TrainConfig(batch_size=4, momentum=0.9), seed=1, samples=30)
    gc.disable()
    try:
        with built(device, drawn, TABLES[table]) as trainer:
            before = dict(device.held)
            trainer.load(drawn.dataset)
            for part in trainer.parts():
                trainer.program(part)
            assert device.held != before
            trainer.close()
            assert device.held == before | dict.fromkeys(device.held.keys() - before.keys(), 0)
    finally:
        gc.enable()


@pytest.mark.parametrize("net", [nets.mlp10(), nets.softmax()], ids=lambda net: net.name)
def test_a_step_in_one_keeps_no_activations(net: Net) -> None:
    """188 MB of samples as floats, for mlp10 on MNIST, were there to predict through."""
    device = clockwork()
    drawn = case(net, TrainConfig(batch_size=None), seed=1, samples=20_000)
    with built(device, drawn, graphed.TABLE) as trainer:
        trainer.load(drawn.dataset)
        assert trainer.chain is not None and trainer.chain.boundaries.is_one_segment
        held = trainer.memory()
        assert held["input"] == held["activations"] == 0
        assert held["gradients"] == trainer.grads.nbytes
        assert (
            sum(held.values()) <= 3 * 20_000 * 785
        )  # as stored, packed, and some numbers of each sample; as floats it would be four times the first


def test_one_step_in_one_predicts_in_parts_what_the_reference_predicts() -> None:
    from warpladder.device.emulator import EmulatedDevice, why_not
    from warpladder.proof.reference import ReferenceTrainer

    if reason := why_not():
        pytest.skip(reason)
    net = nets.mlp10((1, 4, 4))
    drawn = case(net, TrainConfig(batch_size=None), seed=1, samples=600)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    x = drawn.dataset.train_x
    with GraphedTrainer(net, drawn.config, drawn.state, EmulatedDevice(), graphed.TABLE) as trainer:
        trainer.load(drawn.dataset)
        for rows in (600, 256, 257, 1, 0):
            found, wanted = (
                trainer.predict(x[:rows], drawn.dataset.scale),
                reference.predict(x[:rows], drawn.dataset.scale),
            )
            assert found.shape == wanted.shape == (rows, 10)
            assert np.linalg.norm(found - wanted) <= 1e-6 * np.linalg.norm(wanted)
