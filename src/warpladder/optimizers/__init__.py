"""The optimizers: what a step makes of a parameter and its gradient.

Each has a folder. Its `__init__.py` says what it is called and which settings it has, `reference.py` is the truth in
float64, and beside that stand the same step as array expressions (`array.py`), as a compiled loop (`loops.py`), as a
CUDA kernel (`step.cu`) and for JAX (`jax.py`). They import nothing of warpladder but one another; `ops/update/` runs
them.
"""

from __future__ import annotations

from .adam import Adam
from .adamw import AdamW
from .base import NUMBERS, Optimizer
from .sgd import SGD

__all__ = ["NUMBERS", "SGD", "Adam", "AdamW", "Optimizer"]
