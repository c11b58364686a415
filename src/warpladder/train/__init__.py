"""Training: a net, data and a rung in; weights, scores and a history out."""

from __future__ import annotations

from ..checkpoint import EpochLog, Score
from .beginning import restore
from .loop import train
from .model import Model
from .run import Run, load
from .scoring import score

__all__ = ["EpochLog", "Model", "Run", "Score", "load", "restore", "score", "train"]
