"""The gemm kernels beyond the cases that every kernel has: every tile, sums cut into parts, folded upsampling, pools,
few channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_layers import _layers as check
from kernel_tools import close, nan, send
from references import conv2d
from segments_here import for_layers

from warpladder.device import Device, Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import Conv2d, Layer, Linear, MaxPool2d, ReLU, Shape, Upsample2d
from warpladder.ops.conv2d.few_inputs.few_inputs import RowsGradient
from warpladder.ops.conv2d.gemm import GemmConv2d
from warpladder.ops.conv2d.gradients import TILES, Gradients, WeightGradient
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.products import GemmConvolution, Geometry, pack
from warpladder.ops.cost.plans import Planner, ranked
from warpladder.ops.cost.tiles import CANDIDATES, GemmProblem, Tile, TilePlan, gemm
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.kernels import OnDevice
from warpladder.ops.engine.segments import Segment
from warpladder.ops.linear.gemm import GemmLinear
from warpladder.ops.linear.products import Product
from warpladder.proof.tolerance import bound

emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

H200 = Limits("a large GPU", multiprocessors=132)


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, marks=pytest.mark.slow), pytest.param(16, marks=pytest.mark.nightly), 132],
    ids=lambda count: f"{count} multiprocessors",
)
def device(request: pytest.FixtureRequest) -> Device:
    """A device that believes to have so many multiprocessors: the more there are, the more parts sums are cut into."""
    return sized(request.param)


def sized(multiprocessors: int, order: str = "forward") -> EmulatedDevice:
    device = EmulatedDevice(order=order, seed=3)
    device.limits = replace(device.limits, multiprocessors=multiprocessors)
    return device


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


R, P, U = ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2)

CONVOLUTIONS: list[tuple[tuple[Layer, ...], Shape]] = [
    ((Conv2d(out_channels=9, kernel_size=3, padding=1),), (13, 6, 4)),
    ((Conv2d(out_channels=3, kernel_size=4, padding=3),), (2, 2, 3)),
    ((Conv2d(out_channels=5, kernel_size=3, padding=9),), (2, 3, 3)),  # most pixels see nothing but padding
    ((Conv2d(out_channels=3, kernel_size=1, stride=2),), (4, 5, 4)),  # classes of pixels that no tap meets
    ((Conv2d(out_channels=17, kernel_size=3, stride=2, padding=1), R), (20, 7, 8)),
    ((Conv2d(out_channels=34, kernel_size=3, padding=1), R), (24, 5, 5)),
    ((Conv2d(out_channels=2, kernel_size=5, stride=4, padding=2), R), (9, 11, 10)),
    ((Conv2d(out_channels=40, kernel_size=3, padding=1), R, P), (16, 8, 8)),
    ((Conv2d(out_channels=6, kernel_size=3), R, P), (3, 9, 8)),
    ((Conv2d(out_channels=5, kernel_size=3, padding=1), R, P), (9, 5, 7)),  # rows and columns that the pool leaves out
    ((Conv2d(out_channels=33, kernel_size=3, padding=1), R, P), (3, 16, 12)),
    ((Conv2d(out_channels=70, kernel_size=3), R), (1, 9, 12)),  # more outputs than a block has
    ((Conv2d(out_channels=6, kernel_size=2, stride=2, padding=1),), (5, 7, 4)),
    ((Conv2d(out_channels=5, kernel_size=2, padding=2), R, P), (5, 9, 12)),
    (
        (Conv2d(out_channels=3, kernel_size=17, padding=8), R),
        (9, 3, 4),
    ),  # kernels too large for a block's shared memory
    ((U, Conv2d(out_channels=7, kernel_size=3, padding=1), R), (12, 4, 3)),
    ((U, Conv2d(out_channels=3, kernel_size=3, padding=1)), (9, 4, 4)),  # all classes at once
    ((Upsample2d(scale_factor=3), Conv2d(out_channels=4, kernel_size=3, padding=1)), (2, 3, 2)),
    ((U, Conv2d(out_channels=4, kernel_size=5, padding=1), R), (8, 3, 4)),
    ((U, Conv2d(out_channels=4, kernel_size=2), R), (8, 3, 4)),  # classes of different sizes
    ((U, Conv2d(out_channels=2, kernel_size=1)), (5, 3, 4)),
    ((Upsample2d(scale_factor=1), Conv2d(out_channels=3, kernel_size=3)), (3, 5, 4)),
]


@emulated
@pytest.mark.parametrize(("layers", "in_shape"), CONVOLUTIONS)
@pytest.mark.parametrize(
    ("capacity", "n"),
    [pytest.param(1, 1, marks=pytest.mark.slow), pytest.param(5, 2, marks=pytest.mark.nightly), (19, 18)],
)
@pytest.mark.parametrize("want_dx", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.by_day("layers0-", "layers2-", "layers9-", "layers11-", "layers14-", "layers15-", "layers17-", "layers19-")
def test_convolutions(
    device: Device, layers: tuple[Layer, ...], in_shape: Shape, capacity: int, n: int, want_dx: bool
) -> None:
    check(device, GemmConv2d, layers, in_shape, capacity, n, want_dx, 256)


@emulated
@pytest.mark.parametrize(
    ("capacity", "n"), [(1, 1), pytest.param(5, 2, marks=pytest.mark.nightly), (67, 67), (700, 650)]
)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (13, 3), (4, 10), (256, 10), (20, 16), (133, 17), (64, 72)])
@pytest.mark.parametrize("after", [(), pytest.param((R,), marks=pytest.mark.slow)], ids=["", "ReLU"])
@pytest.mark.by_day("--1-1-1-", "--1-1-67", "--4-10-700", "--256-10-1-1", "--64-72-700")
def test_linear(device: Device, inputs: int, outputs: int, capacity: int, n: int, after: tuple[Layer, ...]) -> None:
    check(device, GemmLinear, (Linear(out_features=outputs), *after), (inputs,), capacity, n, True, 256)


def using(planner: Planner[TilePlan], n: int, tile: Tile, parts: int) -> None:
    """Compute by this tile, in about so many parts."""
    problem = planner.problem(n)
    assert isinstance(problem, GemmProblem)
    terms = dict(problem.terms)[tile]
    depth = -(-terms // parts // tile.bk) * tile.bk
    planner.use(n, TilePlan(tile, depth, -(-terms // depth)))


@emulated
@pytest.mark.parametrize(
    "tile",
    [pytest.param(tile, marks=[pytest.mark.slow] if number % 5 else []) for number, tile in enumerate(CANDIDATES)],
    ids=str,
)
def test_every_tile_multiplies(tile: Tile) -> None:
    """More than one tile each way, ragged, in one part and in three."""
    device = sized(132)
    m, n, k = tile.bm + 3, tile.bn + 4, 2 * tile.bk + 5
    a, b, bias = normal(1, m, k), normal(2, k, n), normal(3, n)
    truth = np.maximum(a.astype(float) @ b + bias, 0)
    product = Product(OnDevice(device, 256), lambda _: (m, n, k), 1, a_along=True, b_along=False)
    for parts in (1, 3):
        using(product.plan, 1, tile, parts)
        product.parts = device.array(nan(product.plan(1).parts * m * n))
        c = device.array(nan(m, n))
        send(product.launches(1, device.array(a), device.array(b), c, device.array(bias), fused_relu=True))
        close(c.download(), truth, abs(a) @ abs(b) + abs(bias), bound("float32", k + 1), f"{parts} parts")


@emulated
@pytest.mark.parametrize(
    "tile",
    [pytest.param(tile, marks=[pytest.mark.slow] if number % 5 else []) for number, tile in enumerate(CANDIDATES)],
    ids=str,
)
def test_every_tile_convolves(tile: Tile) -> None:
    device, n = sized(132), 5
    x, w, b = normal(1, n, 9, 8, 7), normal(2, 21, 9, 3, 3), normal(3, 21)
    truth = conv2d.forward(x.astype(float), w, b, 1, 1)
    scale = conv2d.forward(abs(x).astype(float), abs(w), abs(b), 1, 1)
    part = GemmConvolution(OnDevice(device, 256), Geometry((9, 8, 7), (21, 8, 7), 3, 1, 1), n)
    for parts in (1, 3):
        using(part.plan, n, tile, parts)
        part.partials = device.array(nan(part.plan(n).parts * truth.size))
        y = device.array(nan(*truth.shape))
        send([pack(n, device.array(w), part, None), *part.launches(n, device.array(x), device.array(b), y)])
        close(y.download(), truth, scale, bound("float32", 82), f"{parts} parts")


@emulated
@pytest.mark.parametrize(
    "tile",
    [pytest.param(tile, marks=[pytest.mark.slow] if number % 5 else []) for number, tile in enumerate(TILES)],
    ids=str,
)
def test_every_tile_correlates(tile: Tile) -> None:
    device, n = sized(132), 5
    x, w, dy = normal(1, n, 9, 8, 7), normal(2, 21, 9, 3, 3), normal(3, n, 21, 6, 5)
    _, truth, _ = conv2d.backward(x, w, dy.astype(float), 1, 0)
    _, scale, _ = conv2d.backward(abs(x), w, abs(dy).astype(float), 1, 0)
    part = WeightGradient(OnDevice(device, 256), FusedConv((9, 8, 7), (21, 6, 5), ConvWindow(3, 1, 0)), n)
    for parts in (1, 3):
        using(part.plan, n, tile, parts)
        part.partials = device.array(nan(part.plan(n).parts * 21 * part.columns))
        dw, db, sums = device.array(nan(*w.shape)), device.array(nan(21)), device.array(normal(4, 2, 21))
        send(part.launches(n, device.array(x), device.array(dy), sums, 2, Gradients(dw, db)))
        close(dw.download(), truth, scale, bound("float32", n * 30), f"dw in {parts} parts")
        close(db.download(), sums.download().sum(0), 1.0, bound("float32", 2), "db")


@emulated
@pytest.mark.parametrize(
    ("op", "layers", "in_shape"),
    [
        (GemmLinear, (Linear(out_features=3), R), (130,)),
        (GemmLinear, (Linear(out_features=40), R), (130,)),
        (GemmConv2d, (Conv2d(out_channels=6, kernel_size=3), R, P), (3, 9, 8)),
        (GemmConv2d, (U, Conv2d(out_channels=20, kernel_size=3, padding=1), R), (9, 4, 4)),
    ],
)
@pytest.mark.by_day("GemmLinear-layers1", "GemmConv2d-layers3")
def test_the_same_bits_whatever_came_before(op: type[Segment], layers: tuple[Layer, ...], in_shape: Shape) -> None:
    """In three orders of threads; and nothing of an earlier batch, larger or smaller, stays in the scratch memory."""
    found = []
    for order in ("forward", "reverse", "random"):
        device = sized(16, order)
        shape, wb = in_shape, []
        for layer in layers:
            wb += [normal(3, *size) for size in layer.param_shapes(shape).values()]
            shape = layer.out_shape(shape)
        x, dy = normal(1, 30, *in_shape), normal(2, 30, *shape)
        y, dx, dw, db = (nan(*size) for size in (dy.shape, x.shape, *(p.shape for p in wb)))
        on = [device.array(array) for array in (x, y, dx, dy, *wb, dw, db)]
        segment = for_layers(op, device, layers, Buffers(*on))
        for n in (30, 7, 1, 30, 7):
            on[3].upload(dy)
            send(segment.prepare(whole(n)))
            send(segment.forward(whole(n)))
            send(segment.backward(whole(n)))
            found.append(
                (
                    n,
                    on[1].download()[:n].tobytes(),
                    *(on[i].download().tobytes() for i in (6, 7)),
                    on[2].download()[:n].tobytes(),
                )
            )
    for n in (30, 7, 1):
        assert len({bits[1:] for bits in found if bits[0] == n}) == 1


@emulated
@pytest.mark.parametrize("multiprocessors", [1, 132])
@pytest.mark.parametrize(
    ("layers", "in_shape"),
    [
        ((Conv2d(out_channels=6, kernel_size=3, stride=2), R), (5, 7, 8)),
        ((U, Conv2d(out_channels=20, kernel_size=3, padding=1), R), (9, 4, 4)),
        ((Conv2d(out_channels=5, kernel_size=3, padding=1), R), (2, 4, 4)),
        (
            (Conv2d(out_channels=7, kernel_size=2, stride=2), R),
            (2, 5, 5),
        ),  # its input gradient computes all classes at once
    ],
)
@pytest.mark.by_day("layers0-in_shape0-1", "layers1-in_shape1-132", "layers2-in_shape2-132", "layers3")
def test_a_relus_gradient_on_the_way(multiprocessors: int, layers: tuple[Layer, ...], in_shape: Shape) -> None:
    """The same bits as when the gradient is relu_output in a pass of its own, below the op and above it."""
    device, n = sized(multiprocessors), 3
    large = layers[0].out_shape(in_shape) if len(layers) == 3 else in_shape
    shape = layers[-2].out_shape(large)
    w, b = (normal(3, *size) for size in layers[-2].param_shapes(large).values())
    x, dy, found = np.maximum(normal(1, n, *in_shape), 0), normal(2, n, *shape), []
    for relu_output in (False, True):
        y, dx, dw, db = (device.array(nan(*size)) for size in (dy.shape, x.shape, w.shape, b.shape))
        given = device.array(dy)
        buffers = Buffers(device.array(x), y, dx, given, device.array(w), device.array(b), dw, db)
        op = for_layers(GemmConv2d, device, layers, buffers, relu_output=relu_output)
        send(op.prepare(whole(n)))
        send(op.forward(whole(n)))
        if relu_output:
            given.upload(np.where(y.download() > 0, dy, np.float32(0)))
        send(op.backward(whole(n)))
        wanted = dx.download()
        found.append(
            [(wanted if relu_output else np.where(x > 0, wanted, np.float32(0))), dw.download(), db.download()]
        )
    for plain, on_the_way in zip(*found, strict=True):
        assert np.array_equal(plain, on_the_way)


@emulated
@pytest.mark.parametrize(
    "layers",
    [(Conv2d(out_channels=2, kernel_size=1), R), (Conv2d(out_channels=2, kernel_size=1), R, P)],
    ids=["ReLU", "pool"],
)
def test_nan_goes_on(layers: tuple[Layer, ...]) -> None:
    """A NaN that ReLU or a pool swallowed would hide that training has diverged."""
    device = sized(1)
    x = np.ones((1, 1, 2, 2), np.float32)
    x[0, 0, 1, 0] = np.nan
    shape = (1, 2, 1, 1) if len(layers) > 2 else (1, 2, 2, 2)
    y = device.array(np.zeros(shape, np.float32))
    buffers = Buffers(device.array(x), y, w=device.array(normal(1, 2, 1, 1, 1)), b=device.array(normal(2, 2)))
    send(for_layers(GemmConv2d, device, layers, buffers).forward(whole(1)))
    assert np.isnan(y.download().reshape(2, -1)).sum(axis=1).tolist() == [1, 1]


def test_layers_that_it_refuses() -> None:
    taken = [
        (Conv2d(out_channels=2, kernel_size=3), R),
        (Conv2d(out_channels=2, kernel_size=3, stride=2), R, P),
        (U, Conv2d(out_channels=2, kernel_size=3, padding=2)),
    ]
    refused = [
        (Conv2d(out_channels=2, kernel_size=3), R, MaxPool2d(3)),
        (Conv2d(out_channels=2, kernel_size=3), R, MaxPool2d(2, 1)),
        (U, Conv2d(out_channels=2, kernel_size=3, stride=2)),
        (U, Conv2d(out_channels=2, kernel_size=3, padding=3)),
    ]
    assert all(GemmConv2d.takes(subgraph(layers, (3, 8, 8), 5, H200)) for layers in taken)
    assert not any(GemmConv2d.takes(subgraph(layers, (3, 8, 8), 5, H200)) for layers in refused)


def test_rows_are_read_only_where_a_lane_can_keep_the_weights_of_a_channel() -> None:
    for c, k, stride in ((3, 3, 1), (4, 3, 1), (3, 3, 2), (1, 7, 3), (4, 7, 1)):
        assert RowsGradient.supports(FusedConv((c, 32, 32), (8, 32, 32), ConvWindow(k, stride, 1)), H200)
    for read, k in (((5, 32, 32), 3), ((3, 32, 32), 9), ((3, 32, 4096), 3)):
        assert not RowsGradient.supports(FusedConv(read, read, ConvWindow(k, 1, 1)), H200)


#: First layers of few channels: the input, and the layers.
ROWS: list[tuple[Shape, tuple[Layer, ...]]] = [
    ((3, 9, 11), (Conv2d(out_channels=5, kernel_size=3, padding=1), R)),
    ((1, 28, 28), (Conv2d(out_channels=6, kernel_size=5, padding=2), R, P)),
    ((2, 13, 40), (Conv2d(out_channels=33, kernel_size=3, stride=2),)),
    ((4, 8, 9), (Conv2d(out_channels=17, kernel_size=3), R, P)),
    ((1, 19, 7), (Conv2d(out_channels=8, kernel_size=7, stride=3, padding=3), R)),
    ((3, 12, 70), (Conv2d(out_channels=40, kernel_size=5, stride=2, padding=1), R, P)),
    ((4, 9, 10), (Conv2d(out_channels=3, kernel_size=7, stride=2, padding=3), R, P)),
    ((1, 5, 5), (Conv2d(out_channels=1, kernel_size=1),)),
]


@emulated
@pytest.mark.parametrize(("read", "layers"), ROWS)
@pytest.mark.parametrize(("n", "processors"), [(2, 132), (6, 1)])
@pytest.mark.by_day("2-132-read0", "6-1-read1", "2-132-read4", "6-1-read6")
def test_weight_gradients_row_by_row(read: Shape, layers: tuple[Layer, ...], n: int, processors: int) -> None:
    """Any window, stride, padding and number of outputs, through a ReLU and a pool; in few parts and in many."""
    conv = FusedConv.of(layers, (read[0], read[1], read[2]))
    assert RowsGradient.supports(conv, H200)
    check(sized(processors), GemmConv2d, layers, read, 7, n, False, 256)


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 1, 1), (64, 256, 784), (4096, 4096, 4096), (128, 65536, 2304), (10, 784, 59000), (3, 5, 10**6)],
)
def test_plans_cover_the_sums(m: int, n: int, k: int) -> None:
    problem = gemm((m, n, k), H200)
    planner = Planner(lambda _: problem, 1)
    planner.partials = 10**7
    found = planner.options(1)
    assert found
    for plan in found:
        assert plan.depth % plan.tile.bk == 0
        assert (plan.parts - 1) * plan.depth < k <= plan.parts * plan.depth
        assert plan.parts == 1 or plan.parts * m * n <= 10**7
    assert [problem.cycles(plan) for plan in found] == sorted(problem.cycles(plan) for plan in found)


def test_plans_keep_to_the_device() -> None:
    small = Limits("a small GPU", shared_opt_in=24 << 10, multiprocessors=4)
    found = ranked(gemm((512, 512, 512), small))
    assert 0 < len({plan.tile for plan in found}) < len(CANDIDATES)
    assert all(plan.tile.shared <= 24 << 10 for plan in found)


@pytest.mark.parametrize("tile", CANDIDATES, ids=str)
def test_a_tile_is_whole_warps_and_fits_every_gpu(tile: Tile) -> None:
    assert tile.threads % 32 == 0
    assert tile.shared <= 64 << 10  # sm_75 has no more


def test_partials_are_what_every_batch_needs() -> None:
    planner = Planner(lambda n: gemm((128, 64 * n, 1152), H200), 100)
    for n in range(1, 101):
        plan = planner(n)
        assert plan.parts == 1 or plan.parts * 128 * 64 * n <= planner.partials
    with_every_sum = Planner(lambda n: gemm((32, 144, 576 * n), H200, is_whole=False), 64)
    assert all(with_every_sum(n).parts * 32 * 144 <= with_every_sum.partials for n in range(1, 65))
