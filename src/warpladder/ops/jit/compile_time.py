"""Time of compilation: measured, so that no epoch's time includes it, and announced, because it may take long."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class Compiling:
    """Seconds that numba compiles in this process, without loading code from the cache.

    seconds : total so far.
    announce : called once with a line when compilation begins; None for silence.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.announce: Callable[[str], None] | None = None
        self._depth = 0
        self._began = 0.0
        self._collects = False

    def begin(self) -> None:
        """Start the time of a compilation; compilations of called functions are part of it."""
        if self._depth == 0:
            self._began = time.perf_counter()
            self._collects = gc.isenabled()
            gc.disable()  # a compiler needs its millions of objects to the end: collection takes a sixth of its time
            if self.announce is not None:
                self.announce("compiling for this processor, which takes some seconds: once, then the code is stored")
                self.announce = None
        self._depth += 1

    def end(self) -> None:
        """End the compilation that `begin` began."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began
            if self._collects:
                gc.enable()

    @contextmanager
    def announced(self, announce: Callable[[str], None] | None) -> Iterator[None]:
        """Context in which `announce` receives the first compilation; None leaves the present announcer."""
        before = self.announce
        self.announce = announce or before
        try:
            yield
        finally:
            self.announce = None if self.announce is None else before


compiling = Compiling()


@cache
def listen() -> None:
    """Register `compiling` for numba's compilation events; `compiled` calls this."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            compiling.begin()

        def on_end(self, event: Any) -> None:
            compiling.end()

    event.register("numba:compile", Listener())
