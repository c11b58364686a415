"""Choices of the tuner: the tiles of each matrix product, and the segment of consecutive layers."""

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
from ...ops.cost.tiles import TilePlan, TileProblem
from ...ops.engine.chain import timed
from ...ops.engine.segments import KernelTable, Segment
from ..kernelwise.chain import Chain

Variant = TypeVar("Variant")

#: Most plans of a product that are timed, the first by the cost model, and most of them with the same tile: the model
#: errs about tiles more often than about the parts of split-K.
PLANS, PLANS_OF_A_TILE = 12, 3

#: Largest estimated time of a plan that is timed, as a multiple of the first plan's. Of 27 products on an H200 the
#: chosen plan had at most 1.22.
SLOWEST = 1.3


class Choice(ABC, Generic[Variant]):
    """Product or segment that several variants can compute.

    layer : number of the segment's first layer. op : segment that is bound at present. n : samples at a time.
    """

    def __init__(self, layer: int, op: Segment, n: int) -> None:
        self.layer, self.op, self.n = layer, op, n

    @abstractmethod
    def variants(self) -> list[Variant]:
        """Variants of the choice; the first is used if none is timed."""

    def candidates(self) -> list[Variant]:
        """Variants to time, beginning with the first of `variants`."""
        return self.variants()

    @abstractmethod
    def calls(self, variant: Variant) -> list[Call]:
        """Launches that compute the choice's result by a variant, to be timed."""

    @abstractmethod
    def settle(self, variant: Variant) -> None:
        """Use a variant from now on."""

    @property
    @abstractmethod
    def now(self) -> Variant:
        """Variant that the choice uses now."""

    @abstractmethod
    def record(self, variant: Variant) -> Record:
        """Record of a variant, for checkpoints and the plan cache."""

    @abstractmethod
    def matches(self, record: Record) -> bool:
        """True if a record belongs to this choice."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Number of multiply-adds of the choice's products."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name for messages, after "the stored plan of ..."."""

    @property
    def files(self) -> set[Path]:
        """Sources of kernels that only some variants use."""
        return set()

    def find(self, record: Record) -> Variant | None:
        """Variant of a record; None if there is none."""
        return next((variant for variant in self.variants() if self.record(variant) == record), None)

    def key(self, hardware: str) -> str:
        """Hash of device, layers, shapes, variants and kernel sources, on which the fastest variant depends."""
        calls = all_calls(self.op, self.n)
        used = {call.kernel.source.digest for call in calls if isinstance(call, Launch)}
        digests = sorted(used | {sources.read(path).digest for path in self.files})
        variants = [
            str(self.record(variant)).partition(",")[2] for variant in self.candidates()
        ]  # without the layer's number
        op = self.op
        fused = op.buffers.dx is not None, op.operands.masks_dx, op.operands.dy_is_masked
        what = hardware, repr(op.layers), op.buffers.x.shape[1:], fused, op.block_size, digests, variants
        return sha256(json.dumps(what).encode()).hexdigest()[:40]


class TileChoice(Choice[TilePlan]):
    """Tiles and split-K parts of one product of an op; product : "y", "dx" or "dw"."""

    def __init__(self, layer: int, op: Segment, n: int, product: str) -> None:
        super().__init__(layer, op, n)
        self.product = product

    @property
    def planned(self) -> Planner[TilePlan]:
        """Planner of the product, which holds the plan in use for each number of samples."""
        return self.op.products[self.product]

    def variants(self) -> list[TilePlan]:
        return self.planned.options(self.n)

    def candidates(self) -> list[TilePlan]:
        taken: Counter[object] = Counter()
        found: list[TilePlan] = []
        costs = self.planned.costs(self.n)
        for plan, cycles in costs.items():
            alike = any(plan.tile.kind == other.tile.kind for other in found)
            if alike and cycles > SLOWEST * costs[found[0]]:
                continue  # the best of each kind of tile is timed: the model errs more about kinds than within one
            taken[plan.tile] += 1
            if taken[plan.tile] <= PLANS_OF_A_TILE:
                found.append(plan)
        return found[:PLANS]

    def calls(self, variant: TilePlan) -> list[Call]:
        self.settle(variant)
        part = timed(self.n)
        calls = self.op.forward(part) if self.product == "y" else self.op.backward(part)
        return [call for call in calls if call.product is self.planned]

    @property
    def files(self) -> set[Path]:
        return {plan.tile.source for plan in self.candidates() if plan.tile.source is not None}

    def settle(self, variant: TilePlan) -> None:
        self.planned.use(self.n, variant)

    @property
    def now(self) -> TilePlan:
        return self.planned(self.n)

    def record(self, variant: TilePlan) -> ProductPlan:
        return ProductPlan(
            self.layer, type(self.op).__name__, self.product, self.n, astuple(variant.tile), variant.depth,
            variant.parts,
        )  # fmt: skip

    def matches(self, record: Record) -> bool:
        return isinstance(record, ProductPlan) and (record.layer, record.product, record.samples) == (
            self.layer,
            self.product,
            self.n,
        )

    @property
    def work(self) -> int:
        problem = self.planned.problem(self.n)
        assert isinstance(problem, TileProblem)
        return problem.work(self.variants()[0])

    @property
    def name(self) -> str:
        return f"layer {self.layer}'s {self.product}"


