"""Plan of a persistent kernel: the layers, the blocks that train together, and a tile for each phase of a step.

A phase is one matrix product. Its estimated time consists of the rounds of tiles that a block takes, the bytes and
multiply-adds of a tile, and the wait after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ...device.limits import Limits
from ...nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from .clusters import CLUSTERS, clusters_of, shares
from .held import HeldPlan, held_line, held_plan
from .products import LinearLayer, Phases, all_fastest, alternatives, backward, dealt, fetches, phases, with_head
from .registers.by_inputs import InputsPlan
from .registers.by_units import UnitsPlan
from .registers.choice import registers_plan, why_not_registers
from .tiles import THREADS, AnyTile, HeadTile, TensorPhaseTile

#: Cycles in a second for which all cycles here are fitted: an H200's clock while it trains.
CLOCK = 1.75e9

#: Cycles of a wait: of one cluster that has the device to itself, and of the whole grid.
CLUSTER_WAIT, GRID_WAIT = 900, 1900

#: Cycles of a wait of a block or cluster that has samples of its own, with the time that its phases take beyond their
#: estimate: fitted to steps of 54-128-64-7 and of eight layers of 128 on an H200.
OWN_BLOCK_WAIT, OWN_CLUSTER_WAIT = 1000, 1600

#: Ratio by which the estimate of a grid that divides each phase must exceed another's: below it, it is the choice.
MARGIN = 1.05

#: Factor of the estimates of plans with weights in shared memory, which are off by up to 12 %.
HELD_MARGIN = 1.1

#: How blocks of a cluster pass on their results if nothing else is requested; waits of a step for which there can be
#: barriers if they send them; and the cycles of a wait that sending saves, those of an arrival's fence.
EXCHANGE, MOST_WAITS, FENCE = "stored", 32, 950

#: Inputs of a layer from which on the copy engine brings its rows of weights: it takes long for many short ones.
LONG_ROW = 256

#: Compute capability of a GPU from which on a copy engine brings tiles to tensor cores.
TENSOR_CAPABILITY = (9, 0)

#: Part of all blocks that a layer's weight gradient gets at least, however small it is: tiles are dealt in turn.
LEAST_PORTION = 20

#: Blocks on a device whose number of multiprocessors says nothing: the emulator.
EMULATED_BLOCKS = 3

#: Bytes of shared memory that are not for tiles: static arrays, and the system's share.
RESERVED = 3 << 10


@dataclass(frozen=True)
class PersistentPlan:
    """Plan of a persistent kernel: blocks, and a tile for each phase of a step.

    layers : the chain.
    blocks : blocks of the launch.
    in_grid : True if they wait for each other as a grid, False if as one cluster.
    cluster : blocks of a cluster of the launch.
    rows : samples of a batch that a cluster computes alone, forward and backward; None if all blocks divide each phase.
    forward, inputs, weights : each layer's tiles; None for the input gradient of the first.
    shared : bytes of dynamic shared memory.
    cycles : estimated cycles of a step.
    held : offsets of weights and activations in shared memory; None if they stay in global memory.
    registers : shared memory of one cluster with all weights in registers; None if they are not there.
    sends : True if blocks of a cluster send their results to barriers of each other, and gather samples for themselves;
        False if the cluster's own barrier makes stores visible.
    brings : True if the copy engine brings long rows of weights to shared memory, False if threads copy all.
    late : layers, from 1, whose weight gradients come last in a step, where blocks without a tile compute them.
    """

    layers: tuple[LinearLayer, ...]
    blocks: int
    in_grid: bool
    cluster: int
    rows: int | None
    forward: tuple[AnyTile, ...]
    inputs: tuple[AnyTile | None, ...]
    weights: tuple[AnyTile, ...]
    shared: int
    cycles: float
    held: HeldPlan | None = None
    registers: InputsPlan | UnitsPlan | None = None
    sends: bool = False
    brings: bool = False
    late: tuple[int, ...] = ()

    @property
    def has_head(self) -> bool:
        """True if one phase has the last layer, the loss and the layer's input gradient."""
        return bool(self.forward) and isinstance(self.forward[-1], HeadTile)

    @property
    def on_tensor_cores(self) -> bool:
        """True if tensor cores multiply in a phase."""
        tiles = *self.forward, *self.inputs, *self.weights
        return self.registers is not None or any(isinstance(tile, TensorPhaseTile) for tile in tiles)


