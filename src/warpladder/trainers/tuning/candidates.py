"""What there is to choose: the tiles of each product of matrices, and the segment of each run of layers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from ...checkpoint.plan import OpPlan, ProductPlan, Record
from ...device import Call, Launch
from ...device import source as sources
from ...ops.cost.plans import Planner
from ...ops.cost.tiles import TilePlan
from ...ops.engine.chain import timed
from ...ops.engine.segments import Segment
from ..kernelwise.chain import Chain

Way = TypeVar("Way")

#: Plans of a product that are timed, the model's first; and of them with the same tile: it errs about tiles more often
#: than about parts.
MOST, EACH = 12, 3

#: How much longer than the first a plan may take by the model, to be timed: of 27 products on an H200 the slowest that
#: was chosen has 1.22.
WITHIN = 1.3


class Choice(ABC, Generic[Way]):
    """Something that can be computed in several ways.

    layer : number of the segment's first layer in the net.
    op : the segment that computes it now.
    n : samples at a time.
    """

    def __init__(self, layer: int, op: Segment, n: int) -> None:
        self.layer, self.op, self.n = layer, op, n

    @abstractmethod
    def ways(self) -> list[Way]:
        """All ways; the first is taken where nothing is timed."""

    def candidates(self) -> list[Way]:
        """Those to time, the first among them."""
        return self.ways()

    @abstractmethod
    def calls(self, way: Way) -> list[Call]:
        """What computes it in this way."""

    @abstractmethod
    def settle(self, way: Way) -> None:
        """Compute it in this way from now on."""

    @property
    @abstractmethod
    def now(self) -> Way:
        """The way that is used."""

    @abstractmethod
    def told(self, way: Way) -> Record:
        """The choice of a way as data."""

    @abstractmethod
    def concerns(self, told: Record) -> bool:
        """Whether this is the choice that was told."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Multiply-adds."""

    @property
    @abstractmethod
    def name(self) -> str:
        """For people, after "the stored plan of ..."."""

    @property
    def files(self) -> set[Path]:
        """Sources of kernels that only some of the ways use."""
        return set()

    def find(self, told: Record) -> Way | None:
        """The way that was told, where there is such a one."""
        return next((way for way in self.ways() if self.told(way) == told), None)

    def key(self, hardware: str) -> str:
        """A hash of everything that bears on which way is fastest: the device, the layers and their shapes, the ways
        and the kernels' sources.
        """
        calls = everything(self.op, self.n)
        used = {call.kernel.source.digest for call in calls if isinstance(call, Launch)}
        digests = sorted(used | {sources.read(path).digest for path in self.files})
        ways = [str(self.told(way)).partition(",")[2] for way in self.candidates()]  # without the layer's number
        op = self.op
        asked = op.buffers.dx is not None, op.operands.masks_dx, op.operands.dy_is_masked
        what = hardware, repr(op.layers), op.buffers.x.shape[1:], asked, op.block_size, digests, ways
        return sha256(json.dumps(what).encode()).hexdigest()[:40]


