"""The GEMM kernels on one GPU: each product of the five nets with several tiles, beside cuBLAS and cuDNN; whole steps,
and what each launch takes.

    PYTHONPATH=src python3 benchmarks/h200/gemm.py              # all of it, about two minutes
    PYTHONPATH=src python3 benchmarks/h200/gemm.py --only nets  # sgemm, linear, conv or nets

Times are those of a CUDA graph of many repetitions, between events; the median of several. Inputs are random normal
numbers. The first column of times is the model's choice (ops/cost/tiles.py), the others are the next best tiles that it
knows.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device import Array, Call
from warpladder.device.gpu import GpuDevice
from warpladder.device.gpu.program import program
from warpladder.nets import Net, params
from warpladder.ops.conv2d.gradients import WeightGradient
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.products import GemmConvolution, Geometry
from warpladder.ops.cost.plans import Planner
from warpladder.ops.cost.tiles import TilePlan
from warpladder.ops.engine.chain import whole
from warpladder.ops.engine.kernels import OnDevice
from warpladder.ops.linear.products import Product
from warpladder.ops.tables import gemm
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise.trainer import KernelTrainer

PEAK = 66.9e12  # FLOP/s of an H200 in fp32
BUDGET = 115.0  # seconds
TILES = 4  # of each product

DEVICE = GpuDevice()
BEGAN = time.perf_counter()


def late() -> bool:
    return time.perf_counter() - BEGAN > BUDGET


def seconds(calls: list[Call], expected: float = 20e-6) -> float:
    """Seconds that the calls take, repeated in one graph."""
    repeats = max(1, min(50, int(2e-3 / expected)))
    graph = DEVICE.graph(calls * repeats)
    taken = []
    for _ in range(7):
        begin = DEVICE.stream.record()
        graph.send()
        end = DEVICE.stream.record()
        end.synchronize()
        taken.append(end.seconds_since(begin) / repeats)
    return statistics.median(taken[2:])


def compile_all(kernels: Iterable[tuple[Any, str]]) -> None:
    """Compile kernels in several threads; afterwards they are found in the process."""
    import cuda.core  # noqa: F401  threads that import it all at once find it half made

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda kernel: program(*kernel, DEVICE.capability, DEVICE.arch), kernels))


class Names:
    """A device's stand-in that only notes which kernels are asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str]] = []
        self.limits = DEVICE.limits

    def kernel(self, path: Any, name: str) -> Names:
        self.asked.append((path, name))
        return self

    def bind(self, *arguments: Any, **options: Any) -> Any:
        return None


def best_tiles(planned: Planner[TilePlan], n: int) -> list[TilePlan]:
    """The best plan of each of the model's first tiles."""
    found: dict[Any, TilePlan] = {}
    for plan in planned.options(n):
        found.setdefault(plan.tile, plan)
    return list(found.values())[:TILES]


def row(
    name: str, flops: float, planned: Planner[TilePlan], n: int, calls: Callable[[], list[Call]], peer: float | None
) -> None:
    """One product, with several tiles."""
    shown = []
    for plan in best_tiles(planned, n):
        if late():
            break
        planned.use(n, plan)
        taken = seconds(calls(), flops / 30e12 + 3e-6)
        tile = plan.tile
        shown.append((taken, f"{tile.bm}x{tile.bn}x{tile.bk}/{tile.tm}x{tile.tn} p{plan.parts}: {taken * 1e6:.1f} us"))
    if not shown:
        return
    best = min(shown)[0]
    beside = (
        f"peer {peer * 1e6:8.1f} us ({flops / peer / 1e12:5.1f} TFLOP/s), ours {best / peer:4.2f} of it"
        if peer
        else "no peer"
    )
    print(
        f"{name:34s} {flops / best / 1e12:5.1f} TFLOP/s ({flops / best / PEAK:4.0%} of peak)  {beside} | {' | '.join(text for _, text in shown)}",
        flush=True,
    )


def normal(*shape: int) -> Array:
    return DEVICE.array(np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape, np.float32))


try:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    if not torch.cuda.is_available():
        raise ImportError("torch sees no GPU")
except ImportError as error:
    print(f"no cuBLAS and cuDNN beside ours: {error}")
    torch = None  # type: ignore[assignment]


def of_torch(work: Callable[[], Any], expected: float) -> float:
    """Seconds of torch's work, repeated in a graph."""
    repeats = max(1, min(50, int(2e-3 / expected)))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            work()
    taken = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3 / repeats)
    return statistics.median(taken[2:])