def layers(net: Net) -> tuple[LinearLayer, ...] | str:
    """Net's Linear layers, or the reason why a persistent kernel cannot train it."""
    found: list[LinearLayer] = []
    for number, (layer, shape) in enumerate(zip(net.layers, net.shapes, strict=False)):
        if isinstance(layer, Linear) and not layer.bias:
            return f"its Linear layers have a bias, and layer {number} has none: graph and tensor take this net"
        if isinstance(layer, Linear):
            found.append(LinearLayer(number, shape[0], layer.out_features, False))
        elif isinstance(layer, ReLU) and found:
            found[-1] = LinearLayer(found[-1].number, found[-1].inputs, found[-1].outputs, True)
        elif not isinstance(layer, Flatten):
            return (
                f"it trains chains of Linear and ReLU, which begin with Linear, and layer {number} is "
                f"{type(layer).__name__}: graph and tensor take this net"
            )
    return tuple(found)


@dataclass(frozen=True)
class Requested:
    """Requirements for a plan, each None where the estimate decides.

    blocks : blocks of the launch; a cluster of the device's largest size or a block for each multiprocessor by default.
    wait : "cluster", "grid" or "both", how blocks wait for each other; by default one plan of each.
    cluster : blocks of a cluster for "both".
    weights : "global", "shared" or "registers", memory from which phases read weights; by default plans of all. Weights
        are in shared memory only if clusters divide the batch, and in registers only if one cluster divides the inputs
        of a single layer or the hidden units of two.
    multiply : "fma" or "tensor", how phases multiply with weights in global memory, by multiply-adds or on tensor
        cores where a tile fits; by default plans of each.
    exchange : "stored" or "sent", how numbers reach a block with weights in shared memory: results of others in its
        cluster by stores or sent, weights by its threads or the copy engine; `EXCHANGE` by default.
    """

    blocks: int | None = None
    wait: str | None = None
    cluster: int | None = None
    weights: str | None = None
    exchange: str | None = None
    multiply: str | None = None

    def kinds(self, limits: Limits) -> tuple[str, ...]:
        """Kinds of tiles, as `PhaseProduct.tiles` takes them, of the plans with weights in global memory."""
        if self.multiply is not None:
            return (self.multiply,)
        peaks = limits.peaks  # a GPU with a copy engine has clusters
        is_old = limits.cluster == 1 or (peaks is not None and peaks.precedes(TENSOR_CAPABILITY, ""))
        return ("fma",) if is_old else ("fma", "tensor")


