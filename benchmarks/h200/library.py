"""What cuBLASLt and cuDNN offer on one GPU, and what the library rung's rules cost: each probe says what it found, or
why it could not.

    PYTHONPATH=src python3 benchmarks/h200/library.py

- Products of the nets: the times of the first algorithms that cuBLASLt proposes, with the sum of the bias's gradient in
  the same call (BGRADB), and whether its ReLU lets NaN through.
- Convolutions of the nets: every engine of cuDNN that the rules allow, the first of which is taken; then the first
  engine when Winograd's and Fourier's sums are allowed, and when tensor cores are; then bias and ReLU in the same
  graph.

Times are those of a CUDA graph of up to 20 repetitions, the median of several. Inputs are random normal numbers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from warpladder import nets
from warpladder.device import Array, Call, Graph, Stream
from warpladder.device.gpu import GpuDevice
from warpladder.device.gpu import cudnn as dnn
from warpladder.device.gpu.cublas import CublasProduct, cublas
from warpladder.device.gpu.cudnn import CudnnConvolution, Window, cudnn
from warpladder.device.gpu.library import LibraryCall, LibraryPlan, line
from warpladder.nets import Conv2d, Linear

BUDGET = 240.0  # seconds, after which no further convolution is looked at

DEVICE = GpuDevice()
BEGAN = time.perf_counter()
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return DEVICE.array(RANDOM.normal(size=shape).astype(np.float32))


def microseconds(call: Call) -> float:
    """Of a call, repeated in one graph; of slow ones, fewer times."""
    once = timed(DEVICE.graph([call]), 1)
    repeats = max(1, min(20, int(2e3 / max(once, 1.0))))
    graph = DEVICE.graph([call] * repeats)
    return statistics.median(timed(graph, repeats) for _ in range(7 if repeats > 1 else 2))


def timed(graph: Graph, repeats: int) -> float:
    begin = DEVICE.stream.record()
    graph.send()
    end = DEVICE.stream.record()
    end.synchronize()
    return 1e6 * end.seconds_since(begin) / repeats


def held(plan: LibraryPlan) -> LibraryCall:
    """A plan with a workspace of its own."""
    return LibraryCall(DEVICE, plan, DEVICE.empty((plan.workspace,), np.uint8) if plan.workspace else None)


def tried(what: str, probe: Callable[[], str]) -> None:
    """Print what a probe found, or what went wrong; the others go on."""
    try:
        print(f"  {what}: {probe()}", flush=True)
    except Exception as error:
        print(f"  {what}: {type(error).__name__}: {line(error)}", flush=True)


class WithSums(CublasProduct):
    """A product that also sums a's rows: the bias's gradient."""

    sums: Array

    def _choose(self, room: int, shape: str) -> int:
        self._describe("EPILOGUE", self.lt.Epilogue.BGRADB)
        self._describe("BIAS_POINTER", self.sums.address)
        return super()._choose(room, shape)


class WithReLU(CublasProduct):
    """A product with bias and ReLU."""

    def _choose(self, room: int, shape: str) -> int:
        self._describe("EPILOGUE", self.lt.Epilogue.RELU_BIAS)
        return super()._choose(room, shape)


def products(name: str, inputs: int, outputs: int, n: int) -> None:
    library = cublas(DEVICE)
    x, w, b, y, dw, dx = (
        normal(n, inputs),
        normal(outputs, inputs),
        normal(outputs),
        normal(n, outputs),
        normal(outputs, inputs),
        normal(n, inputs),
    )
    print(f"{name}: {inputs} -> {outputs}, {n} samples", flush=True)

    def told(product: CublasProduct) -> str:
        return f"{microseconds(held(product)):.1f} us {product.settings()} flags {product.numerics:#x} workspace {product.workspace:,}"

    tried("y", lambda: told(CublasProduct(library, "y", x, w, y, n, outputs, inputs, turn_b=True, bias=b)))
    tried("y, ReLU too", lambda: told(WithReLU(library, "y", x, w, y, n, outputs, inputs, turn_b=True, bias=b)))
    tried("dw", lambda: told(CublasProduct(library, "dw", y, x, dw, outputs, inputs, n, turn_a=True)))
    tried(
        "dw without workspace",
        lambda: told(CublasProduct(library, "dw", y, x, dw, outputs, inputs, n, turn_a=True, room=0)),
    )
    tried("dx", lambda: told(CublasProduct(library, "dx", y, w, dx, n, inputs, outputs)))

    def with_sums() -> str:
        db = normal(outputs)
        with mock.patch.object(WithSums, "sums", db, create=True):
            product = WithSums(library, "dw, db", y, x, dw, outputs, inputs, n, turn_a=True)
        call, seen = held(product), set()
        for _ in range(100):
            call.send()
            seen.add(db.download().tobytes() + dw.download().tobytes())
        found, wanted = db.download(), y.download().astype(float).sum(axis=0)
        return f"{told(product)}; db off by {np.linalg.norm(found - wanted) / np.linalg.norm(wanted):.1e}, {len(seen)} different results of 100"

    tried("dw with db (BGRADB)", with_sums)


def nan_through_relu() -> str:
    x, w, b, y = normal(8, 64), DEVICE.array(np.full((32, 64), np.nan, np.float32)), normal(32), normal(8, 32)
    held(WithReLU(cublas(DEVICE), "y", x, w, y, 8, 32, 64, turn_b=True, bias=b)).send()
    return "goes through" if np.isnan(y.download()).all() else f"is swallowed: {y.download()[0, :3]}"


class Engine(Call):
    """One of a graph's engines."""

    def __init__(self, plan: CudnnConvolution, index: int, workspace: Array) -> None:
        self.plan, self.index, self.workspace = plan, index, workspace

    @property
    def name(self) -> str:
        return str(self.plan.graph.get_plan_name_at_index(self.index))

    def send(self, stream: Stream | None = None) -> None:
        self.plan.cudnn.use(int(DEVICE.on(stream).handle))
        self.plan.graph.execute_plan_at_index(
            self.plan.addresses, self.workspace.address, self.index, self.plan.cudnn.handle
        )


