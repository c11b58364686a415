"""Training: from a net, a data set and a rung to trained weights, scores and a history.

May import ladder, trainers, checkpoint and what these import. Begin with resolve.py, then loop.py.
"""

from ..checkpoint import EpochLog, Score
from .loop import train
from .model import Model
from .restore import restore
from .run import Run, load
from .scoring import score

__all__ = ["EpochLog", "Model", "Run", "Score", "load", "restore", "score", "train"]
