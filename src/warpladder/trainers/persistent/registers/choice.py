"""Choice of the blocks of a cluster that keeps all weights in registers: by inputs of one layer, by units of two."""

from __future__ import annotations

from ....nets import CrossEntropyLoss, Net
from ..products import LinearLayer
from .by_inputs import InputsPlan, inputs_plan, why_not_inputs
from .by_units import UnitsPlan, blocks_of, units_plan, why_not_units

#: Numbers of blocks among which the inputs of a layer are divided.
SIZES = (2, 4, 8, 16)


def why_not_registers(net: Net, chain: tuple[LinearLayer, ...], batch: int | None) -> str | None:
    """Reason why the registers of a cluster cannot hold the net's weights, or train such a batch; None if they can."""
    if len(chain) > 2 or not isinstance(net.loss, CrossEntropyLoss):
        return "weights=registers is for one or two Linear layers with CrossEntropyLoss: leave weights to the estimate"
    return why_not_inputs(chain[0], batch) if len(chain) == 1 else why_not_units(chain, batch)


def registers_plan(
    chain: tuple[LinearLayer, ...], batch: int, most: tuple[int | None, int], slots: int, pixel_bytes: int,
    capacity: int,
) -> tuple[int, InputsPlan | UnitsPlan] | None:  # fmt: skip
    """Number of blocks and their shared memory, for the fastest estimate; None if registers or `capacity`, the bytes of
    shared memory of a block, are too small. most : blocks of the launch, if requested, and of the device's largest
    cluster.
    """
    requested, largest = most
    if len(chain) == 2:
        blocks = blocks_of(chain[0].outputs, requested, largest)
        units = blocks and units_plan(chain, batch, blocks, slots, pixel_bytes, capacity)
        return (blocks, units) if blocks and units else None
    sizes = [blocks for blocks in SIZES if blocks <= largest and requested in (None, blocks)]
    inputs = ((blocks, inputs_plan(chain[0], batch, blocks, slots, pixel_bytes)) for blocks in sizes)
    fitting = [(blocks, plan) for blocks, plan in inputs if plan is not None and 4 * plan.floats <= capacity]
    return min(fitting, key=lambda pair: pair[1].cycles, default=None)
