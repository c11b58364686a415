"""GPU: kernels compiled, launched, timed and captured through CUDA's driver; cuBLAS and cuDNN.

It may import device/, and loads nothing of CUDA, so that rungs can be listed without a GPU. Begin with device.py;
program.py compiles a kernel, kernel.py launches it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .support import why_not as why_not

if TYPE_CHECKING:
    from .device import GpuDevice as GpuDevice
    from .offline import OfflineDevice as OfflineDevice
    from .properties import facts as facts
    from .stream import GpuGraph as GpuGraph

_HOMES = {"GpuDevice": "device", "GpuGraph": "stream", "OfflineDevice": "offline", "facts": "properties"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
