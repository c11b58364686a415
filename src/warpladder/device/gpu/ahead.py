"""Kernels that NVRTC compiles at the same time: on as many threads as ask it to."""

from __future__ import annotations

from pathlib import Path

from .. import source as sources
from ..ahead import CompilesAhead, Kernels, Say, at_once
from .architecture import Capability
from .cache import CUBINS
from .program import Program, program, unit


def ahead(wanted: Kernels, capability: Capability, arch: str, say: Say = None) -> None:
    """Compile kernels at the same time, and keep them; `program` has them at once afterwards.

    Parameters
    ----------
    wanted : iterable of (Path, str)
        Files, and the kernels in them.
    capability, arch : as `program`.
    say : callable, optional
        Told how many kernels are compiled, and where they are kept.
    """
    every = dict.fromkeys(unit(sources.read(path), name, capability, arch) for path, name in wanted)
    missing = [each for each in every if each.missing]
    missing.sort(key=lambda each: -len(each.source.text))  # long ones first, so that none is waited for alone
    at_once([each.compiled for each in missing], CUBINS.folder(), say)


class Compiler(CompilesAhead):
    """A device whose kernels NVRTC compiles.

    capability : compute capability.
    arch : the architecture of its own, "sm_90a" for instance.
    """

    capability: Capability
    arch: str

    def program(self, path: Path | str, name: str) -> Program:
        """A kernel, compiled; `KernelError` for what is wrong with it."""
        if self.expects and unit(sources.read(path), name, self.capability, self.arch).missing:
            wanted, say = self.foreseen()
            ahead(wanted, self.capability, self.arch, say)
        return program(path, name, self.capability, self.arch)
