"""Kernels that the C++ compiler translates at the same time: a process of it for each core."""

from __future__ import annotations

from functools import partial

from ...errors import KernelError
from .. import source as sources
from ..ahead import Kernels, Say, at_once
from .module import EmulatedUnit, unit
from .toolchain import folder


def ahead(wanted: Kernels, mode: str, local: str, say: Say = None) -> None:
    """Compile kernels at the same time, and keep them; `module.function` has them at once afterwards.

    Parameters
    ----------
    wanted : iterable of (Path, str)
        Files, and the kernels in them.
    mode, local : as `EmulatedDevice` has them.
    say : callable, optional
        Told how many kernels are compiled, and where they are kept.
    """
    every: dict[EmulatedUnit, None] = {}
    for path, name in wanted:
        try:
            every.setdefault(unit(sources.read(path), name))
        except KernelError:  # told whoever asks for it
            continue
    missing = sorted(
        (each for each in every if not each.kept(mode, local)), key=lambda each: -len(each.source.text)
    )  # long ones first
    at_once([partial(each.library, mode, local) for each in missing], folder(), say)
