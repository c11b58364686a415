"""Parts of a step of kernel launches and library calls, each timed alone by events, in many repetitions."""

from __future__ import annotations

import math
import statistics

from ...data.order import Order
from ...device import Call, Device, Graph, Launch
from ...device.occupancy import occupancy
from ...device.timing import clocked
from ...nets.params import param_slices
from ...ops.engine.chain import Slice
from ...results.profiled import KernelTime, LaunchShape, Part, ProductTiles, StreamSpans
from ...trainers.kernelwise.chain import Stage
from ...trainers.kernelwise.epoch_log import REPEATS
from ...trainers.kernelwise.feeds import StreamedFeed
from ...trainers.kernelwise.timeline import Timeline, overlap
from ...trainers.kernelwise.trainer import KernelTrainer
from ...trainers.tuning.candidates import products
from . import floor
from .units import on_tensor_cores

ROUNDS = 5
LEAST = 2e-3  # seconds of one measurement, so that the clock's resolution does not matter
STEPS = 12  # steps in a timeline


def parts(trainer: KernelTrainer) -> tuple[Part, ...]:
    """Time and floor of every part of a full step: measured for one slice, times the number of slices.

    Overwrites the trainer's state and log; set the state again afterwards.
    """
    part = full(trainer)
    trainer.rewind()  # a step after the epoch's last would write outside the log
    for launch in trainer.program(part):
        launch.send()
    trainer.device.synchronize()
    slices = trainer.batch / part.n
    stages = trainer.stages(part, repeated=True)
    if isinstance(trainer.feed, StreamedFeed):  # a lane's launches are known when its turn comes: all lanes do the same
        stages = [Stage("feed", range(0), trainer.feed.lanes[0].launches(part)), *stages]
    return tuple(_part(trainer, stage, slices) for stage in stages if stage.launches)


def full(trainer: KernelTrainer) -> Slice:
    """First slice of a full step."""
    return Slice(min(trainer.capacity, trainer.batch), trainer.batch, 0)


def _part(trainer: KernelTrainer, stage: Stage, slices: float) -> Part:
    if stage.phase == "update":
        slices = 1
    kernels: dict[str, KernelTime] = {}
    for call in stage.launches:
        seconds = slices * alone(trainer, call)
        known = kernels.get(call.name)
        made = shape(trainer.device, call)
        kernels[call.name] = (
            _added(known, seconds, made) if known else KernelTime(call.name, 1, seconds, made, on_tensor_cores(call))
        )
    return Part(
        _name(trainer, stage),
        stage.phase,
        sum(k.seconds for k in kernels.values()),
        _floor(trainer, stage, trainer.batch),
        tuple(kernels.values()),
    )


def alone(trainer: KernelTrainer, call: Call) -> float:
    """Seconds of a launch or library call on the device: the median over repetitions without gaps between them.

    The repetitions are one graph, so that the host's launch time is excluded. A launch that counts the steps must not
    leave the log: the counter is reset before each measurement.
    """
    device = trainer.device

    def measured(graph: Graph, repeats: int) -> float:
        trainer.rewind()
        return clocked(device, graph) / repeats

    once = device.graph([call])
    measured(once, 1)
    repeats = max(1, min(REPEATS, math.ceil(LEAST / max(measured(once, 1), 1e-7))))
    graph = device.graph([call] * repeats)
    measured(graph, repeats)
    return statistics.median(measured(graph, repeats) for _ in range(ROUNDS))


def _added(known: KernelTime, seconds: float, shape: LaunchShape | None) -> KernelTime:
    """Kernel time plus one more launch of the kernel; the larger launch shape is stored."""
    larger = known.shape is None or shape is None or math.prod(known.shape.grid) >= math.prod(shape.grid)
    return KernelTime(
        known.name, known.launches + 1, known.seconds + seconds, known.shape if larger else shape, known.tensor
    )


def shape(device: Device, call: Call) -> LaunchShape | None:
    """Grid, block, memory and registers of a launch; None for a library's call, which does not report them."""
    if not isinstance(call, Launch):
        return None
    resources = call.kernel.resources
    return LaunchShape(
        call.grid, call.block, call.shared, resources.registers, resources.static_shared, resources.spill_stores,
        occupancy(call.block, call.shared, resources, device.limits),
    )  # fmt: skip


def _name(trainer: KernelTrainer, stage: Stage) -> str:
    layers = ", ".join(f"{i} {type(trainer.net.layers[i]).__name__}" for i in stage.layers)
    return layers or stage.phase


def _floor(trainer: KernelTrainer, stage: Stage, n: int) -> floor.Floor:
    net, config = trainer.net, trainer.config
    assert trainer.chain is not None
    # Layers whose segments update them, if the batch is one slice.
    updated = trainer.chain.updated if trainer.capacity >= n else set()
    fused = {place.layer for place in param_slices(net) if place.name in updated}
    if stage.phase == "prepare":
        return floor.prepare(net, stage.layers)
    if stage.phase == "forward":
        return floor.forward(net, stage.layers, n)
    if stage.phase == "backward":
        gradients, own = (
            floor.backward(net, stage.layers, n),
            floor.update(net, config, layers=fused.intersection(stage.layers), fused=True),
        )
        return floor.Floor(gradients.flops + own.flops, gradients.bytes + own.bytes)
    if stage.phase == "step":
        return floor.step(net, n, trainer.itemsize, config if fused else None)
    if stage.phase == "loss":
        return floor.loss(net, n)
    if stage.phase == "feed":
        return floor.feed(net, n, trainer.itemsize)
    if stage.phase == "update":
        return floor.update(net, config, layers=set(range(len(net.layers))) - fused)
    return floor.Floor(net.param_count, 3 * floor.FLOAT * net.param_count)


def tiles(trainer: KernelTrainer) -> tuple[ProductTiles, ...]:
    """Tiles of the matrix products of a full step's slice; each states if the tuner chose it."""
    chain = trainer.chain
    if chain is None:
        return ()
    n, tuned = chain.capacity, trainer.tuned.products if trainer.tuned is not None else ()
    found = []
    for choice in products(chain, range(len(chain.segments))):
        plan = choice.now
        layers = tuple(range(choice.layer, choice.layer + len(choice.op.layers)))
        found.append(
            ProductTiles(
                layers, choice.product, n, str(plan.tile), plan.depth, plan.parts, choice.record(plan) in tuned
            )
        )
    return tuple(found)


def timeline(trainer: KernelTrainer) -> tuple[tuple[StreamSpans, ...], float]:
    """Spans of copies and computation in some steps of the streamed feed, and the share of copy time hidden by
    computation; empty for other feeds.
    """
    if not isinstance(trainer.feed, StreamedFeed):
        return (), 0.0
    order = Order(trainer.config.seed, 0, trainer.samples, trainer.config.shuffle)
    steps = min(STEPS, trainer.config.steps(trainer.samples))
    trainer.run(order, 0, steps)
    watch = Timeline(trainer.feed)
    trainer.run(order, 0, steps)
    spans = watch.spans()
    watch.close()
    lanes = tuple(
        StreamSpans(name, tuple((s.step, s.begin, s.end) for s in spans if s.what == name))
        for name in ("copy", "compute")
    )
    return lanes, overlap(spans)
