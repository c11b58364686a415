"""Machine code of a kernel by file and name: for a chosen architecture, compiled or from the cache."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import DeviceError, KernelError
from .. import KernelSource, Resources
from .. import source as sources
from ..declarations import names, signature, templates
from ..precompile import PrecompilingDevice
from ..signature import Signature
from .cache import CUBINS, cached, compiled
from .compile import Binary, architectures, version

Capability = tuple[int, int]


def native(capability: Capability, name: str) -> str:
    """Architecture to compile for: the GPU's, or the nearest of its generation in NVRTC; else `DeviceError`."""
    major, minor = capability
    fit = [number for number in architectures() if number // 10 == major and number % 10 <= minor]
    if not fit:
        release = "{}.{}".format(*version())
        raise DeviceError(
            f"NVRTC {release} does not know {name} (compute capability {major}.{minor}): "
            "pip install -U nvidia-cuda-nvrtc"
        )
    return f"sm_{max(fit)}"


def target(source: KernelSource, capability: Capability, arch: str) -> str:
    """Architecture for which a source is compiled on a GPU with its own `arch`. Raises `KernelError` if none fits.

    sm_90a runs only on 9.0, sm_100f on 10.0 and later 10s; a source for sm_80 is compiled anew for all later GPUs.
    """
    number = 10 * capability[0] + capability[1]
    declared = [re.fullmatch(r"sm_(\d+)([af]?)", each) for each in source.archs]
    known = [(int(match[1]), match[2]) for match in declared if match]
    for own, suffix in known:
        if (suffix and own == number) or (suffix == "f" and own // 10 == capability[0] and own <= number):
            return f"sm_{own}{suffix}"
    if any(not suffix and own <= number for own, suffix in known):
        return arch
    raise KernelError(f"{source.path} is written for {', '.join(source.archs)}, and this GPU is an sm_{number}")


@dataclass(frozen=True)
class GpuProgram:
    """Compiled kernel in a binary, which may hold others; key : key of the binary in this process."""

    source: KernelSource
    signature: Signature
    binary: Binary
    key: tuple[str, tuple[str, ...], str]

    @property
    def symbol(self) -> str:
        """Name of the kernel in the machine code."""
        return self.binary.symbols[self.signature.name]

    @property
    def resources(self) -> Resources:
        return self.binary.resources[self.signature.name]


def program(path: Path | str | KernelSource, name: str, capability: Capability, arch: str) -> GpuProgram:
    """Compiled kernel of a file for a GPU. Raises `KernelError` with the compiler's error."""
    return _program(sources.read(path), name, capability, arch)


@cache
def _program(source: KernelSource, name: str, capability: Capability, arch: str) -> GpuProgram:
    found = unit(source, name, capability, arch)
    return GpuProgram(source, signature(source, name), found.compiled(), found.key)


#: Binaries that this process has read or compiled, by the keys of units.
_binaries: dict[tuple[str, tuple[str, ...], str], Binary] = {}


@dataclass(frozen=True)
class NvrtcUnit:
    """Kernels of a source that are compiled together for an architecture."""

    source: KernelSource
    names: tuple[str, ...]
    arch: str

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        return self.source.digest, self.names, self.arch

    @property
    def missing(self) -> bool:
        """True if the unit must be compiled. It reads machine code from the disk cache."""
        if self.key not in _binaries and (found := cached(self.source, self.names, self.arch)) is not None:
            _binaries[self.key] = found
        return self.key not in _binaries

    def compiled(self) -> Binary:
        """Machine code of the unit, read or compiled once a process. Raises `KernelError` with the compiler's error."""
        if self.key not in _binaries:
            _binaries[self.key] = compiled(self.source, self.names, self.arch)
        return _binaries[self.key]


@cache
def unit(source: KernelSource, name: str, capability: Capability, arch: str) -> NvrtcUnit:
    """Unit of a kernel: all kernels of a source except templates, or one instance of a template."""
    found = signature(source, name)
    return NvrtcUnit(source, (found.name,) if "<" in found.name else plain(source), target(source, capability, arch))


class NvrtcDevice(PrecompilingDevice[NvrtcUnit]):
    """Device whose kernels NVRTC compiles; arch : its own architecture, for instance "sm_90a"."""

    capability: Capability
    arch: str

    def program(self, path: Path | str | KernelSource, name: str) -> GpuProgram:
        """Compiled kernel `name` of a file. Raises `KernelError` with the compiler's error."""
        self.precompile(sources.read(path), name)
        return program(path, name, self.capability, self.arch)

    def unit(self, source: KernelSource, name: str) -> NvrtcUnit:
        return unit(source, name, self.capability, self.arch)

    def is_compiled(self, unit: NvrtcUnit) -> bool:
        return not unit.missing

    def compile_unit(self, unit: NvrtcUnit) -> Binary:
        return unit.compiled()

    @property
    def compiled_folder(self) -> Path | None:
        return CUBINS.folder()


def plain(source: KernelSource) -> tuple[str, ...]:
    """Names of a source's kernels that are not templates."""
    return tuple(name for name in names(source) if name not in templates(source))
