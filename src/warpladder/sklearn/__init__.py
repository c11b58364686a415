"""Estimators for scikit-learn that train on warpladder's rungs.

It imports train and what train imports; the core never imports it. Begin with perceptron.py; epochs.py has the loop.
"""

from .classifier import MLPClassifier
from .images import CNNClassifier
from .regressor import MLPRegressor

__all__ = ["CNNClassifier", "MLPClassifier", "MLPRegressor"]
