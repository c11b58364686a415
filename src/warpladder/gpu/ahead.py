"""Kernels compiled at the same time: NVRTC compiles on as many threads as ask it to, so all that will be asked for is given to it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from ..device import Device
from ..device import source as sources
from ..errors import KernelError
from ..machine import cores
from . import cache
from .architecture import Capability
from .program import Program, program, unit

#: Threads that compile, at most: NVRTC holds some memory in each.
THREADS = 16

Kernels = Iterable[tuple[Path, str]]
Say = Callable[[str], None] | None


def ahead(wanted: Kernels, capability: Capability, arch: str, say: Say = None) -> None:
    """Compile kernels at the same time, with a thread for each core, and keep them; `program` has them at once afterwards.

    One that cannot be compiled is left to `program`, which says why.

    Parameters
    ----------
    wanted : iterable of (Path, str)
        Files, and the kernels in them.
    capability, arch : as `program`.
    say : callable, optional
        Told how many kernels are compiled, and where they are kept.
    """
    every = dict.fromkeys(unit(sources.read(path), name, capability, arch) for path, name in wanted)
    units = sorted(
        (each for each in every if each.missing), key=lambda each: -len(each.source.text)
    )  # long ones first, so that none is waited for alone
    if len(units) < 2:
        return
    threads = min(len(units), cores(), THREADS)
    if say is not None:
        place = cache.folder()
        where = "" if place is None else f"; later runs find them in {place}"
        say(f"Compiling {len(units)} kernels with {threads} thread{'s' * (threads > 1)}{where}")
    pool, began = ThreadPoolExecutor(threads), perf_counter()
    try:
        for future in [pool.submit(each.compiled) for each in units]:
            error = future.exception()
            if error is not None and not isinstance(error, KernelError):
                raise error
    finally:
        pool.shutdown(cancel_futures=True)
    if say is not None:
        say(f"Compiled in {perf_counter() - began:.1f} s")


class Compiler(Device):
    """A device whose kernels NVRTC compiles.

    capability : compute capability.
    arch : the architecture of its own, "sm_90a" for instance.
    """

    capability: Capability
    arch: str
    _expected: tuple[Callable[[], Kernels], Say] | None = None

    @contextmanager
    def expecting(self, foreseen: Callable[[], Kernels], say: Say = None) -> Iterator[None]:
        """While this lasts, the first kernel that has to be compiled is compiled at the same time as all that are foreseen."""
        outer = self._expected
        self._expected = outer or (foreseen, say)
        try:
            yield
        finally:
            self._expected = outer

    def program(self, path: Path | str, name: str) -> Program:
        """A kernel, compiled; `KernelError` for what is wrong with it."""
        if self._expected is not None and unit(sources.read(path), name, self.capability, self.arch).missing:
            (foreseen, say), self._expected = self._expected, None
            ahead(foreseen(), self.capability, self.arch, say)
        return program(path, name, self.capability, self.arch)
