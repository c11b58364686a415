"""Counts of a user's kernel as a phrase: sectors a request, bytes wasted, bank conflicts, active lanes."""

from __future__ import annotations

from ...device import Launch
from ...device.emulator.counts import SECTOR, launch_counts
from ...device.emulator.kernel import EmulatedLaunch


def counted(launch: Launch) -> str:
    """Counts of a launch that a device in the mode "count" has just run."""
    assert isinstance(launch, EmulatedLaunch)
    found = launch_counts(launch)
    words = []
    for act in ("global load", "global store"):
        if (count := found.total(act)).warps:
            wasted = 100 * count.wasted / (SECTOR * count.sectors)
            words.append(f"{count.sectors / count.warps:.3g} sectors a {act}, {wasted:.0f} % of them wasted")
    conflicts = sum(found.total(act).conflicts for act in ("shared load", "shared store"))
    if any(found.total(act).warps for act in ("shared load", "shared store")):
        words.append(f"{conflicts:,} bank conflicts")
    words.append(f"{found.total('block').active:.3g} of 32 lanes active")
    return f"{launch.name} takes {', '.join(words)}"
