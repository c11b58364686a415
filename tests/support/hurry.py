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


def hurried(patch: pytest.MonkeyPatch) -> None:
    """Let climbs and profiles of this process hurry, until the patch is undone.

    The machine is measured once (test_machine.py), proofs of the same net on the same data share their cases, no rung
    waits until the machine is quiet, what is repeated until it takes a time takes a tenth of it, and pages hold no
    pictures (test_page.py, test_report.py).
    """
    import warpladder.proof
    from warpladder.machine import facts as machine
    from warpladder.report import html
    from warpladder.timing import measure, profile, schedule, task

    facts = machine.facts
    patch.setattr(machine, "facts", lambda threads=None: dict(_measured(facts, threads)))
    patch.setattr(warpladder.proof, "Cases", made_before)
    patch.setattr(schedule, "SETTLE", 0.0)
    for module, name in ((task, "PROBE"), (measure, "PROBE"), (profile, "PATIENCE")):
        patch.setattr(module, name, getattr(module, name) / 10)
    patch.setattr(html, "picture", lambda name, alt, draw: f'<svg aria-label="{name}"></svg>')
