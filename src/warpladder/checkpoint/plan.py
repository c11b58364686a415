"""Choices of a tuner as plain data, stored with a run, which then continues with the same kernels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import PlanError, ResultsError
from ..results.reader import read


@dataclass(frozen=True)
class ProductPlan:
    """Plan of one matrix product of a layer.

    layer : index of the first layer that the operation computes. op : class name of the operation.
    product : result, "y", "dx" or "dw". samples : batch size. tile : bm, bn, bk, tm, tn and stages of `ops.tiles.Tile`.
    depth, parts : fields of `ops.cost.tiles.TilePlan`.
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
    """Choice of an operation, by class name, for consecutive layers from `layer` on; samples : batch size."""

    layer: int
    op: str
    samples: int


#: One choice of a tuner.
Record = OpPlan | ProductPlan


@dataclass(frozen=True)
class NetPlan:
    """Plan of a net on the device with this `Device.hardware`.

    ops : operations chosen among several; all others are the table's.
    products : products that were timed; all others follow the cost model of `ops.cost`.
    below : numbers of the layers that the segments of the rung below compute.
    """

    hardware: str
    ops: tuple[OpPlan, ...]
    products: tuple[ProductPlan, ...]
    below: tuple[int, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """Choices of operations and products together."""
        return (*self.ops, *self.products)


def net_plan(hardware: str, records: list[Record]) -> NetPlan:
    """Plan of a net from a tuner's choices."""
    ops = tuple(record for record in records if isinstance(record, OpPlan))
    return NetPlan(hardware, ops, tuple(record for record in records if isinstance(record, ProductPlan)))


def plan_to_json(plan: NetPlan) -> dict[str, Any]:
    """Plan as plain values for `json`."""
    return asdict(plan)


def plan_from_json(value: Any, where: str = "") -> NetPlan:
    """Plan from the values of `plan_to_json`, unchecked against a net; where : name in error messages.

    Raises PlanError: a field is missing, unknown or of the wrong type; the message names it.
    """
    try:
        found: NetPlan = read(NetPlan, value, where)
    except ResultsError as error:
        raise PlanError(str(error)) from None
    return found
