"""What compiling takes: counted, so that no epoch is charged with it, and said when it begins, because it may take
long.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class Compiling:
    """Counts the seconds that numba compiles in this process; code that is fetched from the cache does not count.

    seconds : so far.
    say : called with a line when compiling begins, once, where somebody wants to know.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.say: Callable[[str], None] | None = None
        self._depth = 0
        self._began = 0.0
        self._collects = False

    def begin(self) -> None:
        """Note that a function is being compiled: by itself, or because another that is being compiled calls it."""
        if self._depth == 0:
            self._began = time.perf_counter()
            self._collects = gc.isenabled()
            # a compiler makes millions of objects that it needs to the end: looking for garbage takes a sixth of its
            # time
            gc.disable()
            if self.say is not None:
                self.say("compiling for this processor, which takes some seconds: once, then the code is kept")
                self.say = None
        self._depth += 1

    def end(self) -> None:
        """A function that `begin` announced is compiled."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began
            if self._collects:
                gc.enable()

    @contextmanager
    def announced(self, say: Callable[[str], None] | None) -> Iterator[None]:
        """Context in which `say` announces the first compilation; None keeps the announcer that is set."""
        before = self.say
        self.say = say or before
        try:
            yield
        finally:
            self.say = None if self.say is None else before


compiling = Compiling()


@cache
def listen() -> None:
    """Report each of numba's compilations to `compiling`; `compiled` calls this once."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            compiling.begin()

        def on_end(self, event: Any) -> None:
            compiling.end()

    event.register("numba:compile", Listener())
