"""A rung from outside of the package: numpy's, but for another way to compute Linear, with an option of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warpladder import Linear
from warpladder.ladder import Options, Rung, Whole, option
from warpladder.ops.linear.array import ArrayLinear
from warpladder.ops.tables.array import TABLE
from warpladder.rungs.reasons import of_arrays
from warpladder.trainers.layerwise import LayerwiseTrainer


@dataclass(frozen=True)
class BlockedOptions(Options):
    columns: int | None = option(Whole(1, 4096), "inputs that a product adds up at a time")


class BlockedLinear(ArrayLinear):
    """The forward pass as a sum of products over `columns` inputs each; gradients as numpy's."""

    columns = 32

    def forward(self, n: int) -> None:
        t = self.buffers
        x, y = t.x[:n], t.y[:n]
        y[...] = t.b
        for first in range(0, x.shape[1], self.columns):
            some = slice(first, first + self.columns)
            y += x[:, some] @ t.w[:, some].T


def build(net, config, state, options=BlockedOptions()):
    op = type("Blocked", (BlockedLinear,), {"columns": options.columns or BlockedLinear.columns})
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers={**TABLE.layers, Linear: op}))


RUNG = Rung(
    name="blocked",
    title="Linear in pieces",
    idea="The numpy rung, but a product adds up some columns of the weights at a time.",
    build=build,
    unsupported=lambda net, config, options: of_arrays(net, config),
    options=BlockedOptions(),
)
