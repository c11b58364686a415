"""Losses for JAX, by sample."""

import jax

from ...nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss
from . import scalar


def values(loss: Loss, x: jax.Array, y: jax.Array) -> jax.Array:
    """Loss (n,) of each sample, for outputs x (n, *out_shape) and labels (n,) or targets of the shape of x."""
    numpy = jax.numpy
    if isinstance(loss, CrossEntropyLoss):
        w = numpy.asarray(scalar.settings(loss, x.shape[1]), x.dtype)
        wanted = jax.nn.one_hot(y, x.shape[1], dtype=x.dtype) * (1 - loss.label_smoothing)
        return -((wanted + loss.label_smoothing / x.shape[1]) * w * jax.nn.log_softmax(x)).sum(axis=1)
    setting = numpy.asarray(scalar.settings(loss, x[0].size).reshape(x.shape[1:]), x.dtype)
    if isinstance(loss, BCEWithLogitsLoss):
        found = setting * y * jax.nn.softplus(-x) + (1 - y) * jax.nn.softplus(x)
    elif isinstance(loss, L1Loss):
        found = (x - y) * numpy.sign(x - y)  # the gradient of abs at 0 is 1 here
    elif isinstance(loss, HuberLoss):
        d = numpy.abs(x - y)
        found = numpy.where(d <= setting, d * d / 2, setting * (d - setting / 2))
    else:
        found = (x - y) ** 2
    return found.reshape(len(x), -1).mean(axis=1)
