"""cuBLASLt and cuDNN on a GPU: right, repeatable, in graphs, and beside the naive kernels in time.

python -m pytest -q -s tests/gpu/test_library_gpu.py     also shows what was chosen, and the times
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernel_layers import layer_cases
from kernel_losses import LOSSES
from kernel_tools import close, nan, untouched
from references import conv2d, linear
from segments_here import for_layers, for_loss
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Array, Call, Device, Launch, gpu
from warpladder.nets import ZOO, Conv2d, CrossEntropyLoss, Layer, Linear, Net, ReLU, Shape
from warpladder.ops.conv2d.library import LibraryConv2d
from warpladder.ops.cross_entropy.library import LibraryCrossEntropy
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import whole
from warpladder.ops.engine.kernels import Launches, Log
from warpladder.ops.engine.library_op import PlannedOp
from warpladder.ops.engine.segments import KernelTable, Segment
from warpladder.ops.linear.library import LibraryLinear
from warpladder.ops.tables import library, naive
from warpladder.proof import verify
from warpladder.proof.tolerance import bound
from warpladder.rungs.library import OPERATIONS, RUNG
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.kernelwise.where import open_device

REASON = gpu.why_not() or library.why_not(OPERATIONS)
if REASON is not None:
    pytest.skip(str(REASON), allow_module_level=True)
TABLE = library.table(OPERATIONS)
LIMIT = 60_000_000  # bytes of activations up to which the reference is asked: it is slow


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    yield open_device(None)


def test_the_libraries_start_and_say_their_versions(device: Device) -> None:
    from warpladder.device.gpu.cublas import cublas
    from warpladder.device.gpu.cudnn import cudnn

    versions = cublas(device).version, cudnn(device).version
    print(f"\n{device.name}: cuBLASLt {versions[0]}, cuDNN {versions[1]}")
    assert versions[0] >= 110000 and versions[1] >= 90000


LAYER_CASES = [
    (f"{op.__name__} {'+'.join(kind.__name__ for kind in key)} {name}", run)
    for key, op in TABLE.segments.items()
    if op in (LibraryLinear, LibraryConv2d)
    for name, run in layer_cases(key, op)
]


@pytest.mark.parametrize("run", [run for _, run in LAYER_CASES], ids=[name for name, _ in LAYER_CASES])
def test_odd_layers(device: Device, run: Any) -> None:
    run(device)


LOSS_CASES = list(LOSSES[CrossEntropyLoss](LibraryCrossEntropy))


@pytest.mark.parametrize("run", [run for _, run in LOSS_CASES], ids=[name for name, _ in LOSS_CASES])
def test_odd_losses(device: Device, run: Any) -> None:
    run(device)


#: The layers of the five nets that have parameters.
LAYERS: list[tuple[str, Layer, Shape]] = [
    (f"{net.name} {index}", layer, net.shapes[index])
    for net in (make() for make in ZOO)
    for index, layer in enumerate(net.layers)
    if layer.param_shapes(net.shapes[index])
]


class Bound:
    """A layer of a table, alone, on random inputs; what it should write is NaN."""

    def __init__(
        self,
        device: Device,
        table: KernelTable,
        layer: Layer,
        in_shape: Shape,
        capacity: int,
        n: int,
        relu: bool = False,
    ) -> None:
        random = np.random.default_rng(1)
        shapes, out_shape = layer.param_shapes(in_shape), layer.out_shape(in_shape)
        self.n = n
        self.host = {
            "x": random.normal(size=(capacity, *in_shape)).astype(np.float32), "dy": random.normal(size=(capacity, *out_shape)).astype(np.float32),
            "w": random.normal(size=shapes["weight"]).astype(np.float32), "b": random.normal(size=shapes["bias"]).astype(np.float32),
            "y": nan(capacity, *out_shape), "dx": nan(capacity, *in_shape), "dw": nan(*shapes["weight"]), "db": nan(*shapes["bias"]),
        }  # fmt: skip
        self.host["x"][n:] = self.host["dy"][n:] = np.nan
        self.arrays: dict[str, Array] = {name: device.array(host, name) for name, host in self.host.items()}
        layers = (layer, ReLU()) if relu else (layer,)
        self.op: Segment = for_layers(table.segments[tuple(map(type, layers))], device, layers, Buffers(**self.arrays))
        self.device = device

    def run(self) -> dict[str, np.ndarray]:
        part = whole(self.n)
        for call in (*self.op.forward(part), *self.op.backward(part)):
            call.send()
        self.device.synchronize()
        return {name: self.arrays[name].download() for name in ("y", "dx", "dw", "db")}


def microseconds(device: Device, calls: Launches) -> float:
    """Of the calls in a graph of many repetitions, or sent one by one where they take long."""
    graph = device.graph(calls * 20)
    graph.send()
    taken = []
    for _ in range(5):
        begin = device.stream.record()
        graph.send()
        end = device.stream.record()
        end.synchronize()
        taken.append(end.seconds_since(begin) / 20)
    return 1e6 * statistics.median(taken)


def told(op: Segment) -> str:
    """What cuBLASLt chose, and the workspaces."""
    assert isinstance(op, PlannedOp)
    return "; ".join(
        f"{name} {call.plan.settings() if hasattr(call.plan, 'settings') else ''} {call.plan.workspace:,} B"
        for (name, _), call in op.calls.items()
    )


@pytest.mark.parametrize(("capacity", "n"), [(1, 1), (64, 7), (64, 64)])
@pytest.mark.parametrize(("name", "layer", "in_shape"), LAYERS, ids=[name for name, _, _ in LAYERS])
def test_layers_of_the_nets(device: Device, name: str, layer: Layer, in_shape: Shape, capacity: int, n: int) -> None:
    bound_layer = Bound(device, TABLE, layer, in_shape, capacity, n)
    found = bound_layer.run()
    for array in ("y", "dx"):
        untouched(found[array], n, array)
    if found["y"][:n].nbytes + found["dx"][:n].nbytes > LIMIT:
        pytest.skip("the reference would take minutes")
    x, dy, w, b = (bound_layer.host[key].astype(float) for key in ("x", "dy", "w", "b"))
    x, dy = x[:n], dy[:n]
    if isinstance(layer, Conv2d):
        window = layer.stride, layer.padding
        y, (dx, dw, db) = conv2d.forward(x, w, b, *window), conv2d.backward(x, w, dy, *window)
        x, w, b, dy = abs(x), abs(w), abs(b), abs(dy)
        terms = conv2d.forward(x, w, b, *window), *conv2d.backward(x, w, dy, *window)
        inner, outer = in_shape[0] * layer.kernel_size**2, layer.out_channels * layer.kernel_size**2
        samples = n * dy[0, 0].size
    else:
        y, (dx, dw, db) = linear.forward(x, w, b), linear.backward(x, w, dy)
        x, w, b, dy = abs(x), abs(w), abs(b), abs(dy)
        terms = linear.forward(x, w, b), *linear.backward(x, w, dy)
        inner, outer, samples = x.shape[1], len(b), n
    for array, wanted, scale, length in zip(
        ("y", "dx", "dw", "db"), (y, dx, dw, db), terms, (inner + 1, outer, samples, samples), strict=True
    ):
        got = found[array][:n] if array in ("y", "dx") else found[array]
        error = np.linalg.norm(got - wanted) / np.linalg.norm(scale)
        print(
            f"\n{name} {n} of {capacity}: {array} off by {error:.1e} of its terms, {bound('float32', length):.1e} allowed",
            end="",
        )
        close(got, wanted, scale, bound("float32", length), array)


@pytest.mark.parametrize("n", [1, 64])
@pytest.mark.parametrize(("name", "layer", "in_shape"), LAYERS, ids=[name for name, _, _ in LAYERS])
def test_times_beside_the_naive_kernels(device: Device, name: str, layer: Layer, in_shape: Shape, n: int) -> None:
    ours, theirs = Bound(device, naive.TABLE, layer, in_shape, n, n), Bound(device, TABLE, layer, in_shape, n, n)
    for bound_layer in (ours, theirs):
        assert all(np.isfinite(found).all() for found in bound_layer.run().values())
    line = [f"\n{name} {n}:"]
    for phase in ("forward", "backward"):
        naive_calls, library_calls = getattr(ours.op, phase)(whole(n)), getattr(theirs.op, phase)(whole(n))
        line.append(
            f"{phase} naive {microseconds(device, naive_calls):.1f} us, library {microseconds(device, library_calls):.1f} us"
        )
        line.append("(" + ", ".join(f"{call.name} {microseconds(device, [call]):.1f}" for call in library_calls) + ")")
    print(" ".join(line))
    print("  ", told(theirs.op), end="")


@pytest.mark.parametrize(("name", "layer", "in_shape"), LAYERS, ids=[name for name, _, _ in LAYERS])
def test_a_hundred_times_the_same_bits(device: Device, name: str, layer: Layer, in_shape: Shape) -> None:
    bound_layer = Bound(device, TABLE, layer, in_shape, 16, 16)
    seen = set()
    for _ in range(100):
        found = bound_layer.run()
        seen.add(b"".join(found[array].tobytes() for array in ("y", "dx", "dw", "db")))
    assert len(seen) == 1


def test_another_binding_gives_the_same_bits(device: Device) -> None:
    """What is chosen depends on shapes alone, not on the moment or on what was bound before."""
    for _, layer, in_shape in LAYERS[:4]:
        first, second = (Bound(device, TABLE, layer, in_shape, 7, 7).run() for _ in range(2))
        assert all(np.array_equal(first[array], second[array]) for array in first)


@pytest.mark.parametrize("relu", [False, True], ids=["alone", "with ReLU"])
@pytest.mark.parametrize(
    ("layer", "in_shape"),
    [(Linear(out_features=10), (784,)), (Conv2d(out_channels=16, kernel_size=3), (1, 28, 28))],
    ids=["linear", "conv2d"],
)
def test_nan_goes_through(device: Device, layer: Layer, in_shape: Shape, relu: bool) -> None:
    if relu and isinstance(layer, Linear):
        pytest.skip("ReLU after a linear layer is the naive kernel's")
    bound_layer = Bound(device, TABLE, layer, in_shape, 3, 3, relu)
    bound_layer.arrays["w"].upload(np.full_like(bound_layer.host["w"], np.nan))
    assert np.isnan(bound_layer.run()["y"]).all()


@pytest.mark.parametrize(("n", "classes"), [(1, 10), (128, 10), (59_000, 10), (70_000, 3), (7, 2), (5, 1000)])
def test_the_softmax(device: Device, n: int, classes: int) -> None:
    """Extreme logits, NaN, and more samples than a grid has rows."""
    from warpladder.device.gpu.cudnn import LogSoftmax, cudnn
    from warpladder.device.gpu.library import LibraryCall

    random = np.random.default_rng(2)
    x = (30 * random.normal(size=(n, classes))).astype(np.float32)
    x[0], x[-1, -1] = 1e30, -1e30
    if n > 2:
        x[1, 0] = np.nan
    there, out = device.array(x, "x"), device.array(nan(n, classes), "y")
    LibraryCall(device, LogSoftmax(cudnn(device), there, out), None).send()
    found = out.download()
    with np.errstate(over="ignore"):
        shifted = x.astype(float) - x.max(axis=1, keepdims=True).astype(float)
        wanted = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    assert np.isnan(found[1]).all() if n > 2 else True, "NaN was swallowed"
    rows = np.isfinite(x).all(axis=1)
    # logits of 1e30 lose their differences where the maximum and the logarithm are added before they are subtracted, as
    # cuDNN does for many classes
    rounding = 1e-5 + 2.0**-23 * abs(x[rows].astype(float)).max(axis=1, keepdims=True)
    assert (abs(found[rows] - wanted[rows]) <= rounding + 1e-5 * abs(wanted[rows])).all()


def test_the_loss_beside_ours(device: Device) -> None:
    random = np.random.default_rng(3)
    for n in (1, 128, 59_000):
        x, label = random.normal(size=(n, 10)).astype(np.float32), random.integers(0, 10, n).astype(np.int32)
        taken, gradients = {}, []
        for name, loss in (("library", TABLE), ("naive", naive.TABLE), ("fused", library.table(["linear"]))):
            log = Log(device.zeros((1,), np.int32), device.zeros((400,), np.float64), device.zeros((400,), np.int64))
            dx = device.array(nan(n, 10), "dx")
            kind = loss.segments[CrossEntropyLoss,]
            op = for_loss(kind, device, CrossEntropyLoss(), device.array(x), device.array(label), dx, log)
            for call in op.forward(whole(n)):
                call.send()
            gradients.append(dx.download())
            taken[name] = microseconds(device, op.forward(whole(n)))
        print(f"\ncross-entropy of {n}:", ", ".join(f"{name} {time:.1f} us" for name, time in taken.items()), end="")
        assert all(np.allclose(gradient, gradients[0], rtol=1e-4, atol=1e-6 / n) for gradient in gradients)


NETS = [make() for make in ZOO]


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_proven_at_full_size(net: Net, batch: int) -> None:
    verdict = verify(RUNG.build, net, TrainConfig(batch_size=batch))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("operations", ["linear", "conv2d", "cross_entropy", "linear+cross_entropy"])
def test_proven_one_operation_at_a_time(operations: str) -> None:
    for net in (nets.softmax(), nets.cnn()):
        verdict = verify(RUNG.but(operations=operations).build, net, TrainConfig(batch_size=64))
        assert verdict.passed, verdict.reason


def test_proven_on_full_batches() -> None:
    verdict = verify(RUNG.build, nets.mlp10(), TrainConfig(batch_size=None))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_a_hundred_runs_give_the_same_bits(device: Device, net: Net) -> None:
    config = TrainConfig(batch_size=7, learning_rate=0.01, momentum=0.9)
    drawn = case(net, config, seed=1, samples=17)
    seen = set()
    with RUNG.build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        for _ in range(100):
            trainer.set_state(drawn.state)
            log = trainer.run(drawn.order, 0, 3)
            assert np.isfinite(log.loss).all()
            state = trainer.state()
            seen.add(state.bits() + log.loss.tobytes() + log.correct.tobytes())
    assert len(seen) == 1


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.name)
def test_graphs_replay_the_same_bits(device: Device, net: Net) -> None:
    config = TrainConfig(batch_size=7, learning_rate=0.01, momentum=0.9)
    drawn = case(net, config, seed=1, samples=31)
    ends = []
    for build in (
        lambda: KernelTrainer(net, config, drawn.state, device, TABLE, "resident"),
        lambda: GraphedTrainer(net, config, drawn.state, device, TABLE),
    ):
        with build() as trainer:
            trainer.load(drawn.dataset)
            held = sum(device.held.values())
            logs = [trainer.run(drawn.order, 0, 5) for _ in range(3)]
            assert sum(device.held.values()) == held, "memory was taken after the binding"
            ends.append(trainer.state().params.tobytes() + b"".join(log.loss.tobytes() for log in logs))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("net", "batch"),
    [(nets.softmax(), 128), (nets.mlp(), 64), (nets.mlp10(), 1000), (nets.cnn(), 64), (nets.autoencoder(), 1)],
    ids=str,
)
def test_steps_beside_the_resident_kernels(device: Device, net: Net, batch: int) -> None:
    """Each operation given to the libraries in turn, as S5's rows have it; steps in graphs."""
    config = TrainConfig(batch_size=batch, learning_rate=0.001)
    drawn = case(net, config, seed=1, samples=4 * batch)
    line = [f"\n{net.name} {batch}:"]
    for operations in ((), ("linear",), ("cross_entropy",), ("conv2d",), OPERATIONS):
        table = library.table(operations)
        with GraphedTrainer(net, config, drawn.state, device, table) as trainer:
            trainer.load(drawn.dataset)
            log = trainer.run(drawn.order, 0, 4)
            assert np.isfinite(log.loss).all()
            calls: list[Call] = [call for part in trainer._slices(batch) for call in trainer.program(part)]
            theirs = sum(not isinstance(call, Launch) for call in calls)
            taken = []
            for _ in range(7):
                trainer.rewind()
                begin = device.stream.record()
                trainer._queue(trainer.feed, 0, 4, True)  # type: ignore[arg-type]
                end = device.stream.record()
                end.synchronize()
                taken.append(end.seconds_since(begin) / 4)
            line.append(
                f"{'+'.join(operations) or 'none'} {1e6 * statistics.median(taken):.1f} us ({theirs} of {len(calls)} calls)"
            )
    print(" ".join([line[0], ", ".join(line[1:])]), end="")
