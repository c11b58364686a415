"""Training: a net, data and a rung in; weights, scores and a history out.

May import ladder, trainers, checkpoint and what lies below. Begin with resolve.py, then loop.py.
"""

from __future__ import annotations

from ..checkpoint import EpochLog, Score
from .loop import train
from .model import Model
from .restore import restore
from .run import Run, load
from .scoring import score

__all__ = ["EpochLog", "Model", "Run", "Score", "load", "restore", "score", "train"]
