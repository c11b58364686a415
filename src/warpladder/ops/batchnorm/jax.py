"""Batch normalisation in JAX, with channels last; sums in float32."""

import jax
import jax.numpy as jnp

from ...nets import BatchNorm1d, BatchNorm2d

Tree = dict[str, jax.Array]


def normalised(
    layer: BatchNorm1d | BatchNorm2d, x: jax.Array, own: Tree, held: Tree, is_training: bool
) -> tuple[jax.Array, Tree]:
    """Output in x's format, by the batch's statistics in training, and the running statistics after it.

    own : weight and bias, (channels,) each, or nothing. held : running_mean and running_var.
    """
    wide = x.astype(jnp.float32)
    mean, var, after = held["running_mean"], held["running_var"], held
    if is_training:
        axes, count, share = tuple(range(x.ndim - 1)), x.size // x.shape[-1], layer.momentum
        mean = wide.mean(axes)
        var = jnp.square(wide - mean).mean(axes)
        of_batch = {"running_mean": mean, "running_var": var * (count / (count - 1))}
        after = {name: (1 - share) * old + share * of_batch[name] for name, old in held.items()}
    y = (wide - mean) / jnp.sqrt(var + layer.eps)
    y = y * own["weight"] + own["bias"] if own else y
    return y.astype(x.dtype), after
