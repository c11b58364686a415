"""Support vector machine with an RBF kernel on features, equal to scikit-learn's, with its kernel matrix by matrix
products.

It imports features/, results/ and the data sets. Begin with run.py.
"""

from .inputs import FeaturePart, of_arrays, of_extraction, of_file
from .run import classify
from .settings import SvmSettings

__all__ = ["FeaturePart", "SvmSettings", "classify", "of_arrays", "of_extraction", "of_file"]
