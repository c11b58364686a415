"""RMSprop as array expressions on the flat buffers of NumPy or CuPy."""

from __future__ import annotations

from typing import Any


def step(xp: Any, w: Any, g: Any, slots: tuple[Any, ...], term: Any, numbers: Any) -> None:
    """Change w and slots, (params,), in place, and overwrite g and term; xp : NumPy or CuPy; numbers : of w's dtype."""
    rate, alpha, rest, eps, decay, momentum = numbers[:6]
    square = slots[0]
    if decay:
        g += xp.multiply(w, decay, out=term)
    square *= alpha
    xp.multiply(g, g, out=term)
    term *= rest
    square += term
    xp.sqrt(square, out=term)
    term += eps
    xp.divide(g, term, out=term)
    if len(slots) > 1:
        slots[1][...] *= momentum
        slots[1][...] += term
        xp.multiply(slots[1], rate, out=term)
    else:
        term *= rate
    w -= term
