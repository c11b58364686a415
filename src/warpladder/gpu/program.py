"""From a kernel's name to its machine code: the file is read, the signature found, the code compiled or taken from the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..device import Resources, Source
from ..device import source as sources
from ..device.signature import Signature, names, signature, templates
from .architecture import Capability, target
from .cache import compiled
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
    """The kernel `name` of a file for a GPU of this capability; `KernelError` for what is wrong with it.

    Kernels that are no templates are compiled all at once, instances of templates one by one.
    """
    source = sources.read(path)
    found = signature(source, name)
    wanted = (found.name,) if "<" in found.name else tuple(each for each in names(source) if each not in templates(source))
    wanted_for = target(source, capability, arch)
    return Program(source, found, compiled(source, wanted, wanted_for), (source.digest, wanted, wanted_for))
