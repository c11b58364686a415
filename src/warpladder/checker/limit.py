"""`TimeLimit`: a launch that does not end is asked where it is, and the process that it runs in ends with the answer."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..device.emulator.device import EmulatedDevice
    from ..device.emulator.kernel import EmulatedLaunch

Write = Callable[..., None]


class TimeLimit:
    """How long each launch may take.

    Parameters
    ----------
    seconds : float
        0 for as long as it takes.
    write : callable
        Takes what was found, as `run` writes it down.
    """

    def __init__(self, seconds: float, write: Write) -> None:
        self.seconds, self.write = seconds, write
        self.running: tuple[EmulatedDevice, EmulatedLaunch] | None = None

    @contextmanager
    def on(self, device: EmulatedDevice, launch: EmulatedLaunch) -> Iterator[None]:
        """While the launch runs, in the thread that calls it."""
        timer = threading.Timer(self.seconds, self._over, (device, launch)) if self.seconds else None
        if timer:
            timer.daemon = True
            timer.start()
        self.running = device, launch
        try:
            yield
        finally:
            self.running = None
            if timer:
                timer.cancel()

    def _over(self, device: EmulatedDevice, launch: EmulatedLaunch) -> None:
        found = device.stuck(launch)
        for report in found:
            message, places = report.message, [place for place in report.locations if place[1]]
            if report.kind == "time limit":
                message = f"the launch did not end within {self.seconds:g} s: {message}; --timeout gives it more time"
            self.write(kind=report.kind, message=message, places=places, array=report.array)
        if not any(report.kind == "time limit" for report in found):
            message = f"the launch did not end within {self.seconds:g} s, and no thread of it says where it is; --timeout gives it more time"
            self.write(kind="time limit", message=message, places=[], array="")
        self.write(end=True)
        quiet()
        os._exit(0)

    def stopped(self) -> None:
        """Somebody has had enough: write down what the launch that runs has shown so far."""
        for report in self.running[0].stuck(self.running[1]) if self.running else ():
            if report.kind == "time limit":
                self.write(remark=f"When it was stopped {report.message}")
            else:
                self.write(kind=report.kind, message=report.message, places=report.locations, array=report.array)


def quiet() -> None:
    """What kernels print is wanted once, not once for each order."""
    ctypes.CDLL(None).fflush(None)
    sys.stdout.flush()
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
