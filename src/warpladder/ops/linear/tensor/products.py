"""Products of packed factors on tensor cores, as launches."""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from ....device import Array, Launch
from ...engine.kernels import OnDevice, ceil_div
from ...update.fused import NOTHING
from .packed import Formats, Outlet, PackedFactor
from .tiles import PackedTile, packed_planner, tiles_of

NOWHERE = Outlet()


class ProductEnd(NamedTuple):
    """Operations fused after a product (m, n), before each sum is stored.

    bias : (n,), added to each row, or None.
    fused_relu : True if max(., 0) follows.
    relu_mask : (m, n); the product becomes 0 where relu_mask is not above 0. None for no mask.
    """

    bias: Array | None = None
    fused_relu: bool = False
    relu_mask: Array | None = None


STORE = ProductEnd()


class TensorProduct:
    """Product C (m, n) = A B with sums of k terms in one launch, for up to `capacity` samples; `owner` holds the
    scratch memory.

    shape : m, n and k for a number of samples.
    plan : the tile, and the split of sums, by the cost model or by a tuner.
    parts, arrived : split-K partials, and counters of arrived blocks; None if sums are never split.
    """

    def __init__(
        self, owner: OnDevice, shape: Callable[[int], tuple[int, int, int]], capacity: int, formats: Formats
    ) -> None:
        self.device, self.shape, self.formats = owner.device, shape, formats
        self.plan = packed_planner(shape, owner.device.limits, capacity, formats, tiles_of(owner.device))
        self.parts = owner.scratch((self.plan.partials,)) if self.plan.partials else None
        self.arrived = owner.counters(self.plan.counters) if self.plan.partials else None

    def launch(
        self, samples: int, a: PackedFactor, b: PackedFactor, c: Array | None, end: ProductEnd = STORE,
        to: Outlet = NOWHERE, updated: tuple[object, ...] = NOTHING,
    ) -> Launch:  # fmt: skip
        """Launch of c = A B with `end` applied to each sum, also packed to `to`. c may be None.

        updated : arguments of an update (`fused.settings`) if c is a gradient: the launch updates and packs the
        parameters.
        """
        plan, (m, n, k) = self.plan(samples), self.shape(samples)
        tile = plan.tile
        assert isinstance(tile, PackedTile)
        cut = (self.parts, self.arrived) if plan.parts > 1 else (None, None)
        factors = a.numbers, a.inverse_scale, a.lines, b.numbers, b.inverse_scale, b.lines
        written = end.bias, end.relu_mask, c, *to.arguments(), to.sums, *cut
        numbers = m, n, ceil_div(k, self.formats.kind.terms), plan.depth, int(end.fused_relu)
        launch = self.device.kernel(tile.source, tile.kernel(self.formats)).bind(
            (tile.blocks(m, n), plan.parts), tile.threads, *factors, *written, *numbers, *updated,
            shared=tile.shared_of(self.formats), cluster=prod(tile.cluster),
        )  # fmt: skip
        self.plan.mark([launch])
        return launch
