"""Climbs and profiles without what takes most of a small one's time and is tested elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from shared_cases import made_before


@cache
def _measured(measure: Callable[..., dict[str, Any]], threads: int | None) -> dict[str, Any]:
    return measure(threads)


#: Peak memory by rung, net, settings and data's sizes.
_peaks: dict[tuple[Any, ...], tuple[int | None, str]] = {}


def weighed_once(weigh: Callable[..., tuple[int | None, str]]) -> Callable[..., tuple[int | None, str]]:
    """`peak_rss` that starts one process for each rung of the package, net, settings and sizes of data."""
    from warpladder.timing.foreign.rung import of, spelled

    def peak(rung: Any, net: Any, data: Any, config: Any, *children: Any) -> tuple[int | None, str]:
        if of(rung) is not None or spelled(rung) is None:
            return weigh(rung, net, data, config, *children)
        sizes = *((x.shape, x.dtype) for x in (data.train_x, data.test_x)), data.scale, data.outputs
        key = spelled(rung), net, config, sizes
        if key not in _peaks:
            found = weigh(rung, net, data, config, *children)
            if found[0] is None:
                return found
            _peaks[key] = found
        return _peaks[key]

    return peak


def measured_once(patch: pytest.MonkeyPatch) -> None:
    """Let climbs and profiles share one measurement of the machine, until the patch is undone."""
    from warpladder.machine import facts as machine

    facts = machine.facts
    patch.setattr(machine, "facts", lambda threads=None: dict(_measured(facts, threads)))


def hurried(patch: pytest.MonkeyPatch) -> None:
    """Let climbs and profiles of this process hurry, until the patch is undone.

    The machine is measured once (test_machine.py), proofs of the same net on the same data share their cases, so do
    climbs the peak memory of the same training (test_climb.py), no rung waits until the machine is quiet, what is
    repeated until it takes a time takes a tenth of it, and pages hold no pictures (test_page.py, test_report.py).
    """
    import warpladder.proof
    from warpladder.results.report import html
    from warpladder.timing import measure, peak_memory, profile, schedule, task

    measured_once(patch)
    patch.setattr(warpladder.proof, "Cases", made_before)
    patch.setattr(peak_memory, "peak_rss", weighed_once(peak_memory.peak_rss))
    patch.setattr(schedule, "SETTLE", 0.0)
    for module, name in ((task, "PROBE"), (measure, "PROBE"), (profile, "PATIENCE")):
        patch.setattr(module, name, getattr(module, name) / 10)
    patch.setattr(html, "picture", lambda name, alt, draw: f'<svg aria-label="{name}"></svg>')
