"""Plans that a tuner found, kept in the user's cache folder: the next run of the same shapes on the same device is the
same, bit for bit.

A file holds one product's plan as JSON and is named by a hash of all that bears on it (`tuner.Product.key`). What
cannot be read is left out with a line, never believed.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from ...checkpoint.plan import NetPlan, plan_from_json, plan_to_json
from ...errors import PlanError, ResultsError
from ...files.atomic import write_atomically
from ...results.reader import read_json

#: What this process has found: its trainers agree even where no file can be written.
found: dict[str, NetPlan] = {}


def folder() -> Path:
    """Where the files are. It may be deleted at any time: runs that begin afterwards time anew."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("warpladder")) / "plans"


def path(key: str) -> Path:
    """The file of this name."""
    return folder() / f"{key}.json"


def read(key: str) -> NetPlan | None:
    """The plan of this name, or None."""
    if key in found:
        return found[key]
    try:
        found[key] = plan_from_json(read_json(path(key).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ResultsError, PlanError) as error:
        warnings.warn(f"plan {path(key)} cannot be read and is timed again: {error}", stacklevel=2)
        return None
    return found[key]


def write(key: str, plan: NetPlan) -> None:
    """Keep a plan."""
    found[key] = plan
    try:
        folder().mkdir(parents=True, exist_ok=True)
        write_atomically(path(key), json.dumps(plan_to_json(plan), indent=1).encode())
    except OSError as error:
        warnings.warn(
            f"a plan cannot be kept in {folder()} ({error.strerror}): the next start times it again", stacklevel=2
        )
