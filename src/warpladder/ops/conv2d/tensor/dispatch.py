"""Choice of the algorithm of a convolution on tensor cores.

TABLE
"""

from __future__ import annotations

from .algorithm import ConvAlgorithm, ConvProblem
from .few_pixels.few_pixels import FewPixels
from .first.first import First
from .general.general import FewInputs, General
from .narrow.narrow import Narrow
from .shifted.shifted import Shifted
from .warpgroups.warpgroups import Warpgroups

#: In order of preference: the first that supports a problem computes it.
ALGORITHMS: tuple[type[ConvAlgorithm], ...] = (First, FewInputs, Warpgroups, Shifted, Narrow, FewPixels, General)


def choose(problem: ConvProblem) -> type[ConvAlgorithm]:
    """The algorithm that computes a problem."""
    return next(algorithm for algorithm in ALGORITHMS if algorithm.supports(problem))
