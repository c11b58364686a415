"""Kernels compiled at the same time: the first one that has to be compiled brings along all that will be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from ..errors import KernelError
from ..machine.facts import cores
from .base import Device

#: Compilers that work at the same time, at most: each holds some memory.
MOST = 16

#: Kernels by file and name.
Kernels = Iterable[tuple[Path, str]]
Say = Callable[[str], None] | None


class CompilesAhead(Device):
    """A device whose kernels are compiled when they are first asked for."""

    _expected: tuple[Callable[[], Kernels], Say] | None = None

    @contextmanager
    def expecting(self, foreseen: Callable[[], Kernels], say: Say = None) -> Iterator[None]:
        outer = self._expected
        self._expected = outer or (foreseen, say)
        try:
            yield
        finally:
            self._expected = outer

    @property
    def expects(self) -> bool:
        """Whether `foreseen` can still be asked for the kernels to come."""
        return self._expected is not None

    def foreseen(self) -> tuple[Kernels, Say]:
        """The kernels that will be asked for, and who wants to be told that they are compiled; once."""
        assert self._expected is not None
        (foreseen, say), self._expected = self._expected, None
        return foreseen(), say


def at_once(units: Sequence[Callable[[], object]], place: Path | None, say: Say) -> None:
    """Compile kernels, on one thread for each core; a lone one is left to whoever asks for it.

    Parameters
    ----------
    units : sequence of callable
        Each compiles one; begun in this order. A `KernelError` is left to whoever asks for that kernel, who is told
        what is wrong with it.
    place : Path or None
        The folder in which what is compiled is kept.
    say : callable or None
        Told how many there are, and how long that took.
    """
    if len(units) < 2:
        return
    threads = min(len(units), cores(), MOST)
    if say is not None:
        where = "" if place is None else f"; later runs find them in {place}"
        say(f"Compiling {len(units)} kernels with {threads} thread{'s' * (threads > 1)}{where}")
    pool, began = ThreadPoolExecutor(threads), perf_counter()
    try:
        for future in [pool.submit(each) for each in units]:
            error = future.exception()
            if error is not None and not isinstance(error, KernelError):
                raise error
    finally:
        pool.shutdown(cancel_futures=True)
    if say is not None:
        say(f"Compiled in {perf_counter() - began:.1f} s")