class SegmentChoice(Choice[type[Segment]]):
    """Segment of consecutive layers: its number `place` in the chain, and `alternatives` for the layers."""

    def __init__(self, chain: Chain, place: int, alternatives: tuple[type[Segment], ...]) -> None:
        op = chain.segments[place]
        super().__init__(op.subgraph.layers_at.start, op, chain.capacity)
        self.chain, self.place = chain, place
        able = (other for other in alternatives if other.fuses_relu_backward or not op.operands.masks_dx)
        self.alternatives = [other for other in able if other.takes(op.subgraph)]
        self.bound: dict[type[Segment], Segment] = {type(op): op}

    def variants(self) -> list[type[Segment]]:
        return [type(self.op), *self.alternatives]

    def calls(self, variant: type[Segment]) -> list[Call]:
        return all_calls(self._bind(variant), self.n)

    def settle(self, variant: type[Segment]) -> None:
        self.chain.segments[self.place] = self._bind(variant)

    @property
    def now(self) -> type[Segment]:
        return type(self.chain.segments[self.place])

    def record(self, variant: type[Segment]) -> OpPlan:
        return OpPlan(self.layer, variant.__name__, self.n)

    def matches(self, record: Record) -> bool:
        return isinstance(record, OpPlan) and (record.layer, record.samples) == (self.layer, self.n)

    @property
    def work(self) -> int:
        total, shape = 0, tuple(self.op.buffers.x.shape[1:])
        for layer in self.op.layers:
            total, shape = total + layer.flops(shape) // 2, layer.out_shape(shape)
        return self.n * total

    @property
    def name(self) -> str:
        return f"layer {self.layer}"

    def _bind(self, variant: type[Segment]) -> Segment:
        if variant not in self.bound:
            self.bound[variant] = variant(self.op.device, self.op.subgraph, self.op.operands, self.op.block_size)
        return self.bound[variant]


def all_calls(op: Segment, n: int) -> list[Call]:
    """Launches of a segment for n samples in a step, without an update in place."""
    part = timed(n)
    return [*op.prepare(part), *op.forward(part), *(op.backward(part) if op.buffers.dy is not None else [])]


def products(chain: Chain, some: Iterable[int]) -> list[TileChoice]:
    """Tiled products of a chain's segments, chosen by their numbers, for as many samples as the chain holds."""
    found = [chain.segments[number] for number in some]
    every = (TileChoice(op.subgraph.layers_at.start, op, chain.capacity, name) for op in found for name in op.products)
    return [tiles for tiles in every if tiles.calls(tiles.now)]


def segments(chain: Chain, table: KernelTable, below: frozenset[int] = frozenset()) -> list[SegmentChoice]:
    """Choices of the segments of layers that have parameters and alternatives in their table (`KernelTable.of`).

    A normalisation has none: its segment may leave another gradient in dy than separate segments would.
    """
    own = [(place, chain.segments[place]) for place in chain.layered]
    multiply = [(place, op) for place, op in own if not any(layer.normalizes for layer in op.layers)]
    tables = [(place, table.of(op.subgraph, below)) for place, op in multiply if op.buffers.w is not None]
    every = (SegmentChoice(chain, place, found.alternatives) for place, found in tables if found is not None)
    return [choice for choice in every if choice.alternatives]
