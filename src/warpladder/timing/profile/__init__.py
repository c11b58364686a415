"""Profile of a training step: time and memory of each part, measured with clocks and events, and each part's floor.

Begin with `profile`; kernels.py, layerwise.py and native.py measure the parts of each kind of trainer.
It imports trainers, ladder and results; the command line imports it. `profile_run` takes a resolved run.
"""

from __future__ import annotations

import math
import statistics
from functools import partial
from time import perf_counter
from typing import Any

from ...config import TrainConfig
from ...data.dataset import Dataset
from ...data.order import Order
from ...machine import facts as machine
from ...nets import CrossEntropyLoss, Net
from ...results.profiled import KernelTime as KernelTime
from ...results.profiled import LaunchShape as LaunchShape
from ...results.profiled import Part as Part
from ...results.profiled import ProductTiles as ProductTiles
from ...results.profiled import Profile as Profile
from ...results.profiled import StreamSpans as StreamSpans
from ...rungs.base import Rung
from ...train.request import RunRequest
from ...train.resolve import ResolvedRun, resolve
from ...train.restore import to_state
from ...trainers.base import Trainer
from ...trainers.kernelwise.trainer import KernelTrainer
from ...trainers.layerwise import LayerwiseTrainer
from ...trainers.native.trainer import NativeTrainer
from . import kernels, layerwise, native, units

ROUNDS = 5
PATIENCE = 0.5  # seconds of whole steps in each round
EPOCHS = 400  # most epochs of a round if an epoch is one step

WHOLE = "this rung is one program: its parts cannot be run alone"
FOREIGN = (
    "the trainer of this rung is its own: its parts are not known, so whole steps are timed, and the "
    "rest is what the trainer reports"
)


def profile(rung: Rung, net: Net, data: Dataset, config: TrainConfig) -> Profile:
    """Profile of one rung: times of its training step and of the step's parts.

    Raises
    ------
    RungError
        The rung cannot train this net here.
    """
    return profile_run(resolve(RunRequest(net, data, config, rung=rung)))


def profile_run(run: ResolvedRun) -> Profile:
    """Profile of a resolved run: times of its training step and of the step's parts."""
    rung, net, data, config, start = run.rung, run.net, run.data, run.config, to_state(run.start)
    with rung.build(net, config, start) as trainer:
        trainer.load(data)
        step_seconds = whole_steps(trainer, data, config)
        trainer.set_state(start)
        parts: tuple[Part, ...] = ()
        lanes: tuple[StreamSpans, ...] = ()
        tiles: tuple[ProductTiles, ...] = ()
        hidden, share = 0.0, None
        if isinstance(trainer, KernelTrainer):
            lanes, hidden = kernels.timeline(trainer)
            parts = kernels.parts(trainer)
            tiles = kernels.tiles(trainer)
            share = units.tensor_share(trainer, kernels.full(trainer))
        elif isinstance(trainer, LayerwiseTrainer):
            parts = layerwise.parts(trainer)
        elif isinstance(trainer, NativeTrainer):
            steps = Steps(trainer, data, config)
            parts = native.parts(
                trainer, partial(steps.run, steps.within(PATIENCE, step_seconds)), data.train_x.dtype.itemsize
            )
        flops, bandwidth, device, facts = _peaks(trainer, rung)
        batch = config.batch(len(data.train_x))
        return Profile(
            net=net.name,
            rung=rung.name,
            device=device,
            samples=batch,
            step_seconds=step_seconds,
            flops=batch * trainer.flops(),
            flops_per_second=flops,
            bytes_per_second=bandwidth,
            parts=parts,
            memory=trainer.memory(),
            host_bytes=resident(),
            transfers=transfers(trainer, net, data, batch),
            timeline=lanes,
            hidden=hidden,
            reason="" if parts else WHOLE if rung.path is None else FOREIGN,
            machine=facts,
            tiles=tiles,
            spans={name: float(seconds) for name, seconds in trainer.spans().items()},
            tensor_share=share,
            inside=isinstance(trainer, NativeTrainer) and bool(parts),
        )


class Steps:
    """Consecutive training steps with losses: of one long epoch, or of epochs of one step."""

    def __init__(self, trainer: Trainer, data: Dataset, config: TrainConfig) -> None:
        self.trainer, self.steps = trainer, config.steps(len(data.train_x))
        self.most = self.steps if self.steps > 1 else EPOCHS
        self.order = Order(config.seed, 0, len(data.train_x), config.shuffle)

    def within(self, seconds: float, each: float) -> int:
        """Number of steps that take `seconds` if one takes `each`: at least one, at most those of one call."""
        return max(1, min(self.most, math.ceil(seconds / max(each, 1e-7))))

    def run(self, count: int) -> int:
        """Train `count` steps, and return their number."""
        if self.steps > 1:
            self.trainer.run(self.order, 0, count)
        else:
            self.trainer.run_epochs([self.order] * count)
        return count


def whole_steps(trainer: Trainer, data: Dataset, config: TrainConfig) -> float:
    """Seconds of a training step: the median of several rounds of consecutive steps."""
    steps = Steps(trainer, data, config)

    def measured(count: int) -> float:
        begin = perf_counter()
        steps.run(count)
        return (perf_counter() - begin) / count

    measured(1)
    count = steps.within(PATIENCE, measured(min(2, steps.most)))
    return statistics.median(measured(count) for _ in range(ROUNDS))


def _peaks(trainer: Trainer, rung: Rung) -> tuple[float, float, str, dict[str, Any]]:
    """Peaks of the computing unit in FLOP/s and bytes/s, its name, and facts of the machine."""
    facts = machine.facts(rung.options.chosen().get("threads"))
    if (peak := trainer.peak()) is not None:
        limits = trainer.device.limits if isinstance(trainer, KernelTrainer) else None
        return peak, (limits and limits.bandwidth) or math.nan, limits.device if limits else "the GPU", facts
    if rung.precision == "fp64":
        facts["fma_peak_fp64"] = machine.fma_peak(facts["threads"], "fp64")
    return facts.get("fma_peak_fp64", facts["fma_peak"]), facts["bandwidth"], facts["cpu"], facts


def transfers(trainer: Trainer, net: Net, data: Dataset, batch: int) -> dict[str, int]:
    """Bytes copied between host and device in one step, by kind; empty if the samples are on the device."""
    from ...trainers.kernelwise.feeds import ResidentFeed, SyncFeed

    if not isinstance(trainer, KernelTrainer) or isinstance(trainer.feed, ResidentFeed):
        return {}
    out = {"samples to the device": batch * math.prod(net.in_shape) * data.train_x.dtype.itemsize}
    if isinstance(net.loss, CrossEntropyLoss):
        out["labels to the device"] = 4 * batch
    elif data.has_targets:
        out["targets to the device"] = 4 * batch * data.outputs
    if isinstance(trainer.feed, SyncFeed):
        out["loss and correct to the host"] = 16
    return out


def resident() -> int:
    """Resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return 0
