"""What a tuner chose: plain data, stored with a run, so that it can go on as it began."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import PlanError, ResultsError
from ..results.reader import read


@dataclass(frozen=True)
class ProductPlan:
    """How one product of matrices of a layer is computed.

    layer : the first of the layers that its op computes.
    op : the op, by its class's name.
    product : what is computed, "y", "dx" or "dw".
    samples : how many at a time.
    tile : bm, bn, bk, tm, tn and stages of `ops.tiles.Tile`.
    depth, parts : as `ops.cost.tiles.TilePlan` has them.
    """

    layer: int
    op: str
    product: str
    samples: int
    tile: tuple[int, ...]
    depth: int
    parts: int


@dataclass(frozen=True)
class OpPlan:
    """Which op computes a run of layers.

    layer : the first of them.
    op : the op, by its class's name.
    samples : how many at a time.
    """

    layer: int
    op: str
    samples: int


#: One choice.
Record = OpPlan | ProductPlan


@dataclass(frozen=True)
class NetPlan:
    """How a net is computed on a device.

    hardware : `Device.hardware` of the device that it was timed on.
    ops : those that were chosen from several; all others are the table's own.
    products : of these ops, those that were timed; all others are computed as the model of `ops.tiles` says.
    """

    hardware: str
    ops: tuple[OpPlan, ...]
    products: tuple[ProductPlan, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """All that was chosen."""
        return (*self.ops, *self.products)


def net_plan(hardware: str, records: list[Record]) -> NetPlan:
    """A plan of these choices."""
    ops = tuple(record for record in records if isinstance(record, OpPlan))
    return NetPlan(hardware, ops, tuple(record for record in records if isinstance(record, ProductPlan)))


def plan_to_json(plan: NetPlan) -> dict[str, Any]:
    """A plan as what `json` can write."""
    return asdict(plan)


def plan_from_json(value: Any, where: str = "") -> NetPlan:
    """The plan that `plan_to_json` described. Whether a net on a device can be computed so, only its ops know
    (`trainers.tuner`).

    where : what error messages call it.

    Raises
    ------
    PlanError
        A field is missing, unknown or of the wrong type; the message names it.
    """
    try:
        found: NetPlan = read(NetPlan, value, where)
    except ResultsError as error:
        raise PlanError(str(error)) from None
    return found
