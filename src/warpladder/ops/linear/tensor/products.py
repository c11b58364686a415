"""Products of packed factors on tensor cores, as launches."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ....device import Array, Launch
from ...engine.kernels import OnDevice, ceil_div
from ...update.fused import NOTHING
from .packed import Formats, Outlet, PackedFactor
from .tiles import PackedTile, packed_planner, tiles_of

NOWHERE = Outlet()


class TensorProduct:
    """C (m, n) = A B with sums of k terms, one launch, for up to `capacity` samples.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    shape : callable
        m, n and k for a number of samples.
    capacity : int
    formats : Formats

    Attributes
    ----------
    plan : PackedPlanner
        The tile, and the parts that sums are cut into: by the model, or as a tuner has found.
    parts, arrived : Array or None
        Where blocks leave parts of sums, and count themselves, where sums of some number of samples are cut.
    """

    def __init__(
        self, owner: OnDevice, shape: Callable[[int], tuple[int, int, int]], capacity: int, formats: Formats
    ) -> None:
        self.device, self.shape, self.formats = owner.device, shape, formats
        self.plan = packed_planner(shape, owner.device.limits, capacity, formats, tiles_of(owner.device))
        self.parts = owner.scratch((self.plan.partials,)) if self.plan.partials else None
        self.arrived = owner.scratch((self.plan.counters,), np.uint32) if self.plan.partials else None
        if self.arrived is not None:
            self.device.fill(self.arrived, 0)

    def launch(
        self, samples: int, a: PackedFactor, b: PackedFactor, c: Array | None, bias: Array | None = None,
        fused_relu: bool = False,
        gate: Array | None = None, to: Outlet = NOWHERE, updated: tuple[object, ...] = NOTHING,
    ) -> Launch:  # fmt: skip
        """c = A B + bias (n,), then max(., 0) where it is wanted, and 0 where gate (m, n) is not above 0; packed where
        `to` says, too. c may be None.

        updated : arguments of an update, as `fused.settings` gives them, where c is a gradient: its parameters are
        updated, and packed in place of c.
        """
        plan, (m, n, k) = self.plan(samples), self.shape(samples)
        tile = plan.tile
        assert isinstance(tile, PackedTile)
        cut = (self.parts, self.arrived) if plan.parts > 1 else (None, None)
        launch = self.device.kernel(tile.source, tile.kernel(self.formats)).bind(
            (tile.blocks(m, n), plan.parts), tile.threads, a.numbers, a.inverse_scale, a.lines, b.numbers,
            b.inverse_scale, b.lines,
            bias, gate, c, *to.arguments(), to.sums, *cut, m, n, ceil_div(k, self.formats.kind.terms), plan.depth,
            int(fused_relu), *updated,
            shared=tile.shared_of(self.formats), cluster=prod(tile.cluster),
        )  # fmt: skip
        self.plan.mark([launch])
        return launch
