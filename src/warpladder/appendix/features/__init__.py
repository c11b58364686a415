"""Features: outputs of a layer of a trained net for a data set, batch by batch, written to a file or given to a
classifier.

It imports checkpoints, data sets and train/hidden.py. Begin with extraction.py.
"""

from .extraction import Extraction, extract
from .read import FeatureFile, open_features
from .write import check_ending, write_features

__all__ = ["Extraction", "FeatureFile", "check_ending", "extract", "open_features", "write_features"]
