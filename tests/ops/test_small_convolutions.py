"""First convolutions by samples on the emulator: steps against the reference, bits, faults, and where they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from compared_steps import bits, clear_of_switches, compare_epoch
from emulated_h200 import device, idle
from segments_here import kinds
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.device.emulator import why_not
from warpladder.device.source import KernelSource
from warpladder.nets import (
    GELU,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Layer,
    LeakyReLU,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Sigmoid,
    Tanh,
)
from warpladder.ops.conv2d.gemm import GemmConv2d
from warpladder.ops.gather.wide import WideGather
from warpladder.ops.small_convolutions import chain, plan
from warpladder.ops.small_convolutions.chain import SmallConvolutions
from warpladder.ops.tables.graph import TABLE
from warpladder.optimizers import Adam, RMSprop
from warpladder.optimizers.schedules import Cosine
from warpladder.proof import verify
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)


def conv(outputs: int, k: int, padding: int = 0, stride: int = 1, bias: bool = True) -> Conv2d:
    return Conv2d(out_channels=outputs, kernel_size=k, padding=padding, stride=stride, bias=bias)


def net(name: str, shape: tuple[int, ...], *layers: Layer) -> Net:
    return Net(name, shape, (*layers, Flatten(), Linear(out_features=4)), CrossEntropyLoss())


R, P = ReLU(), MaxPool2d(2)
#: Padding, strides, windows that images do not fill, pools before and after activations, and layers without a bias.
LENET = net("pools", (1, 12, 12), conv(3, 5, 2), R, P, conv(5, 3), R, P)
STRIDES = net("strides", (2, 9, 11), conv(5, 3, 1, bias=False), Tanh(), conv(6, 3, 2, 2), LeakyReLU(), P)
LATE = net("late", (3, 10, 9), conv(4, 3, 1), MaxPool2d(3), R, conv(3, 2), Sigmoid())
FOUR = net("four", (1, 12, 13), conv(3, 3, 1), R, conv(5, 3, 1, 2), conv(4, 3, 1), R, P, conv(3, 2, 1), Tanh())
SGD_CONFIG = TrainConfig(batch_size=7, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2)
ADAM_CONFIG = TrainConfig(batch_size=7, optimizer=Adam(learning_rate=1e-5))
RMS_CONFIG = TrainConfig(batch_size=7, optimizer=RMSprop(learning_rate=1e-5))
#: Blocks have several samples.
NARROW = device(multiprocessors=1)


@pytest.fixture(autouse=True)
def _always_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets so small that kernels of a layer each could be faster are computed too."""
    monkeypatch.setattr(chain, "planned", lambda stages, n, limits: plan.fitting(stages, limits))


def build(on: Device, net: Net, config: TrainConfig, state: State) -> Trainer:
    return KernelTrainer(net, config, state, on, TABLE, "resident")


@pytest.mark.parametrize(
    ("of", "config"), [(LENET, SGD_CONFIG), (STRIDES, ADAM_CONFIG), (LATE, RMS_CONFIG), (FOUR, SGD_CONFIG)],
    ids=["pools", "strides", "late", "four"],
)  # fmt: skip
def test_steps(of: Net, config: TrainConfig) -> None:
    drawn = clear_of_switches(of, config, samples=16)  # two batches and two samples
    assert compare_epoch(Rung("front", "", "", lambda *run: build(NARROW, *run)), drawn) > 0
    with build(NARROW, of, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer)[0] is SmallConvolutions


def test_images_that_a_net_reproduces() -> None:
    """The loss reads the scaled samples that the first launch stores."""
    of = Net("itself", (1, 4, 4), (conv(3, 3, 1), R, Flatten(), Linear(out_features=16)), MSELoss())
    drawn = clear_of_switches(of, SGD_CONFIG, samples=16)
    assert compare_epoch(Rung("front", "", "", lambda *run: build(NARROW, *run)), drawn) > 0


@pytest.mark.pairs
@pytest.mark.parametrize("of", [LENET, STRIDES, LATE, FOUR], ids=lambda of: of.name)
def test_proofs(of: Net) -> None:
    found = verify(lambda *run: build(device(), *run), of, TrainConfig(batch_size=7, learning_rate=0.05, momentum=0.9))
    assert found.passed, found.reason


