"""Training: a net, data and a rung in; weights, scores and a history out."""

from __future__ import annotations

from ..checkpoint import EpochLog, Score
from .beginning import restore
from .loop import train
from .run import Run
from .scoring import score

__all__ = ["EpochLog", "Run", "Score", "restore", "score", "train"]
