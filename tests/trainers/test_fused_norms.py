"""Nets with BatchNorm and residual connections by the fused kernels: proven, with no launch that only copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
from clockwork import Clockwork

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.device import Device
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import (
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    Net,
    ReLU,
    Residual,
    Sigmoid,
    SiLU,
)
from warpladder.nets.params import initial
from warpladder.ops.activation.fused import IDENTITY
from warpladder.ops.batchnorm import fused
from warpladder.ops.batchnorm.fused import FusedBatchNorm
from warpladder.ops.engine.chain import Slice
from warpladder.ops.engine.kernels import Launches
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables import graph, tensor
from warpladder.optimizers import SGD
from warpladder.proof import verify
from warpladder.trainers.base import State
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise.boundaries import Boundaries
from warpladder.trainers.kernelwise.trainer import KernelTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def conv(channels: int, size: int = 3, stride: int = 1, *, bias: bool = False) -> Conv2d:
    return Conv2d(out_channels=channels, kernel_size=size, padding=size // 2, stride=stride, bias=bias)


#: As it is usually built.
RESNET = Net(
    "resnet", (2, 6, 6),
    (
        conv(3), BatchNorm2d(), ReLU(), Residual(conv(3), BatchNorm2d(), ReLU(), conv(3), BatchNorm2d()), ReLU(),
        Residual(conv(5, stride=2), BatchNorm2d(), ReLU(), conv(5), BatchNorm2d(), projection=[conv(5, 1, 2), BatchNorm2d()]),
        ReLU(), nets.AdaptiveAvgPool2d(1), Flatten(), Linear(out_features=4),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
#: Connections within connections, and ReLUs wherever one would overwrite what another layer still reads.
TANGLED = Net(
    "tangled", (2, 6, 7),
    (
        conv(3, bias=True), Residual(BatchNorm2d(), ReLU(), conv(3, bias=True), ReLU()),
        Residual(ReLU(), conv(5), Residual(BatchNorm2d(affine=False), SiLU()), BatchNorm2d(), ReLU(), projection=True),
        BatchNorm2d(), Residual(Residual(conv(5, 1), BatchNorm2d())), ReLU(), Residual(ReLU(), conv(5, 1, bias=True), ReLU()),
        Flatten(), Linear(out_features=4), BatchNorm1d(), Sigmoid(), Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
TABLE_NET = Net(
    "table", (12,),
    (Linear(out_features=9), BatchNorm1d(), ReLU(), Linear(out_features=33, bias=False), BatchNorm1d(), ReLU(), Linear(out_features=4)),
    CrossEntropyLoss(),
)  # fmt: skip
#: Windows of a pool at odd edges.
POOLED = Net(
    "pooled", (2, 9, 8),
    (
        conv(3, bias=True), BatchNorm2d(), ReLU(), nets.MaxPool2d(2), conv(6), BatchNorm2d(), SiLU(), nets.MaxPool2d(2),
        conv(6), BatchNorm2d(affine=False), nets.AvgPool2d(2), Flatten(), Linear(out_features=4),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
CONFIG = TrainConfig(batch_size=7, optimizer=SGD(0.05, momentum=0.9))
#: Divisions of a channel among blocks: one block, and parts that a second launch adds up.
DIVISIONS: dict[str, Mapping[str, int]] = {
    "alone": {}, "parts": {"MOST": 8, "MOST_ROWS": 4, "PART": 20, "PART_ROWS": 4, "RESIDENT": 99}
}  # fmt: skip


def trainer(table: KernelTable, net: Net, config: TrainConfig, state: State) -> GraphedTrainer:
    return GraphedTrainer(net, config, state, EmulatedDevice(), table)


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(
    "table", [graph.TABLE, pytest.param(tensor.TABLE, marks=pytest.mark.nightly)], ids=["graph", "tensor"]
)
@pytest.mark.parametrize(
    "net",
    [TABLE_NET, *(pytest.param(net, marks=pytest.mark.slow) for net in (RESNET, TANGLED, POOLED))],
    ids=lambda net: net.name,
)  # fmt: skip
@pytest.mark.by_day("table-graph-alone")
@pytest.mark.usefixtures("cases_once")
def test_a_net_is_proven_with_every_division(net: Net, table: KernelTable, division: str) -> None:
    with mock.patch.dict(vars(fused), DIVISIONS[division]):
        verdict = verify(partial(trainer, table), net, CONFIG)
    assert verdict.passed, verdict.reason


class WithoutItsMask(FusedBatchNorm):
    """Passes the gradient on as if no activation followed."""

    def backward(self, part: Slice) -> Launches:
        with mock.patch.object(self, "function", IDENTITY):
            return super().backward(part)


class WithoutTheStored(FusedBatchNorm):
    """Takes the mask of a sum from one of its two summands, and leaves the sum's gradient unmasked."""

    def backward(self, part: Slice) -> Launches:
        with mock.patch.object(self, "adds", False):
            return super().backward(part)