def products(cases: list[tuple[str, int, int, int, bool, bool]]) -> None:
    """C (m, n) = A B: name, m, n, k, A as (m, k) or (k, m), B as (n, k) or (k, n)."""
    names = Names()
    for _, m, n, k, a_along, b_along in cases:
        product = Product(Bare(names), lambda _, s=(m, n, k): s, 1, a_along, b_along)  # type: ignore[arg-type, misc]
        for plan in best_tiles(product.plan, 1):
            product.plan.use(1, plan)
            product.launches(1, None, None, None)  # type: ignore[arg-type]
    compile_all(names.asked)
    for name, m, n, k, a_along, b_along in cases:
        if late():
            return
        owner = OnDevice(DEVICE, 256)
        product = Product(owner, lambda _, s=(m, n, k): s, 1, a_along, b_along)  # type: ignore[misc]
        a, b, c = (
            normal(m, k) if a_along else normal(k, m),
            normal(n, k) if b_along else normal(k, n),
            DEVICE.empty((m, n)),
        )
        peer = None
        if torch is not None:
            ta = torch.randn((m, k) if a_along else (k, m), device="cuda")
            tb = torch.randn((n, k) if b_along else (k, n), device="cuda")
            tc = torch.empty((m, n), device="cuda")
            left, right = ta if a_along else ta.T, tb.T if b_along else tb
            peer = of_torch(lambda: torch.matmul(left, right, out=tc), 2 * m * n * k / 30e12 + 3e-6)  # noqa: B023
        row(name, 2 * m * n * k, product.plan, 1, lambda: product.launches(1, a, b, c), peer)  # noqa: B023


class Bare:
    """An owner whose scratch memory is none, for finding out names."""

    def __init__(self, device: Names) -> None:
        self.device = device

    def scratch(self, *arguments: Any) -> None:
        return None


#: Name, images, channels, size, outputs, padding, enlargement before it.
CONVOLUTIONS = (
    ("autoencoder 0, batch 256", 256, 3, 32, 256, 1, 1),
    ("autoencoder 3, batch 256", 256, 256, 16, 128, 1, 1),
    ("autoencoder 6, batch 256", 256, 128, 8, 128, 1, 1),
    ("autoencoder 8+9, batch 256", 256, 128, 8, 256, 1, 2),
    ("autoencoder 11+12, batch 256", 256, 256, 16, 3, 1, 2),
    ("cnn 0, batch 64", 64, 1, 28, 16, 0, 1),
    ("cnn 2, batch 64", 64, 16, 26, 32, 0, 1),
    ("autoencoder 3, batch 1", 1, 256, 16, 128, 1, 1),
    ("autoencoder 6, batch 1", 1, 128, 8, 128, 1, 1),
    ("autoencoder 8+9, batch 1", 1, 128, 8, 256, 1, 2),
)


def convolutions() -> None:
    """The three directions of every convolution of the nets. FLOPs of an enlarged one are those of the folded kernels."""
    names = Names()
    for _, n, c, size, o, padding, fold in CONVOLUTIONS:
        for _, part in directions(Bare(names), n, c, size, o, padding, fold):
            for plan in best_tiles(part.plan, n):
                part.plan.use(n, plan)
                launches_of(part, n, None, None, None, None, None)
    compile_all(dict.fromkeys(names.asked))
    for name, n, c, size, o, padding, fold in CONVOLUTIONS:
        if late():
            return
        out = size * fold + 2 * padding - 2
        x, dy, w = normal(n, c, size, size), normal(n, o, out, out), normal(o, c, 3, 3)
        b, sums = normal(o), normal(1, o)
        flops = 2 * n * c * o * (16 * size**2 if fold == 2 else 9 * out**2)
        peers: dict[str, float] = {}
        if torch is not None:
            tx, tw = torch.randn(n, c, size * fold, size * fold, device="cuda"), torch.randn(o, c, 3, 3, device="cuda")
            tb, tdy = torch.randn(o, device="cuda"), torch.randn(n, o, out, out, device="cuda")
            expected = flops / 20e12 + 10e-6
            backward = torch.ops.aten.convolution_backward
            shape = [o], [1, 1], [padding, padding], [1, 1], False, [0, 0], 1
            peers = {
                "y": of_torch(lambda: torch.nn.functional.conv2d(tx, tw, tb, padding=padding), expected),  # noqa: B023
                "dx": of_torch(lambda: backward(tdy, tx, tw, *shape, [True, False, False]), expected),  # noqa: B023
                "dw": of_torch(lambda: backward(tdy, tx, tw, *shape, [False, True, False]), expected),  # noqa: B023
            }
        for direction, part in directions(OnDevice(DEVICE, 256), n, c, size, o, padding, fold):
            if c < 8 and direction == "dx":
                continue  # of the first layer nobody needs it
            read, written = (dy, x) if (direction == "dx") != (direction == "dw" and fold > 1) else (x, dy)
            row(
                f"{name} {direction}",
                flops,
                part.plan,
                n,
                lambda: launches_of(part, n, read, written, w, b, sums),  # noqa: B023
                peers.get(direction),
            )


