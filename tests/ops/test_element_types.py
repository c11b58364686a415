"""What stands between two segments may be of another element type than float32: carried by the cut, allocated, counted,
and proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import doubles
import numpy as np
import pytest
from segments_here import between, kinds
from strategies import case
from test_steps import bits

from warpladder.config import TrainConfig
from warpladder.device import Device, Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import RungError
from warpladder.nets import CrossEntropyLoss, Linear, Net, ReLU
from warpladder.ops.engine.chain import Slice, chain
from warpladder.ops.engine.kernels import Launches
from warpladder.ops.engine.segments import KernelTable, Segment
from warpladder.ops.tables import naive
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import trainer as kernelwise
from warpladder.trainers.kernelwise.trainer import KernelTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CONFIG = TrainConfig(batch_size=4, learning_rate=0.05, momentum=0.9, weight_decay=1e-3)
NET = Net(
    "two types", (7,), (Linear(out_features=6), ReLU(), Linear(out_features=8), ReLU(), Linear(out_features=3)), CrossEntropyLoss()
)  # fmt: skip


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    device = EmulatedDevice()
    yield device
    device.close()


def types(table: KernelTable, net: Net) -> list[str]:
    """What enters each segment."""
    nodes = chain(net, 4, 4, Limits("any"), CONFIG, gathers=True)
    return [part.x_type for part, _ in table.cut_net(nodes, net)]


def test_the_cut_carries_the_type_from_segment_to_segment() -> None:
    wide, plain = "float64", "float32"
    assert types(doubles.TABLE, NET) == [plain, plain, wide, plain, wide, plain, plain]
    assert types(naive.TABLE, NET) == [plain] * 7


def test_a_segment_that_cannot_read_what_comes_is_named() -> None:
    def of(*layers: Linear | ReLU) -> Net:
        return Net("refused", (7,), layers, CrossEntropyLoss())

    for layers, said in (
        ((Linear(out_features=6), Linear(out_features=3)), r"Linear \(layer 1 of net 'refused'\)"),
        ((Linear(out_features=3), ReLU(), Linear(out_features=3)), r"ReLU \(layer 1 of net 'refused'\)"),
        ((Linear(out_features=6),), r"CrossEntropyLoss \(net 'refused'\)"),
    ):
        with pytest.raises(RungError, match=f"nothing for {said}"):
            types(doubles.TABLE, of(*layers))


def test_a_dearer_way_is_taken_where_the_cheaper_one_leaves_a_type_that_nobody_reads() -> None:
    class Cheap(Segment):
        """Both layers at once, as float64."""

        cost = 1

        @classmethod
        def stores(cls, subgraph: object) -> str:
            return "float64"

        def forward(self, part: Slice) -> Launches:
            return []

    class Reader(Cheap):
        """Linear of either type, as float32."""

        cost = 4
        reads = ("float32", "float64")

        @classmethod
        def stores(cls, subgraph: object) -> str:
            return "float32"

    table = replace(naive.TABLE, segments={**naive.TABLE.segments, (Linear, ReLU): Cheap})
    assert types(table, NET) == ["float32"] * 7
    table = replace(table, segments={**table.segments, (Linear,): Reader})
    assert types(table, NET) == [
        "float32",
        "float32",
        "float64",
        *["float32"] * 3,
    ]  # once: between two of them somebody has to turn it back


@pytest.mark.parametrize("net", [NET, replace(NET, layers=NET.layers[2:])], ids=["five layers", "three"])
def test_arrays_and_their_gradients_are_of_the_type_and_their_bytes_are_counted(device: Device, net: Net) -> None:
    with KernelTrainer(net, CONFIG, case(net, CONFIG, 1, 9).state, device, doubles.TABLE, "resident") as trainer:
        trainer.load(case(net, CONFIG, seed=1, samples=9).dataset)
        assert trainer.chain is not None
        arrays, cut = trainer.chain.arrays, trainer.chain.between
        for place in cut.places:
            wanted = np.dtype(cut.cut[place][0].x_type)
            assert arrays.values[place].dtype == wanted == cut.type(place)
            assert place not in arrays.gradients or arrays.gradients[place].dtype == wanted
        double = [place for place in cut.places if cut.type(place) == np.float64]
        assert len(double) == len(net.layers) // 2 and all(place in arrays.gradients for place in double)
        planned, held = cut.sizes(4, train=True), trainer.memory()
        planned.pop("input")
        assert held["activations"] + held["gradients"] - trainer.grads.nbytes == sum(planned.values())
        distinct = {
            a.address: a.nbytes
            for a in (*arrays.values.values(), *arrays.gradients.values())
            if a.address != arrays.x.address
        }  # type: ignore[union-attr]
        assert sum(distinct.values()) == sum(planned.values())
        assert (
            planned["output of layer 0 (Linear)"] == planned["gradient of layer 0 (Linear)"] == 8 * 4 * net.shapes[1][0]
        )
        assert (
            planned["output of layer 1 (ReLU)"] == 4 * 4 * net.shapes[2][0]
        )  # no room of its input's, which is of another type


@pytest.mark.parametrize("trainer", [KernelTrainer, GraphedTrainer], ids=["launches", "graphs"])
def test_it_is_proven(device: Device, trainer: type[KernelTrainer]) -> None:
    def build(net: Net, config: TrainConfig, state: State) -> KernelTrainer:
        if trainer is GraphedTrainer:
            return GraphedTrainer(net, config, state, device, doubles.TABLE)
        return KernelTrainer(net, config, state, device, doubles.TABLE, "resident")

    verdict = verify(build, NET, CONFIG)
    assert verdict.passed, verdict.reason
    assert verdict.error <= verdict.bound


def test_slices_give_what_the_whole_batch_gives(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(NET, CONFIG.but(batch_size=6), seed=1, samples=12)
    found = []
    for limit in (1 << 30, 3 * sum(between(NET, doubles.TABLE, device).sizes(1, train=True).values())):
        monkeypatch.setattr(kernelwise, "SLICE_BYTES", limit)
        with KernelTrainer(NET, drawn.config, drawn.state, device, doubles.TABLE, "resident") as trainer:
            trainer.load(drawn.dataset)
            assert doubles.LinearToDoubles in kinds(trainer) and trainer.capacity == (6 if limit == 1 << 30 else 3)
            trainer.run(drawn.order, 0, 2)
            found.append(trainer.state().params)
    assert not np.array_equal(found[0], drawn.state.params)
    assert np.allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_the_same_bits_every_time_and_the_checker_is_silent(device: Device) -> None:
    drawn = case(NET, CONFIG, seed=1, samples=9)
    found = set()
    for on in (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3)):
        with KernelTrainer(NET, CONFIG, drawn.state, on, doubles.TABLE, "resident") as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 3)
            found.add(bits(trainer.state()) + trainer.predict(drawn.dataset.train_x, drawn.dataset.scale).tobytes())
    assert len(found) == 1
    with KernelTrainer(NET, CONFIG, drawn.state, EmulatedDevice(mode="check"), doubles.TABLE, "sync") as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 3)  # raises at the first report
