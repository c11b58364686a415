"""The naive kernels, but loss, gradient and accuracy of cross-entropy in one (S5)."""

from __future__ import annotations

from dataclasses import replace

from ..nets import CrossEntropyLoss, MSELoss
from . import naive
from .cross_entropy.cuda import FusedCrossEntropy
from .mse.cuda import NaiveMSE

TABLE = replace(naive.TABLE, losses={CrossEntropyLoss: FusedCrossEntropy, MSELoss: NaiveMSE})
