"""`fastest`: the rung that should train a net in the shortest time on this machine, with its start and compilation.

The estimate depends on the net, the batch, the amount of work, the samples' zeros and the machine, but on no clock and
no cache: the same run takes the same rung again, and so repeats its bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from .. import ladder
from ..config import TrainConfig
from ..machine.cores import cores
from ..nets import Conv2d, Linear, Net
from ..optimizers import SGD

if TYPE_CHECKING:
    import numpy as np

    from ..device.limits import Limits
    from ..machine.peaks import Peaks

AUTO = "auto"

#: Microseconds of a step of the rung graph on chains of Linear layers, fitted to H100s: of one layer, of two, the base
#: and each layer of longer chains; and seconds of a FLOP.
GRAPH_STEPS, GRAPH_BASE, GRAPH_LAYER, GRAPH_FLOP = {1: 5.2, 2: 9.9}, 3.5, 9.0, 4e-14

#: Microseconds of graph on a chain of small layers beyond the estimate of `small_chain`, fitted to H200s: without and
#: with a first layer of its own, and with a launch of its own for the update.
GRAPH_CHAIN, GRAPH_STEM, GRAPH_UPDATE = 11.0, 9.0, 1.2

#: Seconds of a FLOP of the rung tensor on Linear layers; its steps take no longer than graph's.
TENSOR_FLOP = 2e-14

#: Seconds to start the rung persistent where its kernel is not compiled yet: without and for each layer.
PERSISTENT_START, PERSISTENT_LAYER = 4.5, 0.5

#: Time of a wide first layer on the rung native that leaves out products with 0, over its time for dense samples: a
#: constant, and a part for the share of numbers that are not 0. Fitted to 784-256-10 (docs/notes/native.md).
LISTED_START, LISTED_SHARE = 0.13, 2.0

#: Shared memory that a block gets on request by compute capability, in KiB; others have at least OTHERS_SHARED.
SHARED, OTHERS_SHARED = {(8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227}, 99


@dataclass(frozen=True)
class Cost:
    """Measured costs of a rung in seconds: its start without compiled code, a step, a FLOP, the update of a parameter,
    and a FLOP of a net with convolutions. docs/notes/auto.md has the measurements.
    """

    rung: str
    start: float
    step: float
    flop: float
    parameter: float
    convolution: float = 0.0

    def seconds(self, net: Net, steps: int, samples: int, left_out: float = 0.0) -> float:
        """Estimated seconds of `steps` steps over `samples` samples in total.

        left_out : FLOPs of a sample whose time is saved.
        """
        flop = self.convolution if any(isinstance(layer, Conv2d) for layer in net.layers) else self.flop
        work = samples * (net.train_flops - left_out) * flop
        return self.start + steps * (self.step + self.parameter * net.param_count) + work


def costs() -> tuple[Cost, ...]:
    """Costs of the rungs from which `fastest` chooses."""
    count = cores()
    return (
        Cost("numpy", 0.03, 3e-4, 1.1e-11, 5e-9, 5e-11),
        Cost("native", 7.0, 3e-5, 6.5e-12 / count, 0.0, 1.3e-11 / count),
        Cost("graph", 4.0, 1e-4, 4e-14, 0.0, 3e-14),
        Cost("tensor", 7.0, 1e-4, TENSOR_FLOP, 0.0, 1.5e-14),
    )


def costs_of(net: Net, config: TrainConfig, samples: int) -> tuple[Cost, ...]:
    """Costs for a net. On a chain of Linear layers the GPU's rungs get their calibrated time of a step, and persistent
    is one of them: it is taken only where its step is faster than that of graph by more than its kernel's compilation
    costs.
    """
    found = costs()
    persistent = next((rung for rung in ladder.LADDER if rung.name == "persistent"), None)
    if persistent is None or persistent.unsupported(net, config) is not None:
        return found
    gpu = _peaks()
    if gpu is None:
        return found
    is_plain = isinstance(config.optimizer, SGD) and config.steady
    layers, graph, ours = _steps_on(gpu, net, config.batch(samples), len(config.optimizer.slots), is_plain)
    flops = {"graph": GRAPH_FLOP, "tensor": TENSOR_FLOP}
    work = config.batch(samples) * net.train_flops
    calibrated = tuple(
        replace(each, step=graph + work * flops[each.rung], flop=0.0) if each.rung in flops else each for each in found
    )
    if ours is None:
        return calibrated
    return (*calibrated, Cost("persistent", PERSISTENT_START + PERSISTENT_LAYER * layers, ours, 0.0, 0.0))


def _peaks() -> Peaks | None:
    """Peak rates of this machine's GPU; None without a usable one."""
    from ..trainers.kernelwise.where import peaks

    return peaks(None)


