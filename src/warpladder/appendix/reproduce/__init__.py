"""The five reports, reproduced: what each ran is run here, and set beside what it says."""

from __future__ import annotations

from .course import MEASURED, RESULTS, Course
from .definition import NAMES, Definition, definition
from .experiments import Watcher

__all__ = ["MEASURED", "NAMES", "RESULTS", "Course", "Definition", "Watcher", "definition"]
