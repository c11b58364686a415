"""An RBF support vector machine on features, exactly scikit-learn's, with the matrix of its kernel made by products of
matrices.
"""

from __future__ import annotations

from .inputs import FeaturePart, of_arrays, of_extraction, of_file
from .run import classify
from .settings import SvmSettings

__all__ = ["FeaturePart", "SvmSettings", "classify", "of_arrays", "of_extraction", "of_file"]
