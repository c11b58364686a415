"""The library rung without the libraries: how it is chosen, what it asks of them, and what it says where they are
missing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from kernel_layers import layer_cases
from kernel_losses import LOSSES
from stand_in import libraries
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Device, Launch
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.emulator.toolchain import why_not as why_not_emulated
from warpladder.device.gpu import library as gpu_library
from warpladder.errors import DeviceError
from warpladder.nets import Conv2d, CrossEntropyLoss, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.conv2d.library import LibraryConv2d
from warpladder.ops.cross_entropy.library import LibraryCrossEntropy
from warpladder.ops.engine.chain import Gather, whole
from warpladder.ops.linear.library import LibraryLinear
from warpladder.ops.tables import library, resident
from warpladder.proof import verify
from warpladder.rungs.library import OPERATIONS, RUNG
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise import where
from warpladder.trainers.kernelwise.trainer import KernelTrainer

emulated = pytest.mark.skipif(why_not_emulated() is not None, reason=str(why_not_emulated()))


@pytest.fixture
def device() -> Iterable[Device]:
    device = EmulatedDevice()
    with libraries(device):
        yield device


def test_all_operations_are_the_libraries_unless_some_are_named() -> None:
    table = library.table(OPERATIONS)
    assert table.segments[Linear,] is LibraryLinear
    assert table.segments[Conv2d,] is table.segments[Conv2d, ReLU] is LibraryConv2d
    assert table.segments[CrossEntropyLoss,] is LibraryCrossEntropy
    assert table.segments[MaxPool2d,] is resident.TABLE.segments[MaxPool2d,]
    assert library.table([]) == resident.TABLE


@pytest.mark.parametrize("one", OPERATIONS)
def test_one_operation_at_a_time(one: str) -> None:
    """S5's rows: cuBLAS first, then cuDNN's softmax."""
    table, plain = library.table([one]), resident.TABLE
    assert (table.segments[Linear,] is LibraryLinear) == (one == "linear")
    assert ((Conv2d, ReLU) in table.segments) == (one == "conv2d")
    assert (table.segments[CrossEntropyLoss,] is LibraryCrossEntropy) == (one == "cross_entropy")
    others = {
        key: kind
        for key, kind in table.segments.items()
        if kind not in (LibraryLinear, LibraryConv2d, LibraryCrossEntropy)
    }
    assert others.items() <= plain.segments.items() and table.segments.keys() >= plain.segments.keys()
    assert (table.update, table.segments[Gather,], table.accumulate) == (
        plain.update,
        plain.segments[Gather,],
        plain.accumulate,
    )


@pytest.mark.parametrize(
    ("operations", "missing", "said"),
    [
        (("linear",), ("nvmath",), "nvmath-python"), (("conv2d",), ("cudnn",), "nvidia-cudnn-frontend"),
        (("cross_entropy",), ("cudnn",), "nvidia-cudnn-frontend"), (("linear",), ("cudnn",), None), (("conv2d", "cross_entropy"), ("nvmath",), None),
        (OPERATIONS, ("nvmath", "cudnn"), "nvmath-python"), (OPERATIONS, (), None),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_in_a_line(
    operations: tuple[str, ...], missing: tuple[str, ...], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_library, "find_spec", lambda name: None if name in missing else object())
    reason = library.why_not(operations)
    if said is None:
        assert reason is None
    else:
        assert (
            reason is not None
            and said in reason
            and "pip install 'warpladder[cuda13]'" in reason
            and "\n" not in reason
        )


def test_the_emulator_has_no_libraries() -> None:
    assert not RUNG.has("device")
    with pytest.raises(DeviceError, match="run on a GPU"):
        gpu_library.on_gpu(EmulatedDevice())


def test_a_missing_library_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from stand_in import Gpu

    from warpladder.device.gpu import cublas, cudnn

    for module in (cublas, cudnn):
        monkeypatch.setattr(module, "on_gpu", Gpu)
    for open_library, package in ((cublas.cublas, "nvmath"), (cudnn.cudnn, "cudnn")):
        if find_spec(package) is None:
            with pytest.raises(DeviceError, match=r"does not start: .*pip install 'warpladder\[cuda13\]'"):
                open_library(EmulatedDevice())


LAYER_CASES = [
    (f"{op.__name__} {'+'.join(kind.__name__ for kind in key)} {name}", run)
    for key, op in library.table(OPERATIONS).segments.items()
    if op in (LibraryLinear, LibraryConv2d)
    for name, run in layer_cases(key, op)
]


@emulated
@pytest.mark.parametrize("run", [run for _, run in LAYER_CASES], ids=[name for name, _ in LAYER_CASES])
def test_layers(device: Device, run) -> None:
    run(device)


LOSS_CASES = list(LOSSES[CrossEntropyLoss](LibraryCrossEntropy))


@emulated
@pytest.mark.parametrize("run", [run for _, run in LOSS_CASES], ids=[name for name, _ in LOSS_CASES])
def test_the_loss(device: Device, run) -> None:
    assert "cross_entropy_from_log" in run(device)


CONFIG = TrainConfig(batch_size=5, learning_rate=0.05, momentum=0.9, weight_decay=1e-3)


NETS = (
    nets.mlp10((1, 5, 4)),
    Net(
        "images",
        (2, 4, 6),
        (
            Conv2d(out_channels=3, kernel_size=3, padding=1),
            ReLU(),
            MaxPool2d(2),
            Upsample2d(scale_factor=2),
            Conv2d(out_channels=2, kernel_size=3, padding=1),
        ),
        MSELoss(),
    ),
)


@emulated
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
@pytest.mark.parametrize("operations", [OPERATIONS, ("linear",)], ids=["all", "linear"])
@pytest.mark.by_day("all-images", "linear-mlp10")
def test_training_is_proven(device: Device, net: nets.Net, operations: tuple[str, ...]) -> None:
    verdict = verify(
        lambda net, config, state: KernelTrainer(net, config, state, device, library.table(operations), "resident"),
        net,
        CONFIG,
    )
    assert verdict.passed, verdict.reason


@emulated
@pytest.mark.parametrize("operations", [("linear",), ("linear", "cross_entropy")], ids="+".join)
@pytest.mark.by_day("linear+cross_entropy")
def test_calls_in_a_graph_are_proven_and_end_in_the_same_bits(
    device: Device, operations: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`graph=yes`: S5's last row, a graph of the libraries' calls; also in epochs whose losses nobody computes."""
    monkeypatch.setattr(where, "open_device", lambda name: device)
    config = CONFIG.but(loss_every=2)
    net = nets.mlp((1, 5, 5), classes=4)
    drawn = case(net, config, seed=1, samples=12)
    ends = []
    for rung in (RUNG.but(operations=operations), RUNG.but(operations=operations, graph=True)):
        with rung.build(net, config, drawn.state) as trainer:
            assert isinstance(trainer, GraphedTrainer) is bool(rung.options.chosen().get("graph"))
            trainer.load(drawn.dataset)
            logs = [trainer.run(replace(drawn.order, epoch=epoch), 0, 3) for epoch in range(2)]
            assert [log.has_loss for log in logs] == [False, True]
            ends.append(trainer.state().bits() + logs[1].loss.tobytes() + logs[1].correct.tobytes())
    assert ends[0] == ends[1]
    verdict = verify(RUNG.but(operations=operations, graph=True).build, net, config)
    assert verdict.passed, verdict.reason