def engines(plan: CudnnConvolution, workspace: Array) -> str:
    """All that can be built, with their times."""
    graph, found = plan.graph, []
    for index in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(index)
            engine = Engine(plan, index, workspace)
            size = graph.get_workspace_size_plan_at_index(index)
            found.append(
                f"{engine.name} {microseconds(engine):.1f} us {size:,} B"
                if size <= workspace.nbytes
                else f"{engine.name} wants {size:,} B"
            )
        except Exception as error:
            if "eselect" not in str(error):
                found.append(f"[{index}] {line(error)[:60]}")
    return " | ".join(found)


def convolutions(name: str, layer: Conv2d, in_shape: tuple[int, ...], n: int) -> None:
    library, window = cudnn(DEVICE), Window(layer.stride, layer.padding)
    x, y = normal(n, *in_shape), normal(n, *layer.out_shape(in_shape))
    w, b = normal(*layer.param_shapes(in_shape)["weight"]), normal(*layer.param_shapes(in_shape)["bias"])
    dx, dw = normal(*x.shape), normal(*w.shape)
    workspace = DEVICE.empty((256 << 20,), np.uint8)
    flops = n * layer.flops(in_shape)
    print(f"{name}: {in_shape} -> {y.shape[1:]}, {n} samples, {flops / 1e9:.2f} GFLOP each way", flush=True)

    def told(plan: CudnnConvolution) -> str:
        taken = microseconds(LibraryCall(DEVICE, plan, workspace))
        return f"{taken:.1f} us, {flops / taken / 1e6:.1f} TFLOP/s, workspace {plan.workspace:,}"

    for kind, connect, inputs, out in (
        ("y", window.forward, [x, w], y), ("dw", window.weight_gradient, [x, y], dw), ("dx", window.input_gradient, [y, w], dx),
    ):  # fmt: skip

        def plan(
            connect: Any = connect, inputs: list[Array] = inputs, out: Array = out, kind: str = kind
        ) -> CudnnConvolution:
            return CudnnConvolution(library, kind, connect, inputs, out)

        tried(f"{kind}, taken", lambda plan=plan: told(plan()))  # type: ignore[misc]
        tried(f"{kind}, allowed", lambda plan=plan: engines(plan(), workspace))  # type: ignore[misc]
        for allowed in (("FFT", "WINOGRAD"), ("FFT", "WINOGRAD", "TENSOR_CORE", "DOWN_CONVERT"), ("NONDETERMINISTIC",)):
            rest = tuple(note for note in dnn.AVOIDED if not note.startswith(allowed))
            with mock.patch.object(dnn, "AVOIDED", rest):
                tried(f"{kind}, {' and '.join(allowed)} too", lambda plan=plan: told(plan()))  # type: ignore[misc]

    bias = b.reshape(1, -1, 1, 1)

    def fused(relu: bool) -> CudnnConvolution:
        def connect(graph: Any, x: Any, w: Any, b: Any) -> Any:
            out = window.forward(graph, x, w)
            out.set_dim(list(y.shape)).set_stride(dnn.strides(y.shape))
            out = graph.bias(input=out, bias=b)
            return graph.relu(input=out) if relu else out

        return CudnnConvolution(library, "y", connect, [x, w, bias], y)

    tried("y with bias", lambda: told(fused(relu=False)))
    tried("y with bias and ReLU", lambda: told(fused(relu=True)))


def main() -> None:
    print(f"{DEVICE.name}: cuBLASLt {cublas(DEVICE).version}, cuDNN {cudnn(DEVICE).version}")
    tried("NaN through cuBLASLt's ReLU", nan_through_relu)
    for make, n in (
        (nets.softmax, 128),
        (nets.mlp, 64),
        (nets.mlp10, 59_000),
        (nets.cnn, 64),
        (nets.cnn, 1),
        (nets.autoencoder, 256),
        (nets.autoencoder, 1),
    ):
        net = make()
        for index, layer in enumerate(net.layers):
            if isinstance(layer, Linear):
                products(f"{net.name} {index}", net.shapes[index][0], layer.out_features, n)
            elif isinstance(layer, Conv2d) and time.perf_counter() - BEGAN < BUDGET:
                convolutions(f"{net.name} {index}", layer, net.shapes[index], n)


if __name__ == "__main__":
    main()