def directions(owner: Any, n: int, c: int, size: int, o: int, padding: int, fold: int) -> list[tuple[str, Any]]:
    out = size * fold + 2 * padding - 2
    conv = FusedConv((c, size, size), (o, out, out), ConvWindow(3, 1, padding), fold)
    return [
        ("y", GemmConvolution(owner, Geometry.of(conv), n)),
        ("dx", GemmConvolution(owner, Geometry.back(conv), n)),
        ("dw", WeightGradient(owner, conv, n)),
    ]


def launches_of(part: Any, n: int, read: Any, written: Any, w: Any, b: Any, sums: Any) -> list[Call]:
    """All launches of a direction, finishing among them; packed weights are whatever stands in memory."""
    if isinstance(part, GemmConvolution):
        return list(part.launches(n, read, None, written))
    dw = w if w is not None else _Sized()
    return list(part.launches(n, read, written, dw, sums, 1, b if b is not None else _Sized()))


class _Sized:
    size = 1


NETS = (
    (nets.softmax(), 128, 100, "9 us/step"),
    (nets.mlp(), 64, 100, "20 us/step"),
    (nets.mlp10(), 59000, 1, "90 us/iteration"),
    (nets.cnn(), 64, 50, "110 us/step"),
    (nets.autoencoder(), 256, 4, "6,122 us/step (1,200 ms an epoch)"),
    (nets.autoencoder(), 1, 50, "160 us an image"),
)


def steps() -> None:
    """Whole training steps as one graph, and each launch of a step alone."""
    for net, batch, count, target in NETS:
        if late():
            return
        trainer = prepared(net, batch, count)
        calls = trainer.program(whole(batch))
        graph = DEVICE.graph(calls * count)
        taken = []
        for _ in range(6):
            trainer.step.upload(np.zeros(1, np.int32))
            begin = DEVICE.stream.record()
            graph.send()
            end = DEVICE.stream.record()
            end.synchronize()
            taken.append(end.seconds_since(begin) / count)
        step = statistics.median(taken[1:])
        flops = net.train_flops * batch
        print(
            f"\n{net.name}, batch {batch}: {step * 1e6:.1f} us a step of {len(calls)} launches, {flops / step / 1e12:.1f} TFLOP/s unfolded; target {target}"
        )
        for call in calls:
            if late():
                return
            alone = 0.0
            name = getattr(call, "name", type(call).__name__)
            if "loss" not in name and "entropy" not in name and "mse" not in name:  # those write to the log
                alone = seconds([call], step / len(calls))
            print(f"  {alone * 1e6:8.2f} us  {call!r}", flush=True)


def prepared(net: Net, batch: int, count: int) -> KernelTrainer:
    """A trainer with random data for `count` steps."""
    random = np.random.default_rng(0)
    samples = batch * count
    x = random.integers(0, 256, (samples, *net.in_shape), np.uint8)
    labels = random.integers(0, 10, samples, np.int32)
    dataset = Dataset("random", x, labels, x[:1], labels[:1], 1 / 255)
    state = State(params.initial(net, 0))
    trainer = KernelTrainer(
        net, TrainConfig(batch_size=batch, learning_rate=1e-6), state, DEVICE, gemm.TABLE, "resident"
    )
    trainer.load(dataset)
    trainer.run(Order(0, 0, samples), 0, min(2, count))
    return trainer


SGEMM = [
    ("4096^3 NN", 4096, 4096, 4096, True, False),
    ("4096^3 NT", 4096, 4096, 4096, True, True),
    ("4096^3 TN", 4096, 4096, 4096, False, False),
    ("1024^3 NN", 1024, 1024, 1024, True, False),
    ("8192^3 NN", 8192, 8192, 8192, True, False),
]

LINEAR = [
    ("mlp 1 y, batch 64", 64, 256, 784, True, True),
    ("mlp 1 dw, batch 64", 256, 784, 64, False, False),
    ("784-256 y, batch 1024", 1024, 256, 784, True, True),
    ("784-256 dw, batch 1024", 256, 784, 1024, False, False),
    ("256-256 dx, batch 1024", 1024, 256, 256, True, False),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sgemm", "linear", "conv", "nets"))
    only = parser.parse_args().only
    print(f"{DEVICE.name}, {DEVICE.arch}; peak taken as {PEAK / 1e12:.1f} TFLOP/s")
    if only in (None, "sgemm"):
        products(SGEMM)
    if only in (None, "nets"):
        steps()
    if only in (None, "conv"):
        convolutions()
    if only in (None, "linear"):
        products(LINEAR)
    print(f"{math.ceil(time.perf_counter() - BEGAN)} s")


if __name__ == "__main__":
    main()