def test_a_graph_takes_no_samples_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = RUNG.but(graph=True, feed="sync").unsupported(NETS[0], CONFIG)
    assert reason is not None and "leave feed=sync out" in reason
    monkeypatch.setattr("warpladder.rungs.library.of_kernels", lambda net, config: None)
    monkeypatch.setattr(library, "why_not", lambda operations: None)
    assert (
        RUNG.but(graph=True, feed="resident").unsupported(NETS[0], CONFIG)
        is RUNG.but(graph=False, feed="sync").unsupported(NETS[0], CONFIG)
        is None
    )


def test_a_graph_of_calls_says_so() -> None:
    assert (
        "CUDA graph" in RUNG.but(graph=True).title
        and RUNG.but(graph=False).title == RUNG.but(feed="sync").title == RUNG.title
    )


@emulated
def test_workspaces_are_counted_and_taken_when_bound(device: Device) -> None:
    net = nets.cnn((1, 8, 8), classes=4)
    drawn = case(net, CONFIG, seed=1, samples=12)
    with KernelTrainer(net, CONFIG, drawn.state, device, library.table(OPERATIONS), "resident") as trainer:
        trainer.load(drawn.dataset)
        held = sum(device.held.values())
        assert trainer.memory()["workspace"] > 3 * 4096  # two convolutions and a product, as the stand-ins want it
        trainer.run(drawn.order, 0, 3)  # the last batch is partial
        assert sum(device.held.values()) == held


@emulated
def test_what_is_let_go_is_free_without_the_garbage_collector(device: Device) -> None:
    drawn = case(nets.cnn((1, 8, 8), classes=4), CONFIG, seed=1, samples=12)
    gc.disable()
    try:
        with KernelTrainer(drawn.net, CONFIG, drawn.state, device, library.table(OPERATIONS), "resident") as trainer:
            before = sum(device.held.values())
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 3)
            assert sum(device.held.values()) > before
            trainer.close()
            assert sum(device.held.values()) == before
    finally:
        gc.enable()


@emulated
def test_a_step_is_made_of_calls(device: Device) -> None:
    net = nets.mlp((1, 5, 5), classes=4)
    drawn = case(net, CONFIG, seed=1, samples=10)
    with KernelTrainer(net, CONFIG, drawn.state, device, library.table(OPERATIONS), "resident") as trainer:
        trainer.load(drawn.dataset)
        calls = trainer.program(whole(5))
        theirs = [call.name for call in calls if not isinstance(call, Launch)]
        assert theirs == ["cublasLt y", "cublasLt y", "cudnn log-softmax", "cublasLt dw", "cublasLt dx", "cublasLt dw"]
        assert all(call.name in repr(call) for call in calls)
        before = trainer.state().params
        assert trainer.feed is not None
        trainer.feed.begin(drawn.order, 0, 1)
        device.graph(calls).send()
        assert not np.array_equal(trainer.state().params, before)


@pytest.mark.parametrize(
    ("found", "fine"),
    [("1.25.0", True), ("1.25", True), (None, True), ("1.32.0", False), ("1.250.1", False), ("1.2.5", False)],
)
def test_another_release_of_the_frontend_is_refused_in_a_line(
    found: str | None, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.32 made handles objects: the rung crashed in its proof with "cannot be converted to pointer". What pyproject
    asks for is what is accepted.
    """
    monkeypatch.setattr(gpu_library, "find_spec", lambda name: object())
    monkeypatch.setattr(gpu_library, "_release", lambda: found)
    reason = gpu_library.why_not(cublas=True, cudnn=True)
    if fine:
        assert reason is None
    else:
        assert (
            reason == f"nvidia-cudnn-frontend {found} is installed, and cuDNN is called through 1.25: pip install "
            "'nvidia-cudnn-frontend==1.25.*'"
        )
    assert gpu_library.why_not(cublas=True, cudnn=False) is None
    pinned = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert pinned.count(f'"{gpu_library.FRONTEND}>={gpu_library.RELEASES},<1.26;') == 2