class WithoutTheSecondGradient(FusedBatchNorm):
    """Forgets what the other path of a branch passes back."""

    def backward(self, part: Slice) -> Launches:
        with mock.patch.object(self, "branches", False):
            return super().backward(part)


@pytest.mark.parametrize(
    ("liar", "net"),
    [
        (WithoutItsMask, TABLE_NET),
        *(pytest.param(liar, RESNET, marks=pytest.mark.slow) for liar in (WithoutTheStored, WithoutTheSecondGradient)),
    ],
)
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_fusion_is_caught(liar: type[FusedBatchNorm], net: Net) -> None:
    segments = {nodes: liar if kind is FusedBatchNorm else kind for nodes, kind in graph.TABLE.segments.items()}
    verdict = verify(partial(trainer, replace(graph.TABLE, segments=segments)), net, CONFIG)
    assert not verdict.passed and verdict.judged
    assert verdict.reason.startswith(("update", "slots")), verdict.reason


@pytest.fixture(scope="module")
def device() -> Device:
    """Compiles and computes nothing: these tests look at what is planned."""
    return Clockwork(lambda launch: 1e-5, hardware=None)


def loaded(device: Device, net: Net) -> KernelTrainer:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, *net.in_shape)).astype(np.float32), rng.integers(0, 3, 9).astype(np.int32)
    found = KernelTrainer(net, CONFIG, State(initial(net, 0).astype(np.float32)), device, graph.TABLE, "resident")
    found.load(Dataset("drawn", x, y, x[:1], y[:1]))
    return found


@pytest.mark.parametrize("net", [RESNET, TANGLED, POOLED, TABLE_NET], ids=lambda net: net.name)
@pytest.mark.by_day("resnet", "table")
def test_a_normalisation_is_one_launch_each_way_and_nothing_is_copied(device: Device, net: Net) -> None:
    with loaded(device, net) as trained:
        names = [call.name for call in trained.program(Slice(7, 7))]
        norms = sum(isinstance(layer, nets.NORMALISATIONS) for layer in net.layers)
        for kernels in (("norm_forward", "pool_forward"), ("norm_backward", "pool_backward")):
            assert sum(name.startswith(kernels) for name in names) == norms
        copies = [name for name in names if name.startswith("residual_copy")]
        assert len(copies) <= (net is TANGLED) * 4  # before a ReLU, which masks the gradient in place


@pytest.mark.parametrize("net", [RESNET, TANGLED, POOLED, TABLE_NET], ids=lambda net: net.name)
def test_the_plan_of_memory_is_what_is_taken(device: Device, net: Net) -> None:
    with loaded(device, net) as trained:
        assert trained.chain is not None
        held, planned = trained.memory(), trained.chain.boundaries.sizes(7, train=True)
        planned.pop("input")
        assert held["activations"] + held["gradients"] - 4 * trained.layout.size == sum(planned.values())


def test_what_a_connection_reads_is_not_overwritten(device: Device) -> None:
    """Arrays that several boundaries share, by the layers between them."""
    with loaded(device, TANGLED) as trained:
        assert trained.chain is not None
        found: Boundaries = trained.chain.boundaries
        for number, (part, _) in enumerate(found.cut):
            first = part.layers[0] if part.layers else None
            if isinstance(first, nets.Branch) and len(part.layers) == 1:
                assert found.value_of(number + 1) == found.value_of(number)
                assert not found.in_place(number + 1)
