"""Adam as array expressions on the flat buffers of NumPy or CuPy."""

from __future__ import annotations

from typing import Any


def step(xp: Any, w: Any, g: Any, slots: tuple[Any, ...], term: Any, numbers: Any) -> None:
    """Change w and slots, (params,), in place, and overwrite g and term; xp : NumPy or CuPy; numbers : of w's dtype."""
    rate, beta1, rest1, beta2, rest2, root, eps, decay = numbers
    m, v = slots
    if decay:
        g += xp.multiply(w, decay, out=term)
    m *= beta1
    m += xp.multiply(g, rest1, out=term)
    v *= beta2
    g *= g
    v += xp.multiply(g, rest2, out=term)
    xp.sqrt(v, out=term)
    term *= root
    term += eps
    xp.divide(m, term, out=term)
    term *= rate
    w -= term
