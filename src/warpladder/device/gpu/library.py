"""Calls of a vendor's library: a plan, made once for shapes and addresses, and the calls that queue it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...errors import DeviceError
from .. import Array, Call, Device, Stream

if TYPE_CHECKING:
    from .device import GpuDevice

INSTALL = "pip install 'warpladder[cuda13]' (or [cuda12])"

#: The package that calls cuDNN, and the release that device/gpu/cudnn.py supports: its handles are numbers, and in 1.32
#: they are objects.
FRONTEND, RELEASES = "nvidia-cudnn-frontend", "1.25"

#: Largest workspace of a plan, in bytes. cuBLAS advises 32 MB for Hopper.
MOST_WORKSPACE = 256 << 20


def why_not(cublas: bool, cudnn: bool) -> str | None:
    """Reason why these libraries cannot be called: a missing package or another release; None if they can."""
    if cublas and find_spec("nvmath") is None:
        return f"nvmath-python, through which cuBLASLt is called, is not installed: {INSTALL}"
    if cudnn and find_spec("cudnn") is None:
        return f"{FRONTEND}, through which cuDNN is called, is not installed: {INSTALL}"
    if cudnn and (found := _release()) is not None and not f"{found}.".startswith(f"{RELEASES}."):
        install = f"pip install '{FRONTEND}=={RELEASES}.*'"
        return f"{FRONTEND} {found} is installed, and cuDNN is called through {RELEASES}: {install}"
    return None


def _release() -> str | None:
    """Release of cuDNN's frontend; None if it is unknown."""
    try:
        return metadata.version(FRONTEND)
    except metadata.PackageNotFoundError:
        return None


def line(error: BaseException) -> str:
    """Message of a library's error in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class LibraryPlan(ABC):
    """Algorithm of a library for one operation, chosen once; workspace : bytes that it needs."""

    name: str
    workspace: int

    @abstractmethod
    def run(self, stream: int, workspace: int) -> None:
        """Queue the operation on a stream, by its handle, with a workspace at an address."""


class LibraryCall(Call):
    """Call of a plan with its workspace, (bytes,) uint8, which other calls of the same stream may share."""

    def __init__(self, device: Device, plan: LibraryPlan, workspace: Array | None) -> None:
        held = 0 if workspace is None else workspace.nbytes
        if held < plan.workspace:
            raise DeviceError(f"{plan.name} needs {plan.workspace:,} bytes of workspace, and has {held:,}")
        self.device, self.plan, self.workspace = on_gpu(device), plan, workspace
        self.address = 0 if workspace is None else workspace.address

    @property
    def name(self) -> str:
        return self.plan.name

    def send(self, stream: Stream | None = None) -> None:
        handle = int(self.device.on(stream).handle)
        try:
            self.plan.run(handle, self.address)
        except Exception as error:
            raise DeviceError(f"{self.name} failed on {self.device.name}: {line(error)}") from error

    def __repr__(self) -> str:
        return f"<{self.name}, workspace {self.plan.workspace:,}>"


def on_gpu(device: Device) -> GpuDevice:
    """GPU that the device is. Raises `DeviceError` for other devices, on which the libraries do not run."""
    if device.hardware is not None:  # other devices are refused without a CUDA library
        from .device import GpuDevice

        if isinstance(device, GpuDevice):
            return device
    raise DeviceError(f"cuBLAS and cuDNN run on a GPU, not on {device.name}")
