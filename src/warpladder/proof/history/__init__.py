"""History of more than a hundred steps, which the reference trains with its twins.

It may import proof/ but for cases.py, extremes/ and the checks. Begin with reference_history.py;
trajectory.py makes the steps, and crossings.py finds the kinks that rounding may cross on the way.
"""

from .reference_history import ReferenceHistory as ReferenceHistory
from .reference_history import make_history as make_history
