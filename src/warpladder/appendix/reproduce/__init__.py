"""Reproduction of the five reports: their experiments are run here, and their figures compared with the measured ones.

It may import everything but the command line. Begin with definition.py, then reproducer.py; results.py is the data.
"""

from .definition import NAMES, Definition, definition
from .experiments import Watcher
from .reproducer import MEASURED, RESULTS, Reproducer

__all__ = ["MEASURED", "NAMES", "RESULTS", "Definition", "Reproducer", "Watcher", "definition"]
