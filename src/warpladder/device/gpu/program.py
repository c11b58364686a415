"""From a kernel's name to its machine code: the file is read, the signature found, the code compiled or taken from the
cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import Resources, Source
from .. import source as sources
from ..precompile import PrecompilingDevice
from ..signature import Signature, names, signature, templates
from .architecture import Capability, target
from .cache import CUBINS, cached, compiled
from .compile import Binary


@dataclass(frozen=True)
class Program:
    """One kernel, compiled.

    binary : what it is in, with the other kernels that were compiled at the same time.
    key : of the binary, within a process.
    """

    source: Source
    signature: Signature
    binary: Binary
    key: tuple[str, tuple[str, ...], str]

    @property
    def symbol(self) -> str:
        """Its name in the machine code."""
        return self.binary.symbols[self.signature.name]

    @property
    def resources(self) -> Resources:
        return self.binary.resources[self.signature.name]


def program(path: Path | str, name: str, capability: Capability, arch: str) -> Program:
    """The kernel `name` of a file for a GPU of this capability, whose own architecture is `arch`; `KernelError` for
    what is wrong with it.
    """
    return _program(sources.read(path), name, capability, arch)


@cache
def _program(source: Source, name: str, capability: Capability, arch: str) -> Program:
    found = unit(source, name, capability, arch)
    return Program(source, signature(source, name), found.compiled(), found.key)


#: What was read or compiled in this process, by the keys of units.
_binaries: dict[tuple[str, tuple[str, ...], str], Binary] = {}


@dataclass(frozen=True)
class Unit:
    """What is compiled in one go: these kernels of a source, for an architecture."""

    source: Source
    names: tuple[str, ...]
    arch: str

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        return self.source.digest, self.names, self.arch

    @property
    def missing(self) -> bool:
        """Whether the unit has to be compiled; machine code that is on disk is read by asking."""
        if self.key not in _binaries and (found := cached(self.source, self.names, self.arch)) is not None:
            _binaries[self.key] = found
        return self.key not in _binaries

    def compiled(self) -> Binary:
        """The unit's machine code, read or compiled once in a process; `KernelError` for what is wrong with the source."""
        if self.key not in _binaries:
            _binaries[self.key] = compiled(self.source, self.names, self.arch)
        return _binaries[self.key]


@cache
def unit(source: Source, name: str, capability: Capability, arch: str) -> Unit:
    """Kernels that are no templates are compiled all at once, instances of templates one by one."""
    found = signature(source, name)
    return Unit(source, (found.name,) if "<" in found.name else plain(source), target(source, capability, arch))


class NvrtcDevice(PrecompilingDevice[Unit]):
    """A device whose kernels NVRTC compiles.

    capability : compute capability.
    arch : the device's own architecture, "sm_90a" for instance.
    """

    capability: Capability
    arch: str

    def program(self, path: Path | str, name: str) -> Program:
        """The compiled kernel `name` of a file; `KernelError` with the compiler's error."""
        self.precompile(sources.read(path), name)
        return program(path, name, self.capability, self.arch)

    def unit(self, source: Source, name: str) -> Unit:
        return unit(source, name, self.capability, self.arch)

    def is_compiled(self, unit: Unit) -> bool:
        return not unit.missing

    def compile_unit(self, unit: Unit) -> Binary:
        return unit.compiled()

    @property
    def compiled_folder(self) -> Path | None:
        return CUBINS.folder()


def plain(source: Source) -> tuple[str, ...]:
    """The kernels of a source that are no templates."""
    return tuple(name for name in names(source) if name not in templates(source))
