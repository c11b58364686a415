"""Outputs of a layer in the middle of a trained net: predictions, on any rung, of the net that ends with this layer."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ..checkpoint import Checkpoint
from ..data.dataset import pixels
from ..errors import ConfigError, DataError, NetError
from ..errors.arguments import shown
from ..nets import CrossEntropyLoss, Flatten, Net, Shape
from ..nets.params import tensor_shapes
from ..rungs.base import Rung
from .restore import restore
from .scoring import SLICE_NUMBERS

#: Function from samples (samples, *in_shape), uint8 or float32, and their scale to (samples, width) float32.
Outputs = Callable[[np.ndarray, float], np.ndarray]


def layer_shape(net: Net, layer: int) -> Shape:
    """Shape of a layer's output for one sample, layers counted from 0. Raises `ConfigError` if there is no such
    layer.
    """
    last = len(net.layers) - 1
    if isinstance(layer, bool) or not isinstance(layer, (int, np.integer)) or not 0 <= layer <= last:
        raise ConfigError(f"net {net.name!r} has layers 0 to {last}, not {shown(layer)}: warpladder nets lists them")
    return net.shapes[int(layer) + 1]


def cut(checkpoint: Checkpoint, layer: int) -> Checkpoint:
    """Checkpoint of the net up to a layer, with its weights, for predictions of the layer's outputs.

    Its loss is CrossEntropyLoss, which every rung has and which predictions never use.
    Raises ConfigError: there is no such layer. Raises NetError: no layer up to it has weights.
    """
    net, shape = checkpoint.net, layer_shape(checkpoint.net, layer)
    if layer < net.first_trained:
        raise NetError(
            f"net {net.name!r}: layer {layer} stands before the first one with weights: name layer "
            f"{net.first_trained} or a later one"
        )
    layers = (*net.layers[: layer + 1], *([Flatten()] if len(shape) > 1 else []))
    part = Net(f"{net.name} up to layer {layer}", net.in_shape, layers, CrossEntropyLoss())
    params = {name: checkpoint.params[name] for name in tensor_shapes(part)}
    return replace(
        checkpoint, net=part, params=params, slots={}, epoch=0, step=0, updates=0, history=(), finished=True, test=None,
        tuned=None, best=None, last=None,
    )  # fmt: skip


@contextmanager
def layer_outputs(checkpoint: Checkpoint, layer: int, rung: str | Rung | None = None) -> Iterator[Outputs]:
    """Function that computes a layer's outputs, for samples from `Model.seen`.

    layer : index from 0. rung : rung that computes; by default the rung that trained the net.
    Raises ConfigError, NetError, RungError: no such layer; no layer up to it has weights; the rung cannot compute it.
    """
    net, shape = checkpoint.net, layer_shape(checkpoint.net, layer)
    if all(isinstance(each, Flatten) for each in net.layers[: layer + 1]):
        yield lambda x, scale: pixels(x, scale).reshape(len(x), -1)
        return
    with restore(cut(checkpoint, layer), rung) as trainer:

        def outputs(x: np.ndarray, scale: float) -> np.ndarray:
            with np.errstate(over="ignore", invalid="ignore"):
                out = trainer.predict(x, scale).reshape(len(x), math.prod(shape))
            if not (finite := np.isfinite(out).all(axis=1)).all():
                odd = out[int(np.argmin(finite))]
                raise DataError(
                    f"net {net.name!r}: layer {layer} gives {odd[~np.isfinite(odd)][0]}: its weights are too "
                    "large for float32, train it anew with a lower rate"
                )
            return out

        yield outputs


def rows_up_to(net: Net, layer: int) -> int:
    """Number of samples in one call: few enough for a small widest activation up to a layer."""
    return SLICE_NUMBERS // max(math.prod(shape) for shape in net.shapes[: layer + 2]) | 1


def weights_mark(checkpoint: Checkpoint, layer: int) -> str:
    """Checksum of a net up to a layer: its weights and the data's means and deviations. Equal ones give matching
    features.
    """
    net, data = checkpoint.net, checkpoint.data
    found = zlib.crc32(
        repr((net.in_shape, [str(each) for each in net.layers[: layer + 1]], data.scale, data.mean, data.std)).encode()
    )
    for name, array in checkpoint.params.items():
        if name.rpartition(".")[0] in net.names[: layer + 1]:
            found = zlib.crc32(np.ascontiguousarray(array, np.float32).data, found)
    return f"{found:08x}"
