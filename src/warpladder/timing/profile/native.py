"""Parts of a step of the native rung, whose steps are one program: each instruction is timed while whole steps run."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from ...nets import Flatten, Net
from ...results.profiled import KernelTime, Part
from ...trainers.native.compiler.clocks import Spent
from ...trainers.native.trainer import NativeTrainer
from . import floor

ROUNDS = 5


def parts(trainer: NativeTrainer, run: Callable[[], int], itemsize: int) -> tuple[Part, ...]:
    """Floor and median time of every instruction of a full step; empty if the system has no clock for them.

    Parameters
    ----------
    trainer : NativeTrainer
        Trainer with loaded data; its state is overwritten.
    run : callable
        Trains some steps, and returns their number.
    itemsize : int
        Bytes of a stored number of a sample.
    """
    rounds: list[tuple[int, list[Spent]]] = []
    with trainer.clocked() as clocks:
        run()
        clocks.read()
        for _ in range(ROUNDS):
            steps = run()
            rounds.append((steps, clocks.read()))
    if not any(spent.seconds for _, spans in rounds for spent in spans):
        return ()
    found: dict[tuple[str, range], dict[str, KernelTime]] = {}
    for at, whose in enumerate(_whose(trainer)):
        name = rounds[0][1][at].operation
        calls, seconds = (
            statistics.median(getattr(spans[at], what) / steps for steps, spans in rounds)
            for what in ("calls", "seconds")
        )
        kernels = found.setdefault(whose, {})
        known = kernels.get(name, KernelTime(name, 0, 0.0, None))
        kernels[name] = KernelTime(name, known.launches + round(calls), known.seconds + seconds, None)
    return tuple(
        Part(_name(trainer.net, phase, layers), phase, sum(k.seconds for k in kernels.values()),
             _floor(trainer, phase, layers, itemsize), tuple(kernels.values()))
        for (phase, layers), kernels in found.items()
    )  # fmt: skip


def _whose(trainer: NativeTrainer) -> list[tuple[str, range]]:
    """Phase and layers of each row of the native program."""
    plan, phases = trainer.plan, ("prepare", "forward", "backward", "backward", "update")
    alone = {"forward": "feed", "backward": "loss"}  # rows without layers
    out: list[tuple[str, range]] = []
    for (first, last), phase in zip(plan.sections, phases, strict=True):
        rows = plan.rows[first:last]
        out += [(phase if row.layers else alone.get(phase, phase), row.layers) for row in rows]
    return out


def _name(net: Net, phase: str, layers: range) -> str:
    """Name of a part: number and class of its layers without a fused Flatten; the phase if it has no layers."""
    kinds = {i: net.layers[i] for i in layers}
    trained = {i: layer for i, layer in kinds.items() if not isinstance(layer, Flatten)} or kinds
    return ", ".join(f"{i} {type(layer).__name__}" for i, layer in trained.items()) or phase


def _floor(trainer: NativeTrainer, phase: str, layers: range, itemsize: int) -> floor.Floor:
    """Floor of a part: its arithmetic; bytes only for the part that first reads the samples, since others stay in
    caches.
    """
    net, config, n = trainer.net, trainer.config, trainer.batch
    stepped = set(trainer.plan.built.stepped)
    if phase == "feed":
        return floor.feed(net, n, itemsize, 0)
    if phase == "forward":
        samples = floor.feed(net, n, itemsize, 0).bytes if trainer.plan.built.enters(layers.start) else 0
        return floor.Floor(floor.forward(net, layers, n).flops - _left_out(trainer, layers), samples)
    if phase == "backward":
        own = floor.update(net, config, layers=stepped.intersection(layers), fused=True)
        return floor.Floor(floor.backward(net, layers, n).flops - _left_out(trainer, layers) + own.flops)
    if phase == "loss":
        return floor.Floor(floor.loss(net, n).flops)
    if phase == "update":
        return floor.Floor(floor.update(net, config, layers=set(range(len(net.layers))) - stepped).flops)
    return floor.Floor()


def _left_out(trainer: NativeTrainer, layers: range) -> int:
    """FLOPs of a step's products with 0 that one of the first layer's two products leaves out."""
    is_first = trainer.net.first_trained in layers
    return trainer.batch * (trainer.net.train_flops - trainer.flops()) // 2 if is_first else 0
