"""Kernels that do not do their work, as those of S1 did, are caught by the proof: on the emulator, and on a GPU where
there is one.

Every kernel of a training step is made to lie in turn: it is never sent, it is sent with too few blocks, or only the
first time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clockwork import Clockwork
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Device, Kernel, Launch, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.errors import LaunchError
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU
from warpladder.ops.engine.chain import whole
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables.naive import TABLE as NAIVE
from warpladder.ops.tables.resident import TABLE as FUSED
from warpladder.proof import verify
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

Change = Callable[[Kernel, Callable[..., Launch], tuple[Any, ...], dict[str, Any]], Launch]

DEVICES: list[type[Device]] = [EmulatedDevice, *([gpu.GpuDevice] if gpu.why_not() is None else [])]

#: Small enough to be proven often, large enough that each kernel has several blocks of 32 threads.
NET = Net(
    "small",
    (1, 10, 10),
    (
        Conv2d(out_channels=5, kernel_size=3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Conv2d(out_channels=6, kernel_size=2),
        ReLU(),
        Flatten(),
        Linear(out_features=40),
        ReLU(),
        Linear(out_features=5),
    ),
    CrossEntropyLoss(),
)
CONFIG = TrainConfig(batch_size=12)
BLOCK = 32  # threads
STEP = whole(12)


class Once(Launch):
    """Does its work the first time only: what it wrote then is what everybody reads ever after."""

    def __init__(self, honest: Launch) -> None:
        super().__init__(honest.kernel, honest.config)
        self.honest, self.sent = honest, False

    def send(self, stream: Any = None) -> None:
        if not self.sent:
            self.honest.send(stream)
        self.sent = True


class Never(Once):
    """Fails and tells nobody."""

    def send(self, stream: Any = None) -> None:
        pass


def never_sent(kernel: Kernel, bind: Callable[..., Launch], arguments: tuple[Any, ...], more: dict[str, Any]) -> Launch:
    return Never(bind(*arguments, **more))


def sent_once(kernel: Kernel, bind: Callable[..., Launch], arguments: tuple[Any, ...], more: dict[str, Any]) -> Launch:
    return Once(bind(*arguments, **more))


def without_the_last_block(
    kernel: Kernel, bind: Callable[..., Launch], arguments: tuple[Any, ...], more: dict[str, Any]
) -> Launch:
    grid, *rest = arguments
    x, *others = (grid,) if isinstance(grid, int) else grid
    return bind((max(1, x - 1), *others), *rest, **more)


def of_one_block(
    kernel: Kernel, bind: Callable[..., Launch], arguments: tuple[Any, ...], more: dict[str, Any]
) -> Launch:
    """S1 started 256 threads for 640 logits."""
    return bind(1, *arguments[1:], **more)


def lying(honest: type[Device], victim: str, change: Change) -> Device:
    """A device on which one kernel lies."""

    class Liar(honest):  # type: ignore[misc, valid-type]
        def kernel(self, path: Path | str, name: str) -> Kernel:
            found = super().kernel(path, name)
            if name == victim:
                bind = type(found).bind.__get__(found)
                found.bind = lambda *arguments, **more: change(found, bind, arguments, more)
            return found

    return Liar()


def build_on(device: Device, table: KernelTable) -> Callable[[Net, TrainConfig, State], Trainer]:
    return lambda net, config, state: KernelTrainer(net, config, state, device, table, "resident", BLOCK)


def idle() -> Device:
    """As large as the emulator, but nothing is compiled for it: tests are collected with what a step launches."""
    return Clockwork(lambda launch: 0.0, hardware=None, multiprocessors=1)


def launched(table: KernelTable) -> dict[str, list[Launch]]:
    """The kernels of a step, and how each is launched."""
    drawn = case(NET, CONFIG, seed=1, samples=12)
    out: dict[str, list[Launch]] = {}
    with KernelTrainer(NET, CONFIG, drawn.state, idle(), table, "resident", BLOCK) as trainer:
        trainer.load(drawn.dataset)
        for launch in trainer.program(STEP):
            assert isinstance(launch, Launch)
            out.setdefault(launch.name, []).append(launch)
    return out


KERNELS = [(table, name, launches) for table in (NAIVE, FUSED) for name, launches in launched(table).items()]


def several_blocks(launches: list[Launch]) -> bool:
    return any(math.prod(launch.grid) > 1 for launch in launches)


LIES = [
    pytest.param(table, name, change, id=f"{'fused' if table is FUSED else 'naive'}-{name}-{change.__name__}")
    for table, name, launches in KERNELS
    if table is NAIVE or "cross_entropy" in name
    for change in (never_sent, sent_once, without_the_last_block, of_one_block)
    if change in (never_sent, sent_once) or several_blocks(launches)
]


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.__name__)
@pytest.mark.parametrize(("table", "kernel", "change"), LIES)
@pytest.mark.usefixtures("cases_once")
def test_a_kernel_that_lies_is_caught(device: type[Device], table: KernelTable, kernel: str, change: Change) -> None:
    verdict = verify(build_on(lying(device, kernel, change), table), NET, CONFIG)
    assert not verdict.passed
    assert not verdict.error <= verdict.bound


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.__name__)
@pytest.mark.parametrize("table", [NAIVE, FUSED], ids=["naive", "fused"])
@pytest.mark.usefixtures("cases_once")
def test_the_honest_kernels_pass(device: type[Device], table: KernelTable) -> None:
    verdict = verify(build_on(device(), table), NET, CONFIG)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.__name__)
def test_a_launch_that_cannot_be_is_refused_before_it_is_sent(device: type[Device]) -> None:
    """S1's optimized program asked for 16 x 16 x 16 threads a block; the launch failed, nobody asked, and a layer was
    never trained.
    """

    def too_many(
        kernel: Kernel, bind: Callable[..., Launch], arguments: tuple[Any, ...], more: dict[str, Any]
    ) -> Launch:
        return bind(arguments[0], (16, 16, 16), *arguments[2:], **more)

    liar = lying(device, "conv2d_input_gradient", too_many)
    drawn = case(NET, CONFIG, seed=1, samples=12)
    trainer = KernelTrainer(NET, CONFIG, drawn.state, liar, NAIVE, "resident", BLOCK)
    with (
        trainer,
        pytest.raises(
            LaunchError, match=r"conv2d_input_gradient.*4,096 threads a block.*1,024.*grid .*block .16, 16, 16."
        ),
    ):
        trainer.load(drawn.dataset)  # which binds every launch of an epoch
    assert not verify(build_on(liar, NAIVE), NET, CONFIG).passed


def test_every_net_of_the_zoo_is_covered_by_these_kernels() -> None:
    """What the small net does not use is proven on the zoo in test_verify."""
    drawn = case(nets.autoencoder((3, 8, 8)), CONFIG, seed=1, samples=12)
    with KernelTrainer(drawn.net, CONFIG, drawn.state, idle(), NAIVE, "resident", BLOCK) as trainer:
        trainer.load(drawn.dataset)
        others = {launch.name for launch in trainer.program(STEP)} - {name for _, name, _ in KERNELS}
    assert all(name.startswith(("upsample2d", "mse")) for name in others), others
