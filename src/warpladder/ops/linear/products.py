"""Matrix products in fp32 on a device, as launches."""

from collections.abc import Callable
from pathlib import Path

from ...device import Array, Device, Launch
from ..cost.plans import Planner
from ..cost.tiles import ACROSS, ALONG, gemm
from ..engine.base import Buffers
from ..engine.kernels import Launches, OnDevice, ceil_div

GEMM = Path(__file__).with_name("gemm.cu")

THREADS = 256


class Product:
    """Product C (m, n) = A B with sums of k terms, for up to `capacity` samples; `owner` holds the scratch memory.

    shape : m, n and k for a number of samples.
    a_along, b_along : True if A is stored as (m, k), not (k, m), and B as (n, k), not (k, n).
    """

    def __init__(
        self, owner: OnDevice, shape: Callable[[int], tuple[int, int, int]], capacity: int, a_along: bool, b_along: bool
    ) -> None:  # fmt: skip
        self.device, self.shape, self.a_along, self.b_along = owner.device, shape, a_along, b_along
        copies = ALONG if a_along else ACROSS, ALONG if b_along else ACROSS
        limits = self.device.limits
        self.plan = Planner(lambda n: gemm(shape(n), limits, copies=copies), capacity)
        self.parts = owner.scratch((self.plan.partials,)) if self.plan.partials else None

    def product(
        self, samples: int, a: Array, b: Array, c: Array, bias: Array | None = None, fused_relu: bool = False
    ) -> tuple[Launch, int]:
        """Launch, and number of split-K parts: one part is final, in c; more are in `parts`, without bias and ReLU."""
        plan, (m, n, k) = self.plan(samples), self.shape(samples)
        tile, whole = plan.tile, plan.parts == 1
        kernel = self.device.kernel(GEMM, f"gemm<{tile}, {_how(self.a_along, m)}, {_how(self.b_along, n)}>")
        grid = ceil_div(m, tile.bm) * ceil_div(n, tile.bn), plan.parts
        arrays = (a, b, bias, c) if whole else (a, b, None, self.parts)
        numbers = m, n, k, plan.depth, int(fused_relu and whole)
        launch = kernel.bind(grid, tile.threads, *arrays, *numbers, shared=tile.shared)
        self.plan.mark([launch])
        return launch, plan.parts

    def launches(
        self, samples: int, a: Array, b: Array, c: Array, bias: Array | None = None, fused_relu: bool = False
    ) -> Launches:
        """Launches of c = A B + bias (n,), then max(., 0) if `fused_relu`."""
        launch, parts = self.product(samples, a, b, c, bias, fused_relu)
        if parts == 1:
            return [launch]
        m, n, _ = self.shape(samples)
        return self.plan.mark([launch, add_parts(self.device, self.parts, parts, bias, c, m, n, fused_relu)])


def _how(along: bool, width: int) -> str:
    """Name in gemm.cu of the copy of a panel: across, by four numbers if every row begins at a multiple of 16 bytes."""
    return "ALONG" if along else "ACROSS" if width % 4 else "ACROSS_BY_4"


def add_parts(
    device: Device, sums: Array | None, parts: int, bias: Array | None, c: Array, m: int, n: int, fused_relu: bool
) -> Launch:
    """Launch of c (m, n) = sum of partials (parts, m, n) + bias (n,) unless None, then max(., 0) if `fused_relu`."""
    kernel = device.kernel(GEMM, "add_parts")
    return kernel.bind(ceil_div(m * n, THREADS), THREADS, sums, bias, c, parts, m * n, n, int(fused_relu))


class BiasGradient:
    """Bias gradient: sums of dy over the samples, in partials. It first applies the mask of a ReLU after the layer to
    dy.

    t : dy and y are (capacity, outputs), db is (outputs,).
    fused_relu : True if a ReLU follows: dy becomes 0 where y is not above 0.
    sums : (partials, outputs), or None if a single partial is written to db.
    """

    def __init__(self, owner: OnDevice, t: Buffers, fused_relu: bool) -> None:
        self.device, self.buffers, self.fused_relu = owner.device, t, fused_relu
        capacity, self.outputs = t.dy.shape
        self.kernel = owner.device.kernel(GEMM, "apply_relu_mask")
        processors = owner.device.limits.multiprocessors
        self.partials = min(ceil_div(capacity, 64), ceil_div(2 * processors, ceil_div(self.outputs, 32)))
        self.sums = owner.scratch((self.partials, self.outputs)) if self.partials > 1 else None

    def launch(self, n: int) -> tuple[Launch, int]:
        """Launch for n samples, and the number of partials; a single one is db."""
        t, partial = self.buffers, ceil_div(n, self.partials)
        partials = ceil_div(n, partial)
        grid, y = (ceil_div(self.outputs, 32), partials), t.y if self.fused_relu else None
        sums = t.db if partials == 1 else self.sums
        return self.kernel.bind(grid, THREADS, t.dy, y, sums, n, self.outputs, partial), partials

    def after(self, product: Launch, sums: Array | None, parts: int, partials: int) -> Launches:
        """Launches of the product dw and, if there are several parts of dw or partials of db, of their sums."""
        t = self.buffers
        if parts == partials == 1:
            return [product]
        weights, bias = (sums, t.dw, parts, t.dw.size), (self.sums, t.db, partials, self.outputs)
        return [product, add_gradients(self.device, weights, bias)]


def add_gradients(
    device: Device, weights: tuple[Array | None, Array, int, int], bias: tuple[Array | None, Array, int, int]
) -> Launch:  # fmt: skip
    """Launch that adds the partials of dw and db, each (partials, sum, number of parts, stride)."""
    (part, dw, parts, stride), (other, db, others, more_stride) = weights, bias
    size, more = dw.size if parts > 1 else 0, db.size if others > 1 else 0
    kernel = device.kernel(GEMM, "add_gradient_parts")
    first, second = (part if size else None, dw, parts, size, stride), (other if more else None, db, others)
    return kernel.bind(ceil_div(size + more, THREADS), THREADS, *first, *second, more, more_stride)
