"""The emulator with an H200's limits, by which kernels are planned."""

from __future__ import annotations

from dataclasses import replace

from clockwork import Clockwork

from warpladder.device.emulator import EmulatedDevice


def device(
    mode: str = "fast", order: str = "forward", shared: int = 227 << 10, multiprocessors: int = 132
) -> EmulatedDevice:
    """Emulated device with as many multiprocessors as an H200, and as many bytes of shared memory for a block."""
    found = EmulatedDevice(mode=mode, order=order, seed=3)
    found.limits = replace(found.limits, multiprocessors=multiprocessors, shared_opt_in=shared)
    return found


def idle(multiprocessors: int = 132) -> Clockwork:
    """Device of the same limits that compiles and computes nothing, for tests of what is planned."""
    found = Clockwork(lambda launch: 1e-5, hardware=None)
    found.limits = device(multiprocessors=multiprocessors).limits
    return found
