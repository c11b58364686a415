"""Plan of the first convolutions: outputs of a thread, shared memory of a block, and estimated cycles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...device import Limits
from ..engine.kernels import ceil_div
from .stages import ConvStage

THREADS = 256
#: Outputs of which a thread computes four neighbouring pixels, or the weights of a row of the window.
OUTPUTS = (8, 4, 2)
#: Most blocks of a multiprocessor.
RESIDENT = 4
#: Cycles that a pass of the threads takes next to its products, and a block before and after its sample, each way.
#: These and the factors below are fitted to five nets on an H100 (docs/notes/graph.md).
PASS_CYCLES, SAMPLE_CYCLES = 600, 2500
#: Measured cycles of products, as multiples of the estimate: of a block alone, and of several blocks together.
ALONE, TOGETHER = 2.0, 1.4
#: Cycles of an output that is stored and whose gradient is loaded.
STORED_CYCLES = 1.0
#: Cycles of a launch in a graph, and of those that another layer takes, six of them with latencies of their own;
#: multiply-adds a cycle of a multiprocessor in kernels of one layer each.
LAUNCH_CYCLES, LAYER_CYCLES, LAYER_RATE = 4000, 36_000, 46


def quads(count: int) -> int:
    """Groups of four that hold `count` numbers."""
    return ceil_div(count, 4)


def _pitch(columns: int) -> int:
    """Floats from row to row: at least `columns`, in an odd number of quads, so that rows begin in different banks."""
    return 4 * (quads(columns) | 1)


@dataclass(frozen=True)
class Grid:
    """Rows of planes in shared memory with a border of zeros. top, left : rows and columns of the border."""

    planes: int
    rows: int
    pitch: int
    top: int
    left: int

    @property
    def size(self) -> int:
        return self.planes * self.rows * self.pitch


@dataclass(frozen=True)
class StagePlan:
    """Plan of one stage.

    input : grid of its input. gradient : grid of the gradient by the convolution's output, with zeros between the
    pixels of a stride if there is an input gradient.
    forward, backward, weights : outputs of a thread in the convolution, in the input gradient, in the weight gradient.
    splits : threads that share the sum of a weight over the rows of pixels.
    """

    stage: ConvStage
    has_dx: bool
    input: Grid
    gradient: Grid
    forward: int
    backward: int
    weights: int
    splits: int


@dataclass(frozen=True)
class FrontPlan:
    """Plan of all stages, for blocks of `threads`.

    forward_shared, backward_shared : floats of a block's shared memory.
    cycles : estimate for a sample's forward and backward pass by one block.
    busy : those of them in which the sample's products occupy the multiprocessor, so that other blocks wait.
    """

    stages: tuple[StagePlan, ...]
    threads: int
    forward_shared: int
    backward_shared: int
    cycles: float
    busy: float

    def blocks(self, n: int, limits: Limits, shared: int) -> int:
        """Number of blocks that have equally many of n samples, but for the last ones. shared : floats of a block."""
        return ceil_div(n, ceil_div(n, _resident(limits, shared) * limits.multiprocessors))


def _resident(limits: Limits, shared: int) -> int:
    """Number of blocks with this many floats of shared memory that a multiprocessor runs at once."""
    return max(1, min(RESIDENT, limits.shared_per_multiprocessor // (4 * shared + limits.shared_reserved)))


@cache
def planned(stages: tuple[ConvStage, ...], n: int, limits: Limits) -> FrontPlan | None:
    """Plan of these stages; None if shared memory does not hold a sample, or kernels of a layer each are faster."""
    found = fitting(stages, limits)
    if found is None:
        return None
    products = sum(stage.products * (3 if number else 2) for number, stage in enumerate(stages))
    apart = 4 * LAUNCH_CYCLES + LAYER_CYCLES * (len(stages) - 1)  # the gathering, y, dw and its sum; other layers
    most = apart + n * products / (LAYER_RATE * limits.multiprocessors)
    rounds = ceil_div(n, _resident(limits, found.backward_shared) * limits.multiprocessors)
    own = 3 * LAUNCH_CYCLES + max(rounds * found.cycles, n / limits.multiprocessors * found.busy)
    return found if own < most else None


@cache
def fitting(stages: tuple[ConvStage, ...], limits: Limits) -> FrontPlan | None:
    """Plan of these stages; None if shared memory does not hold a sample."""
    plans = tuple(_stage(stage, number > 0) for number, stage in enumerate(stages))
    forward, backward = forward_floats(plans), backward_floats(plans)
    if 4 * max(forward, backward) + 1024 > limits.shared_opt_in:
        return None
    products, passes = sum(map(_products, plans)), PASS_CYCLES * sum(2 + each.has_dx for each in plans)
    stored = STORED_CYCLES * sum(stage.o * stage.rows * stage.columns for stage in stages)
    cycles = 2 * SAMPLE_CYCLES + passes + stored + ALONE * products
    return FrontPlan(plans, THREADS, forward, backward, cycles, TOGETHER * products)


def filters(outputs: int, together: int, inputs: int, k: int) -> int:
    """Number of floats of filters in shared memory, `together` outputs next to each other."""
    return 4 * quads(inputs * k * k * ceil_div(outputs, together) * together)


def forward_floats(plans: tuple[StagePlan, ...]) -> int:
    """Number of floats of shared memory forward: filters and inputs of all stages, and the largest output before a
    pool.
    """
    return sum(
        filters(each.stage.o, each.forward, each.stage.c, each.stage.k) + each.input.size for each in plans
    ) + max(_unpooled(each.stage) for each in plans)


def _unpooled(stage: ConvStage) -> int:
    return 4 * quads(stage.o * stage.high * stage.wide) if stage.pool > 1 else 0


def backward_floats(plans: tuple[StagePlan, ...]) -> int:
    """Number of floats of shared memory backward: filters, inputs, gradients, sums of the weights, and their parts."""
    kept = sum(
        (filters(each.stage.c, each.backward, each.stage.o, each.stage.k) if each.has_dx else 0)
        + each.input.size + each.gradient.size + 4 * quads(each.stage.weights + each.stage.o)
        for each in plans
    )  # fmt: skip
    return kept + max(parts(each) for each in plans)


def parts(plan: StagePlan) -> int:
    """Number of floats of the parts of a stage's weight gradient."""
    return 4 * quads(plan.splits * plan.stage.weights) if plan.splits > 1 else 0


