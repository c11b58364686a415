"""The five reports, reproduced: what each ran is run here, and set beside what it says."""

from __future__ import annotations

from .definition import NAMES, Definition, definition
from .experiments import Watcher
from .reproducer import MEASURED, RESULTS, Reproducer

__all__ = ["MEASURED", "NAMES", "RESULTS", "Definition", "Reproducer", "Watcher", "definition"]
