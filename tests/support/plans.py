"""An empty plan cache for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.trainers.tuning import plan_cache


def own_plans(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the tuner store its plans in `folder`, and forget those of this process."""
    monkeypatch.setattr(plan_cache.PLANS, "place", lambda: folder)
    monkeypatch.setattr(plan_cache, "found", {})
