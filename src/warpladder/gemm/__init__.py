"""One matrix product, seven kernels: each level adds one idea to the one before.

    C (m, n) = A (m, k) B (k, n), float32, row by row in memory

`levels.py` says what the levels are and what each should reach, `<level>.cu` is the kernel, `climb.py` proves and times them.
"""

from .levels import LEVELS as LEVELS
from .levels import Level as Level
