"""Distinction between the package's own rungs, whose code is known, and rungs from user files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .. import ladder
from ..rungs.base import Rung


def is_own(rung: Rung) -> bool:
    """True if a rung and the function that builds its trainer are the package's own."""
    build: Callable[..., Any] = rung.build
    while isinstance(build, partial):
        build = build.func
    return not ladder.outside(rung) and getattr(build, "__module__", "").startswith(f"{__package__.partition('.')[0]}.")
