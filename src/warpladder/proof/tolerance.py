"""Bound of the distance between two honest computations of the same sums: one function, no other bound.

Rounding errors of one sign would grow with the number n of roundings that lead to a result
(the worst case n u; Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, ch. 3).
They have both signs, and the error of a chain of n roundings is then at most lambda sqrt(n) u with a
probability of at least 1 - 2 exp(-lambda^2 / 2) (Higham and Mary, SIAM J. Sci.
Comput. 41(5), 2019). The error of pairwise and blocked sums grows with log2 n or less, so that the square root
holds for a single accumulator and for every better order.
"""

from __future__ import annotations

import math

import numpy as np

from ..machine.precision import Precision, named

#: lambda: an honest chain exceeds it with a probability below 2 exp(-8), 7e-4; a norm averages many such chains and
#: stays far below.
SIGMAS = 4.0

#: Most that a tensor core's addition of 16 products to a sum cuts off, of the largest number in it (the model and its
#: sources: docs/tensor.md). Ampere's are the coarsest: 8 products at a time and the sum lose what stands below 24
#: binary places of the largest of them, and the result what stands below 23.
CUT = 2 * (9 * 2.0**-24 + 2.0**-23)


def bound(dtype: object, length: int, steps: int = 1, products: int = 1, cuts: int = 0) -> float:
    """Largest normwise relative error ||x - truth|| / ||truth|| that rounding explains.

    Parameters
    ----------
    dtype : str, Precision, dtype or type
        Precision of products: "fp64", "fp32", or "tf32", "bf16" and "fp16", with factors rounded to these and sums in
        fp32; or float64 and float32 as types of NumPy.
    length : int
        Roundings in the longest chain that leads to one number: the length of a sum, or the total length of
        consecutive sums, since independent errors add by their squares.
    steps : int
        Training steps since both had the same state. Each adds an error of one step's magnitude.
    products : int
        Consecutive products, with factors rounded to a coarser format, that lead to one number.
    cuts : int
        Consecutive additions of 16 products each by a tensor core that lead to one number. They truncate
        instead of rounding, so that their errors have one sign and add.

    Returns
    -------
    float
        steps * (SIGMAS * roundoff * sqrt(length) + 2 * input roundoff * sqrt(products) + cuts * CUT). Both factors of a
        product are rounded once, for any length: the errors of many products average out against their sum.

    Raises
    ------
    ValueError
        The format is no precision, a length, steps or products are below 1, or cuts are below 0.

    Notes
    -----
    A sum whose terms cancel is worse conditioned than its length suggests. No bound is widened for it:
    compare at states where the sum does not vanish.

    Examples
    --------
    >>> f"{bound('float32', 784):.1e}"
    '6.7e-06'
    """
    kind = named(dtype if isinstance(dtype, str | Precision) else np.dtype(dtype).name)  # type: ignore[call-overload]
    if not (length >= 1 and steps >= 1 and products >= 1):
        given = f"{length}, {steps} and {products}"
        raise ValueError(f"a bound wants a length, steps and products of at least 1, got {given}")
    if not cuts >= 0:
        raise ValueError(f"a bound wants a number of cuts of at least 0, got {cuts}")
    return steps * (SIGMAS * kind.roundoff * math.sqrt(length) + 2 * kind.factors * math.sqrt(products) + cuts * CUT)


def rounded(a: np.ndarray, to: str | Precision) -> np.ndarray:
    """Numbers, of any shape, rounded to nearest with the significand of a precision's factors; the exponent's range is
    ignored.
    """
    unit = named(to).factors
    if not unit:
        return a
    fraction, exponent = np.frexp(a)
    digits = 1 / unit
    return np.ldexp(np.round(fraction * digits) / digits, exponent)
