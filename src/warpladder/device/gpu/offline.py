"""`OfflineDevice`: kernels compiled for a GPU that this machine lacks, and launches checked against its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import DeviceError
from .. import Kernel, Launch, Limits, Stream
from ..dry_run import IdleDevice, IdleStream
from ..limits import LaunchConfig
from ..source import KernelSource
from .program import Capability, NvrtcDevice

#: Limits of a GPU of each architecture, from NVIDIA's documentation.
LIMITS = {
    "sm_75": Limits(
        "T4 (offline)", shared_opt_in=64 << 10, threads_per_multiprocessor=1024, blocks_per_multiprocessor=16,
        shared_per_multiprocessor=64 << 10, memory=16 << 30, multiprocessors=40, cluster=1,
    ),
    "sm_80": Limits(
        "A100 (offline)", shared_opt_in=163 << 10, shared_per_multiprocessor=164 << 10, memory=40 << 30,
        multiprocessors=108, cluster=1,
    ),
    "sm_90": Limits("H100 (offline)", memory=80 << 30, multiprocessors=132),
    "sm_100": Limits("B200 (offline)", memory=180 << 30, multiprocessors=148),
}  # fmt: skip

#: First address of an array.
BASE = 0x7000_0000_0000


class OfflineLaunch(Launch):
    """Launch that passed the checks, and cannot run."""

    def send(self, stream: Stream | None = None) -> None:
        raise DeviceError(f"{self!r} cannot be sent: {self.kernel.device.name} only compiles and checks")


class OfflineKernel(Kernel):
    """Kernel of an `OfflineDevice`: compiled for its architecture; a launch is checked and not run."""

    def _launch(self, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]) -> OfflineLaunch:
        return OfflineLaunch(self, config)


class OfflineDevice(NvrtcDevice, IdleDevice):
    """Device without a GPU that compiles kernels for an architecture, counts memory and checks launches.

    arch : "sm_75", "sm_80", "sm_90" or "sm_100". kernels : compiled kernels by (file, name).
    """

    def __init__(self, arch: str = "sm_90") -> None:
        if arch not in LIMITS:
            raise DeviceError(f"the limits of {arch} are not known; there are {', '.join(LIMITS)}")
        self.arch, self.limits = arch, LIMITS[arch]
        self.name = self.limits.device
        self.capability: Capability = divmod(int(arch.removeprefix("sm_")), 10)
        self.stream = IdleStream()
        self.held = {}
        self._next = BASE
        self.kernels: dict[tuple[Path, str], OfflineKernel] = {}

    def kernel(self, path: Path | str | KernelSource, name: str) -> OfflineKernel:
        found = self.program(path, name)
        file = found.source.path
        if not file.exists():  # assembled sources may share a name
            file = file.with_stem(f"{file.stem}-{found.source.digest[:8]}")
        key = file, found.signature.name
        if key not in self.kernels:
            self.kernels[key] = OfflineKernel(self, found.source, found.signature, found.resources)
        return self.kernels[key]
