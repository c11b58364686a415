"""Deadline of a launch, watched by another thread: a launch of the emulator cannot be ended from outside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def deadline(seconds: float, over: Callable[[], None]) -> Iterator[None]:
    """Context in which `over` is called by another thread after `seconds`, if it has not ended; 0 for no deadline."""
    if not seconds:
        yield
        return
    timer = threading.Timer(seconds, over)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # else that thread may be the last to hold the launch, and free arrays while this one allocates others
        timer.join()