#: What a kernel's text has, and what it has instead.
FAULTS = {
    "a sample of each block is left out": ("i < n; i += gridDim.x", "i < n - 1; i += gridDim.x"),
    "a block has the sample of another": ("first + i))", "first + i / 2))"),
    "a part of a weight's sum is lost": ("split < SPLITS; ++split) sum", "split < SPLITS - 1; ++split) sum"),
    "the filters are not reversed": ("K * K - 1 - tap", "tap"),
    "a pool's gradient goes to its first pixel": ("k == place ? g", "k == 0 ? g"),
    "the last columns of pixels are left out": ("if constexpr (REST > 0)", "if constexpr (REST > 4)"),
    "the last block is not added": ("row < many &&", "row < many - 1 &&"),
    "the gradient passes a ReLU": ("g = z > 0.0f ? g : 0.0f", "g = z > -1.0f ? g : 0.0f"),
    "biases are those of the next channel": ("sum += b[o]", "sum += b[(o + 1) % O]"),
    "the step is that of the epoch's first": ("numbers[8LL * now", "numbers[8LL * 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault in the kernels or in convolutions.cuh changes a step beyond its bounds."""
    folder = Path(chain.__file__).parent
    headers = folder / "convolutions.cuh", folder.parents[1] / "device" / "include" / "finish_sum.cuh"
    planted: set[str] = set()

    def faulty(make: Callable[..., KernelSource], *arguments: object) -> KernelSource:
        source = make(*arguments)
        text = source.text
        for header in headers:
            text = text.replace(f'#include "{header.name}"', header.read_text(encoding="utf-8"))
        if FAULTS[fault][0] in text:
            planted.add(fault)
        return replace(source, text=text.replace(*FAULTS[fault]))

    for name in ("forward_source", "backward_source", "finish_source"):
        monkeypatch.setattr(chain, name, partial(faulty, getattr(chain, name)))
    of, config = LENET, ADAM_CONFIG.but(schedule=Cosine()) if "step" in fault else SGD_CONFIG
    of = STRIDES if "columns" in fault else of
    drawn = clear_of_switches(of, config, samples=16)
    with pytest.raises(AssertionError):
        compare_epoch(Rung("front", "", "", lambda *run: build(NARROW, *run)), drawn)
    assert planted


def test_every_order_of_threads_gives_the_same_bits_and_the_checker_is_silent() -> None:
    for of in (LENET, STRIDES):
        drawn, found = case(of, ADAM_CONFIG, seed=2, samples=17), set()
        for mode, order in (("fast", "forward"), ("fast", "reverse"), ("fast", "random"), ("check", "forward")):
            with build(device(mode, order, multiprocessors=1), of, ADAM_CONFIG, drawn.state) as trainer:
                trainer.load(drawn.dataset)
                trainer.run(Order(2, 0, 17), 0, 3)  # in check mode it raises at the first report
                if mode == "fast":
                    found.add(bits(trainer.state()))
        assert len(found) == 1


def test_where_there_are_none() -> None:
    """Layers between that a stage does not have, a negative slope, large windows and nets beyond shared memory."""
    for of in (
        net("large window", (1, 12, 12), conv(3, 9), R),
        net("slope", (1, 8, 8), conv(3, 3), LeakyReLU(-0.5), conv(3, 3)),
        net("dropout", (1, 8, 8), conv(3, 3), Dropout(0.5), conv(3, 3)),
        net("GELU", (1, 8, 8), conv(3, 3), GELU(), conv(3, 3)),
        net("wide", (3, 32, 32), conv(64, 3, 1), R, conv(64, 3, 1), R),
        net("border", (1, 6, 6), conv(3, 3), conv(3, 2, 2)),
    ):
        assert fronts(of)[1] > 0
    assert fronts(LENET)[1] == 0


def fronts(of: Net) -> tuple[list[type], int]:
    """Segments of a net, and how many of its convolutions no SmallConvolutions computes."""
    drawn = case(of, SGD_CONFIG, seed=1, samples=8)
    with build(idle(multiprocessors=1), of, SGD_CONFIG, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and trainer.chain is not None
        left = [each for each in trainer.chain.segments if not isinstance(each, SmallConvolutions)]
        return kinds(trainer), sum(isinstance(layer, Conv2d) for each in left for layer in each.layers)


def test_one_convolution_of_few_products_has_kernels_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    drawn = case(nets.cnn(), SGD_CONFIG, seed=1, samples=64)
    with build(idle(), drawn.net, TrainConfig(batch_size=64), drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert isinstance(trainer, KernelTrainer) and kinds(trainer)[:2] == [WideGather, GemmConv2d]
