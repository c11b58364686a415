"""Launchers of the general kernels: packed weights, y or dx, and dw with db."""

from dataclasses import astuple
from pathlib import Path

import numpy as np

from .....device import Array, Launch
from ....cost.plans import Planner
from ....engine.kernels import Launches, OnDevice, ceil_div
from ...gradients import Gradients, finish
from ...problem import FusedConv
from ...products import AFTER, DIRECTIONS, Geometry, add_partials
from ..formats import FORMATS
from .plan import THREADS, WIDE_THREADS, ConvolveForm, ConvolveProblem, CorrelateProblem, GeneralPlan

SOURCE = Path(__file__).with_name("product.cu")
PACK = Path(__file__).with_name("pack.cu")
WEIGHTS = Path(__file__).with_name("weights.cu")
#: Threads of a block of pack.cu.
PACKING = 512


class GeneralConvolution:
    """Launcher of y or dx of a convolution on tensor cores, for up to `capacity` images; `owner` holds the scratch
    memory.

    precision : a key of `FORMATS`.
    """

    def __init__(self, owner: OnDevice, geometry: Geometry, capacity: int, precision: str) -> None:
        self.device, self.geometry, self.kind = owner.device, geometry, FORMATS[precision]
        self.form, kind, limits = ConvolveForm.of(geometry), self.kind, owner.device.limits
        self.plan: Planner[GeneralPlan] = Planner(lambda n: ConvolveProblem(n, geometry, kind, limits), capacity)
        self.partials = owner.scratch((self.plan.partials,)) if self.plan.partials else None
        self.packed = owner.scratch((self.panels * self.form.panel_bytes(self.kind) // 4,), np.uint32)

    @property
    def panels(self) -> int:
        """Number of panels of packed weights, each packed by one block."""
        return self.geometry.classes * ceil_div(self.geometry.columns, self.form.bn) * self.form.panels

    def packing(self) -> tuple[Array, int, int, int, int]:
        """Arguments of `pack_weights`: packed weights, direction, few, outputs of a panel, panels of a phase."""
        direction, form = DIRECTIONS.index(self.geometry.direction), self.form
        return self.packed, direction, int(form.few), form.bn, form.panels

    def launches(
        self, n: int, x: Array, bias: Array | None, y: Array, relu: bool = False, argmax: Array | None = None,
        mask: Array | None = None,
    ) -> Launches:  # fmt: skip
        """Launches that fill y[:n] from x[:n] and the packed weights, with bias, ReLU and pool if there are any.

        mask : array of y's shape; y is 0 where mask is not above 0. None for no mask.
        """
        geometry, plan, form = self.geometry, self.plan(n), self.form
        problem = ConvolveProblem(n, geometry, self.kind, self.device.limits)
        tile, whole, pitch = plan.tile, plan.parts == 1, geometry.pitch(n)
        after = AFTER.index("POOL" if geometry.pool else "RELU" if relu else "PLAIN")
        done, outputs = after if whole else 4 if geometry.pool else 3, (bias, mask, y, argmax)
        kernel = self.device.kernel(SOURCE, f"convolve<{self.kind.name}, {form.bn}, {'true' if form.few else 'false'}>")
        direction = DIRECTIONS.index(geometry.direction)
        written = outputs if whole else (None, None, self.partials, None)
        shape = n, *geometry.read, *geometry.written, *geometry.window, direction
        split = *astuple(tile), form.panels, plan.depth, pitch, done
        grid, shared = (problem.blocks(tile), plan.parts), problem.shared(tile)
        product = kernel.bind(grid, THREADS, x, self.packed, *written, *shape, *split, shared=shared)
        if whole:
            return [product]
        return [product, add_partials(self.device, geometry, n, (self.partials, plan.parts), outputs, after)]


def pack(w: Array, forward: GeneralConvolution, backward: GeneralConvolution | None) -> Launch:
    """Launch that packs the weights of a layer for y, and for dx unless `backward` is None."""
    geometry, first = forward.geometry, forward.panels
    others = backward.packing() if backward is not None else (None, 0, 0, 0, 0)
    kernel = forward.device.kernel(PACK, f"pack_weights<{forward.kind.name}>")
    blocks = first + (backward.panels if backward is not None else 0)
    window = geometry.written[0], geometry.read[0], geometry.k, geometry.fold, geometry.stride, geometry.padding
    return kernel.bind(blocks, PACKING, w, *window, *forward.packing(), *others, first)


class GeneralWeightGradient:
    """Launcher of dw and db of a convolution on tensor cores, for up to `capacity` images."""

    def __init__(self, owner: OnDevice, conv: FusedConv, capacity: int, precision: str) -> None:
        self.device, self.upsample = owner.device, conv.upsample
        kind, limits, read_written, window = FORMATS[precision], owner.device.limits, conv.correlated, conv.small_window
        self.problem = lambda n: CorrelateProblem(n, *read_written, window, kind, limits)
        self.plan: Planner[GeneralPlan] = Planner(self.problem, capacity)
        self.partials = owner.scratch((self.plan.partials,))

    def launches(self, n: int, read: Array, gradient: Array, sums: Array, rows: int, to: Gradients) -> Launches:
        """Launches that fill dw from images `read` and `gradient`, and db from the first `rows` rows of sums."""
        plan, problem = self.plan(n), self.problem(n)
        tile, (c, h, w), written, kind = plan.tile, problem.read, problem.written, problem.kind
        kernel = self.device.kernel(WEIGHTS, f"correlate<{kind.name}, {'true' if problem.few else 'false'}>")
        arguments = read, gradient, self.partials, n, c, h, w, *written, *problem.window, *astuple(tile), plan.depth
        grid, shared = (problem.blocks(tile), plan.parts), problem.shared(tile)
        product = kernel.bind(grid, WIDE_THREADS, *arguments, shared=shared)
        shape = written[0], c, problem.window.k, self.upsample
        return [product, finish(self.device, (self.partials, plan.parts), (sums, rows), shape, to)]
