"""Disk cache of the tuner's plans: equal shapes on an equal device use equal kernels, and give equal bits.

An entry holds one product's plan as JSON. Its key is a hash of everything on which the plan depends (`candidates.key`).
An entry that cannot be read is reported and timed again.
"""

from __future__ import annotations

import json

from ...checkpoint.plan import NetPlan, plan_from_json, plan_to_json
from ...errors import PlanError, ResultsError
from ...errors.warning import warn
from ...files.cache import Cache
from ...results.reader import read_json

PLANS = Cache("plans", "plans", "the next start times them again", mark=b"warpladder plan 1\n", suffix=".plan")

#: Plans of this process: its trainers agree even if no file can be written.
found: dict[str, NetPlan] = {}


def read(key: str) -> NetPlan | None:
    """Plan stored under this key; None if there is none."""
    if key not in found:
        content = PLANS.read(key)
        try:
            if content is not None:
                found[key] = plan_from_json(read_json(content))
            elif PLANS.path(key).exists():
                raise PlanError("it is damaged")
        except (ResultsError, PlanError) as error:
            warn(f"plan {PLANS.path(key)} cannot be read and is timed again: {error}")
    return found.get(key)


def write(key: str, plan: NetPlan) -> None:
    """Store a plan under this key."""
    found[key] = plan
    PLANS.write(key, json.dumps(plan_to_json(plan), indent=1).encode())
