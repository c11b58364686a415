"""Counts of the kernels of one training step on the emulator: sectors, bank conflicts, divergence, FLOPs."""

from __future__ import annotations

from dataclasses import replace

from ...device.emulator.counts import KernelCounts, launch_counts
from ...device.emulator.device import EmulatedDevice
from ...device.emulator.kernel import EmulatedLaunch
from ...errors import RungError
from ...train.resolve import ResolvedRun
from ...train.restore import to_state
from ...trainers.kernelwise.trainer import KernelTrainer
from ...trainers.kernelwise.where import emulator_mode
from .kernels import full


def count_step(run: ResolvedRun) -> list[KernelCounts]:
    """Counts of each launch of a full step of a resolved run, in order. Raises RungError: the rung has no launches."""
    token = emulator_mode.set("count")
    try:
        with run.rung.build(run.net, run.config, to_state(run.start)) as trainer:
            device = trainer.device if isinstance(trainer, KernelTrainer) else None
            if not isinstance(trainer, KernelTrainer) or not isinstance(device, EmulatedDevice):
                raise RungError(f"rung {run.rung.name} has no kernels on the emulator: name one with :device=emulated")
            trainer.load(run.data)
            trainer.rewind()
            found = []
            for stage in trainer.stages(full(trainer)):
                for launch in stage.launches:
                    launch.send()
                    if isinstance(launch, EmulatedLaunch):
                        found.append(_counted(launch, stage.phase))
            return found
    finally:
        emulator_mode.reset(token)


def _counted(launch: EmulatedLaunch, phase: str) -> KernelCounts:
    return replace(launch_counts(launch), name=f"{launch.name}, {phase}" if phase else launch.name)
