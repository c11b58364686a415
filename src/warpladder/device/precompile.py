"""Precompilation: with the first kernel that is not compiled, all kernels that a dry run (`dry_run.py`) finds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from ..errors import KernelError
from ..machine.facts import cores
from . import source as sources
from .base import Device, FindKernels, Say
from .source import KernelSource

#: Compilers that run concurrently, at most: each of them takes memory.
MOST = 16


class CompilationUnit(Protocol):
    """Kernels of a source that are compiled together."""

    @property
    def source(self) -> KernelSource:
        """Source of the kernels."""


SomeUnit = TypeVar("SomeUnit", bound=CompilationUnit)


class PrecompilingDevice(Device, Generic[SomeUnit]):
    """Device that compiles a kernel when it is first requested."""

    _find: tuple[FindKernels, Say] | None = None

    @contextmanager
    def precompiling(self, find: FindKernels, say: Say = None) -> Iterator[None]:
        outer = self._find
        self._find = outer or (find, say)
        try:
            yield
        finally:
            self._find = outer

    @abstractmethod
    def unit(self, source: KernelSource, name: str) -> SomeUnit:
        """Unit with which a kernel is compiled. Raises `KernelError` if there is no such kernel."""

    @abstractmethod
    def is_compiled(self, unit: SomeUnit) -> bool:
        """True if a unit is compiled, in this process or in the cache."""

    @abstractmethod
    def compile_unit(self, unit: SomeUnit) -> object:
        """Compile a unit into the cache. Raises `KernelError` with the compiler's error."""

    @property
    @abstractmethod
    def compiled_folder(self) -> Path | None:
        """Folder of the cache of compiled kernels, or None."""

    def precompile(self, source: KernelSource, name: str) -> None:
        """Compile all kernels that the enclosing `precompiling` finds, if this one is not compiled; ignore errors."""
        if self._find is None or self.is_compiled(self.unit(source, name)):
            return
        (find, say), self._find = self._find, None
        units: dict[SomeUnit, None] = {}
        for path, other in find():
            with suppress(KernelError):
                units.setdefault(self.unit(sources.read(path), other))
        missing = [each for each in units if not self.is_compiled(each)]
        missing.sort(key=lambda each: -len(each.source.text))  # the longest first, so that none of them ends alone
        compile_concurrently([partial(self.compile_unit, each) for each in missing], self.compiled_folder, say)


def compile_concurrently(compilations: Sequence[Callable[[], object]], folder: Path | None, say: Say) -> None:
    """Run compilations on one thread for each core, in this order; a single one is left to the request for its kernel.

    compilations : functions whose `KernelError`s are ignored: the request for the kernel raises them again.
    folder : cache of the results, for the messages. say : called with the number of kernels, and with their seconds.
    """
    if len(compilations) < 2:
        return
    threads = min(len(compilations), cores(), MOST)
    if say is not None:
        where = "" if folder is None else f"; later runs find them in {folder}"
        say(f"Compiling {len(compilations)} kernels with {threads} thread{'s' * (threads > 1)}{where}")
    pool, began = ThreadPoolExecutor(threads), perf_counter()
    try:
        for future in [pool.submit(each) for each in compilations]:
            error = future.exception()
            if error is not None and not isinstance(error, KernelError):
                raise error
    finally:
        pool.shutdown(cancel_futures=True)
    if say is not None:
        say(f"Compiled in {perf_counter() - began:.1f} s")
