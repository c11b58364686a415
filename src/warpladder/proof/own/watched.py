"""A launch on the emulator that is ended if it does not end by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...device import Launch

if TYPE_CHECKING:
    from ...device.emulator import EmulatedDevice

#: Seconds that one launch may take.
LIMIT = 15.0


def send_watched(device: EmulatedDevice, launch: Launch, end: Callable[[str], None]) -> None:
    """Send a launch; call `end` from another thread with the place of a thread, if it does not end in LIMIT."""

    def stuck() -> None:
        found = device.stuck(launch)
        end(f"no end within {LIMIT:.0f} s: {found[0].message if found else 'it does not end'}")

    watch = threading.Timer(LIMIT, stuck)
    watch.daemon = True
    watch.start()
    try:
        launch.send()
    finally:
        watch.cancel()