@lru_cache(256)  # plans take as long as an epoch of a small net
def _steps_on(gpu: Peaks, net: Net, batch: int, slots: int, is_plain: bool) -> tuple[int, float, float | None]:
    """Layers of a chain of Linear layers, and seconds of a step of graph without its FLOPs and of persistent; None if
    no plan fits.

    slots : slots of the optimizer. is_plain : True for SGD with one rate.
    """
    from ..device.limits import Limits
    from ..trainers.persistent.plan import CLOCK, layers, plans

    chain = layers(net)
    assert not isinstance(chain, str)  # the rung persistent supports the net
    count, capability = len(chain), (int(gpu.capability[0]), int(gpu.capability[1]))
    limits = Limits(
        "this GPU", multiprocessors=gpu.multiprocessors, cluster=16 if capability[0] >= 9 else 1,
        shared_opt_in=SHARED.get(capability, OTHERS_SHARED) << 10,
    )  # fmt: skip
    pixel_bytes = 1 if len(net.in_shape) == 3 else 4  # images are most often bytes, rows of numbers are floats
    found = plans(net, batch, limits, slots=slots, pixel_bytes=pixel_bytes)
    graph = GRAPH_STEPS.get(count, GRAPH_BASE + GRAPH_LAYER * count)
    widths = chain[0].inputs, *(each.outputs for each in chain)
    if count > 2:
        graph = min(graph, _by_samples(widths, batch, limits) + (0.0 if is_plain else GRAPH_UPDATE))
    return count, graph * 1e-6, found[0].cycles / CLOCK if found else None


def _by_samples(widths: tuple[int, ...], batch: int, limits: Limits) -> float:
    """Microseconds of a step of graph whose layers, all or but the first one, are a small chain; inf for others."""
    from ..ops.small_chain.plan import cycles, planned
    from ..trainers.persistent.plan import CLOCK

    for first, more in ((0, GRAPH_CHAIN), (1, GRAPH_CHAIN + GRAPH_STEM)):
        plan = planned(widths[first:], batch, limits, first > 0)
        if plan is not None:
            return more + 1e6 * cycles(plan, batch, limits) / CLOCK
    return math.inf


def left_out(net: Net, config: TrainConfig, x: np.ndarray) -> float:
    """FLOPs of a sample whose time the rung native saves, since it leaves out products with the zeros of x."""
    from ..trainers.native.program.plan import NativePlan
    from ..trainers.native.samples import MOST, nonzeros

    share, first = nonzeros(x), net.first_trained
    if not share <= MOST or not isinstance(net.layers[first], Linear):
        return 0.0
    if not NativePlan(net, config, cores(), config.batch(len(x))).can_list:
        return 0.0
    return 2 * net.layers[first].flops(net.shapes[first]) * (1 - LISTED_START - LISTED_SHARE * share)


def fastest(
    net: Net, config: TrainConfig, samples: int, epochs: int | None = None, others: Sequence[Cost] = (),
    x: np.ndarray | None = None,
) -> tuple[str, str]:  # fmt: skip
    """Name of the rung with the smallest estimated time, and the reason in one line.

    epochs : epochs of the run; by default `config.epochs`.
    others : costs of further programs to choose from, which can train this net.
    x : samples, whose zeros the rung native leaves out; without them none is expected.
    """
    epochs = config.epochs if epochs is None else epochs
    steps = epochs * config.steps(samples)
    rungs = {rung.name: rung for rung in ladder.LADDER}
    ours = [
        each
        for each in costs_of(net, config, samples)
        if each.rung in rungs and rungs[each.rung].unsupported(net, config) is None
    ]
    saved = left_out(net, config, x) if x is not None and any(each.rung == "native" for each in ours) else 0.0
    found = [
        (cost.seconds(net, steps, epochs * samples, saved * (cost.rung == "native")), cost.rung, _each_step(cost))
        for cost in (*ours, *others)
    ]
    if not found:
        return "numpy", "no other rung can train this net here"
    (seconds, rung, step), *slower = sorted(found)
    rest = "".join(f"; {name} {_about(time)}{each}" for time, name, each in slower)
    return rung, f"{_about(seconds)} by estimate, cold start included{step}{rest}"


def _each_step(cost: Cost) -> str:
    """Time of a step where it is calibrated for the net, as text."""
    return (
        "" if cost.flop or cost.rung not in ("graph", "tensor", "persistent") else f", {1e6 * cost.step:.3g} µs a step"
    )


def _about(seconds: float) -> str:
    return "below 0.1 s" if seconds < 0.1 else f"about {seconds:.1g} s" if seconds < 10 else f"about {seconds:,.0f} s"
