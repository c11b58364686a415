"""Estimators for scikit-learn that train on warpladder's rungs.

It imports train and what is below it; the core never imports it. Begin with classifier.py; epochs.py has the loop.
"""

from __future__ import annotations

from .classifier import MLPClassifier

__all__ = ["MLPClassifier"]