class Tiles(Choice[TilePlan]):
    """The tiles and parts of one product of an op.

    product : "y", "dx" or "dw".
    """

    def __init__(self, layer: int, op: Segment, n: int, product: str) -> None:
        super().__init__(layer, op, n)
        self.product = product

    @property
    def planned(self) -> Planner[TilePlan]:
        return self.op.products[self.product]

    def ways(self) -> list[TilePlan]:
        return self.planned.options(self.n)

    def candidates(self) -> list[TilePlan]:
        taken: Counter[object] = Counter()
        found: list[TilePlan] = []
        for plan in self.ways():
            alike = any(plan.tile.kind == other.tile.kind for other in found)
            if alike and self.planned.cycles(self.n, plan) > WITHIN * self.planned.cycles(self.n, found[0]):
                continue  # but the best of each kind of tile is timed: the model errs about kinds more than within one
            taken[plan.tile] += 1
            if taken[plan.tile] <= EACH:
                found.append(plan)
        return found[:MOST]

    def calls(self, way: TilePlan) -> list[Call]:
        self.settle(way)
        part = timed(self.n)
        calls = self.op.forward(part) if self.product == "y" else self.op.backward(part)
        return [call for call in calls if call.product is self.planned]

    @property
    def files(self) -> set[Path]:
        return {plan.tile.source for plan in self.candidates() if plan.tile.source is not None}

    def settle(self, way: TilePlan) -> None:
        self.planned.use(self.n, way)

    @property
    def now(self) -> TilePlan:
        return self.planned(self.n)

    def told(self, way: TilePlan) -> ProductPlan:
        return ProductPlan(
            self.layer, type(self.op).__name__, self.product, self.n, astuple(way.tile), way.depth, way.parts
        )

    def concerns(self, told: Record) -> bool:
        return isinstance(told, ProductPlan) and (told.layer, told.product, told.samples) == (
            self.layer,
            self.product,
            self.n,
        )

    @property
    def work(self) -> int:
        return self.planned.problem(self.n).work(self.ways()[0])

    @property
    def name(self) -> str:
        return f"layer {self.layer}'s {self.product}"


class Segments(Choice[type[Segment]]):
    """The segment of a run of layers.

    chain, place : whose segment it is, and its number there.
    rivals : other segments that may compute the same layers.
    """

    def __init__(self, chain: Chain, place: int, rivals: tuple[type[Segment], ...]) -> None:
        op = chain.segments[place]
        super().__init__(op.subgraph.layers_at.start, op, chain.capacity)
        self.chain, self.place = chain, place
        able = (rival for rival in rivals if rival.fuses_relu_backward or not op.operands.masks_dx)
        self.rivals = [rival for rival in able if rival.takes(op.subgraph)]
        self.bound: dict[type[Segment], Segment] = {type(op): op}

    def ways(self) -> list[type[Segment]]:
        return [type(self.op), *self.rivals]

    def calls(self, way: type[Segment]) -> list[Call]:
        return everything(self._bind(way), self.n)

    def settle(self, way: type[Segment]) -> None:
        self.chain.segments[self.place] = self._bind(way)

    @property
    def now(self) -> type[Segment]:
        return type(self.chain.segments[self.place])

    def told(self, way: type[Segment]) -> OpPlan:
        return OpPlan(self.layer, way.__name__, self.n)

    def concerns(self, told: Record) -> bool:
        return isinstance(told, OpPlan) and (told.layer, told.samples) == (self.layer, self.n)

    @property
    def work(self) -> int:
        total, shape = 0, tuple(self.op.buffers.x.shape[1:])
        for layer in self.op.layers:
            total, shape = total + layer.flops(shape) // 2, layer.out_shape(shape)
        return self.n * total

    @property
    def name(self) -> str:
        return f"layer {self.layer}"

    def _bind(self, way: type[Segment]) -> Segment:
        if way not in self.bound:
            self.bound[way] = way(self.op.device, self.op.subgraph, self.op.operands, self.op.block_size)
        return self.bound[way]


def everything(op: Segment, n: int) -> list[Call]:
    """All that a segment does for n samples in a step."""
    part = timed(n)
    return [*op.prepare(part), *op.forward(part), *(op.backward(part) if op.buffers.dy is not None else [])]


def products(chain: Chain, some: Iterable[int]) -> list[Tiles]:
    """The products that these of a chain's segments compute by tiles for as many samples as it holds."""
    found = [chain.segments[number] for number in some]
    every = (Tiles(op.subgraph.layers_at.start, op, chain.capacity, name) for op in found for name in op.products)
    return [tiles for tiles in every if tiles.calls(tiles.now)]


def segments(chain: Chain, rivals: tuple[type[Segment], ...]) -> list[Segments]:
    """Of the segments that compute layers alone, those that have parameters, and rivals."""
    every = (Segments(chain, place, rivals) for place in chain.layered if chain.segments[place].buffers.w is not None)
    return [choice for choice in every if choice.rivals]