def _stage(stage: ConvStage, has_dx: bool) -> StagePlan:
    k, stride, tiles = stage.k, stage.stride, quads(stage.wide)
    read = 4 * (tiles - 1) * stride + 4 * quads(3 * stride + k)  # columns of a row that the last thread loads
    input = Grid(
        stage.c, stage.h + 2 * stage.padding, _pitch(max(read, stage.w + 2 * stage.padding)), stage.padding,
        stage.padding,
    )  # fmt: skip
    top = k - 1 - stage.padding if has_dx else 0
    left, step = 4 * quads(top), stride if has_dx else 1
    rows, columns = top + (stage.high - 1) * step + 1, left + (stage.wide - 1) * step + 1
    if has_dx:
        rows = max(rows, stage.h + k - 1)
        columns = max(columns, 4 * (quads(stage.w) - 1) + 4 * quads(left - top + 3 + k))
    gradient = Grid(stage.o, rows, _pitch(columns), top, left)
    forward = min(OUTPUTS, key=lambda each: _convolution(stage.o, stage.high, stage.wide, stage.c, k, each))
    backward = min(OUTPUTS, key=lambda each: _convolution(stage.c, stage.h, stage.w, stage.o, k, each))
    weights = min(OUTPUTS, key=lambda each: _weights(stage, each))
    return StagePlan(stage, has_dx, input, gradient, forward, backward, weights, _splits(stage, weights))


def _splits(stage: ConvStage, together: int) -> int:
    """Threads that share a sum over the rows, so that all threads have one."""
    items = ceil_div(stage.o, together) * stage.c * stage.k
    return max(1, min(stage.high, THREADS // items))


def _convolution(outputs: int, high: int, wide: int, inputs: int, k: int, together: int) -> float:
    """Estimated cycles of a convolution, `together` outputs of a thread: arithmetic or shared memory, and latency."""
    items = ceil_div(outputs, together) * high * quads(wide)
    warps, rounds, sums = ceil_div(items, 32), ceil_div(items, THREADS), inputs * k
    row = max(together * k, 4 * quads(3 + k) + k * ceil_div(together, 4))
    return sums * max(warps * row, rounds * (4 * together * k + 40))


def _weights(stage: ConvStage, together: int) -> float:
    """Estimated cycles of a weight gradient, `together` outputs of a thread."""
    splits, tiles = _splits(stage, together), quads(stage.wide)
    items = ceil_div(stage.o, together) * stage.c * stage.k * splits
    warps, rounds = ceil_div(items, 32), ceil_div(items, THREADS)
    tile = max(together * stage.k, 4 * quads(3 * stage.stride + stage.k) + together)
    each = ceil_div(stage.high, splits) * tiles
    return each * max(warps * tile, rounds * (4 * together * stage.k + 40))


def _products(plan: StagePlan) -> float:
    """Estimated cycles of the products of a sample, both ways."""
    stage = plan.stage
    found = _convolution(stage.o, stage.high, stage.wide, stage.c, stage.k, plan.forward) + _weights(
        stage, plan.weights
    )
    return found + plan.has_dx * _convolution(stage.c, stage.h, stage.w, stage.o, stage.k, plan.backward)
