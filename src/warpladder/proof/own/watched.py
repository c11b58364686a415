"""Launch on the emulator that is aborted if it does not end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...device import Launch
from ...device.emulator.deadline import deadline

if TYPE_CHECKING:
    from ...device.emulator import EmulatedDevice

#: Seconds that one launch may take.
LIMIT = 15.0


def send_watched(device: EmulatedDevice, launch: Launch, end: Callable[[str], None]) -> None:
    """Run a launch; if it does not end within LIMIT, call `end` from another thread with the position of a thread."""

    def stuck() -> None:
        found = device.stuck(launch)
        end(f"no end within {LIMIT:.0f} s: {found[0].message if found else 'it does not end'}")

    with deadline(LIMIT, stuck):
        launch.send()