def plans(
    net: Net, batch: int, limits: Limits, requested: Requested = Requested(), slots: int = 2, pixel_bytes: int = 4
) -> list[PersistentPlan]:
    """Plans of the net on a device, the fastest estimate first: for one cluster, for a grid, and for a grid of clusters
    that divide the batch, with weights in global or shared memory or registers. The grid is first unless another one is
    faster by `MARGIN`.

    slots : slots of the optimizer.
    pixel_bytes : bytes of a stored number of a sample, 1 or 4.
    """
    blocks, wait, cluster, weights = requested.blocks, requested.wait, requested.cluster, requested.weights
    chain = layers(net)
    assert not isinstance(chain, str)
    capacity = limits.shared_opt_in - RESERVED
    processors = limits.multiprocessors if limits.multiprocessors > 1 else EMULATED_BLOCKS
    room = {"fma": capacity, "tensor": capacity}
    if limits.multiprocessors == 1:  # emulated blocks share its memory, and pieces on tensor cores take what there is
        room["tensor"] = min(capacity, limits.shared_per_multiprocessor // (blocks or processors) - RESERVED)
    found: list[PersistentPlan | None] = []
    kinds = requested.kinds(limits) if weights in (None, "global") else ()
    if wait in (None, "cluster") and limits.cluster > 1:
        size = min(blocks or limits.cluster, limits.cluster)
        found += [_planned(chain, phases(chain, net, batch, slots), size, False, room[kind], kind) for kind in kinds]
    if weights in (None, "registers") and wait in (None, "cluster") and why_not_registers(net, chain, batch) is None:
        inside = registers_plan(chain, batch, (blocks, limits.cluster), slots, pixel_bytes, capacity)
        found.append(inside and _in_registers(chain, *inside))
    if wait in (None, "grid"):
        found += [
            _planned(chain, phases(chain, net, batch, slots), blocks or processors, True, room[kind], kind)
            for kind in kinds
        ]
    if wait in (None, "both"):
        ways: list[Callable[..., PersistentPlan | None]] = [
            partial(_shared, kind=kind, capacity=room[kind]) for kind in kinds
        ]
        ways += [partial(_held, capacity=capacity)] if weights in (None, "shared") else []
        for way in ways:
            divided = [
                way(
                    chain,
                    phases(chain, net, batch, slots, rows),
                    -(-batch // rows),
                    clusters_of(size, blocks or processors),
                    size,
                )
                for size in ((cluster,) if cluster else (each for each in CLUSTERS if each <= limits.cluster))
                for rows in shares(batch, size, blocks or processors)
            ]
            found += sorted(filter(None, divided), key=_rank)[: 1 if wait is None else None]
    exchanged = (_exchanged(plan, requested.exchange) for plan in filter(None, found))
    return sorted(filter(None, exchanged), key=_rank)


def _exchanged(plan: PersistentPlan, exchange: str | None) -> PersistentPlan | None:
    """Plan whose blocks send their results instead of storing them, if requested; None if they cannot."""
    if plan.registers is not None:
        return None if exchange == "stored" else plan
    waits = crew_waits(len(plan.layers))
    if (exchange or EXCHANGE) == "sent" and plan.held is not None and waits <= MOST_WAITS:
        sends = plan.cluster > 1
        brings = any(has_long_rows(each) for each in plan.layers)
        return replace(plan, sends=sends, brings=brings, cycles=plan.cycles - waits * FENCE * sends)
    return None if exchange == "sent" else plan


def has_long_rows(layer: LinearLayer) -> bool:
    """True if the copy engine brings a layer's rows of weights faster than threads copy them."""
    return layer.inputs >= LONG_ROW


def crew_waits(count: int) -> int:
    """Number of waits of a cluster alone in a step, with weights in shared memory and `count` layers."""
    return max(1, 2 * count - 2)


def _rank(plan: PersistentPlan) -> float:
    """Estimated cycles, by which plans are sorted; times a margin unless all blocks divide each phase as a grid."""
    if plan.held is not None or plan.registers is not None:
        return plan.cycles * HELD_MARGIN
    return plan.cycles * (1 if plan.in_grid and plan.rows is None else MARGIN)


def _planned(
    chain: tuple[LinearLayer, ...], products: Phases, blocks: int, in_grid: bool, capacity: int, kind: str
) -> PersistentPlan | None:
    """Plan for a number of blocks, with the fastest tile of each phase; None if a phase has no tile."""
    wait = GRID_WAIT if in_grid else CLUSTER_WAIT
    forward, inputs = (
        all_fastest(some, capacity, [(blocks, 1)] * len(some), kind) for some in (products.forward, products.inputs)
    )
    forward, inputs = with_head((forward, inputs), products, capacity, (blocks, 1), kind, wait)
    launch, found = (in_grid, 1 if in_grid else blocks, None), list[PersistentPlan]()
    for weights in alternatives(products.weights, capacity, [(blocks, 1)] * len(chain), kind):
        plan = _plan(chain, products, blocks, launch, (forward, inputs, weights), 0.0)
        if plan is None:
            return None
        late, cycles = plan.late, sum(each[1] for each in (*inputs, *weights))
        if kind != "fma":
            late, cycles = backward(products, [each[0] for each in inputs], plan.weights, blocks)
            cycles += fetches(weights)
        cycles += (2.0 * len(chain) - plan.has_head) * wait + sum(each[1] for each in forward)
        found.append(replace(plan, late=late, cycles=cycles))
    return min(found, key=lambda plan: plan.cycles)


def _shared(
    chain: tuple[LinearLayer, ...], products: Phases, teams: int, _: int, cluster: int, capacity: int, kind: str
) -> PersistentPlan | None:
    """Plan for clusters of `cluster` blocks, each with a part of the batch forward and backward; None if a phase has no
    tile. All blocks compute all weight gradients between two waits of the grid: a layer's number of blocks is
    proportional to its weights.
    """
    blocks, rows = teams * cluster, products.forward[0].rows
    forward, inputs = (
        all_fastest(some, capacity, [(cluster, teams)] * len(some), kind)
        for some in (products.forward, products.inputs)
    )
    wait = OWN_BLOCK_WAIT if cluster == 1 else OWN_CLUSTER_WAIT
    forward, inputs = with_head((forward, inputs), products, capacity, (cluster, teams), kind, wait)
    weights = _weight_gradients(chain, products, blocks, capacity, kind)
    has_head = any(isinstance(tile, HeadTile) for tile, _ in forward)
    cycles = 2.0 * GRID_WAIT + (2 * (len(chain) - 1) - has_head) * wait
    cycles += sum(each[1] for each in (*forward, *inputs)) + max((each[1] for each in weights), default=0.0)
    return _plan(chain, products, blocks, (True, cluster, rows), (forward, inputs, weights), cycles)


def _weight_gradients(
    chain: tuple[LinearLayer, ...], products: Phases, blocks: int, capacity: int, kind: str = "fma", least: int = 1
) -> list[tuple[AnyTile, float]]:
    """Tiles and cycles of the weight gradients that all blocks compute between two waits; larger tiles spill registers.

    least : smallest number of blocks of a layer.
    """
    every = sum(each.outputs * (each.inputs + 1) for each in chain)
    portions = [max(least, blocks * phase.rows * phase.columns // every) for phase in products.weights]
    shares = [(portion, max(1, blocks // portion)) for portion in portions]
    return all_fastest(products.weights, capacity, shares, kind, THREADS // 2)


def _held(
    chain: tuple[LinearLayer, ...], products: Phases, teams: int, clusters: int, cluster: int, capacity: int
) -> PersistentPlan | None:
    """Plan as `_shared`, with weights and activations in shared memory; None if they do not fit. All `clusters` of the
    device compute weight gradients, also clusters without samples.
    """
    blocks, rows = clusters * cluster, products.forward[0].rows
    samples = 4 * rows * held_line(chain[0].inputs)
    held = held_plan(chain, rows, teams, cluster)
    products = replace(products, weights=tuple(replace(phase, bias=True) for phase in products.weights))
    weights = _weight_gradients(chain, products, blocks, capacity - samples, least=max(1, blocks // LEAST_PORTION))
    if 4 * held.floats + samples > capacity or len(weights) < len(chain):
        return None
    dealing = [(phase, tile) for phase, (tile, _) in zip(products.weights, weights, strict=True)]
    cycles = 2.0 * GRID_WAIT + held.cycles + dealt(dealing[::-1], blocks)
    tiles = (tile.shared(phase.inside) for phase, tile in dealing)
    shared = samples + -(-max(4 * held.floats, *tiles) // 16) * 16
    return PersistentPlan(
        chain, blocks, True, cluster, rows, held.forward, held.inputs, tuple(tile for tile, _ in weights), shared,
        cycles, held,
    )  # fmt: skip


def _in_registers(chain: tuple[LinearLayer, ...], blocks: int, inside: InputsPlan | UnitsPlan) -> PersistentPlan:
    """Plan for one cluster with all weights in registers."""
    return PersistentPlan(
        chain, blocks, False, blocks, None, (), (), (), 4 * inside.floats, inside.cycles, registers=inside, sends=True
    )


def _plan(
    chain: tuple[LinearLayer, ...], products: Phases, blocks: int, launch: tuple[bool, int, int | None],
    found: tuple[list[tuple[AnyTile, float]], ...], cycles: float,
) -> PersistentPlan | None:  # fmt: skip
    """Plan of these tiles; None if a phase has none. launch : `in_grid`, `cluster` and `rows` of the plan."""
    kinds = products.forward, products.inputs, products.weights
    if any(len(tiles) < len(kind) for tiles, kind in zip(found, kinds, strict=True)):
        return None
    forward, inputs, weights = (tuple(tile for tile, _ in each) for each in found)
    pairs = zip((*products.forward, *products.inputs, *products.weights), (*forward, *inputs, *weights), strict=True)
    shared = max(tile.shared(phase.inside) for phase, tile in pairs)
    return PersistentPlan(chain, blocks, *launch, forward, (None, *inputs), weights, shared, cycles)


def why_not(net: Net) -> str | None:
    """Reason why no persistent kernel can train the net; None if one can."""
    chain = layers(net)
    if isinstance(chain, str):
        return chain
    if not net.loss.is_plain:
        return f"its kernel has CrossEntropyLoss and MSELoss without settings, and net {net.name!r} has {net.loss}"
    if isinstance(net.loss, CrossEntropyLoss) and math.prod(net.out_shape) > 4 * THREADS:
        return f"a tile holds {4 * THREADS:,} classes at most, and net {net.name!r} has {math.prod(net.out_shape):,}"
    return None
