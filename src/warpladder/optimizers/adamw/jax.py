"""AdamW for JAX: a function of one tensor, compiled by XLA with the rest of the step."""

from __future__ import annotations

from typing import Any

from jax import numpy as jnp


def step(w: Any, g: Any, slots: dict[str, Any], optimizer: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
    """Parameters and slots after a step from w with gradient g, all of one shape. numbers: (NUMBERS,), of this step."""
    rate, beta1, rest1, beta2, rest2, root, eps, decay = numbers
    m = beta1 * slots["exp_avg"] + rest1 * g
    v = beta2 * slots["exp_avg_sq"] + rest2 * g * g
    return w - decay * w - rate * m / (jnp.sqrt(v) * root + eps), {"exp_avg": m, "exp_avg_sq": v}
