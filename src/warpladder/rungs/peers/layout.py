"""Layouts of peers: images with their channels last, weights for a flattened image, pooling before ReLU."""

from __future__ import annotations

import numpy as np

from ...nets import RESIDUAL_PARTS, BatchNorm1d, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, Shape


def spatial(net: Net) -> bool:
    """True if the net reads its input as an image; else all layers read a flat vector."""
    shaped = zip(net.layers, net.shapes, strict=False)
    return any(len(shape) == 3 and not isinstance(layer, Flatten | ReLU) for layer, shape in shaped)


def stored(x: np.ndarray, image: bool) -> np.ndarray:
    """Samples (n, height, width, channels) of images as a copy, else x reshaped to (n, features)."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if image else x.reshape(len(x), -1)


def flattened(net: Net) -> dict[str, Shape]:
    """Shape (channels, height, width) of the image that a layer reads flattened, by the name of its weight, or of the
    weight, bias and running statistics of a `BatchNorm1d`.
    """
    out: dict[str, Shape] = {}
    image: Shape | None = None
    for name, layer, shape in zip(net.names, net.layers, net.shapes, strict=False):
        if isinstance(layer, Flatten) and len(shape) == 3:
            image = shape
        elif isinstance(layer, RESIDUAL_PARTS):
            image = None  # both paths have their channels first
        elif image is not None and isinstance(layer, BatchNorm1d):
            out |= {f"{name}.{kind}": image for kind in (*layer.param_shapes(shape), *layer.buffer_shapes(shape))}
        elif isinstance(layer, Linear):
            if image is not None:
                out[f"{name}.weight"] = image
            image = None
    return out if spatial(net) else {}


def channels_last(weight: np.ndarray, image: Shape) -> np.ndarray:
    """Array (..., features) with its columns in the order height, width, channels; a copy."""
    return np.ascontiguousarray(weight.reshape(-1, *image).transpose(0, 2, 3, 1)).reshape(weight.shape)


def channels_first(weight: np.ndarray, image: Shape) -> np.ndarray:
    """Array (..., features) with its columns in the order channels, height, width: inverse of `channels_last`."""
    c, h, w = image
    return np.ascontiguousarray(weight.reshape(-1, h, w, c).transpose(0, 3, 1, 2)).reshape(weight.shape)


def pooled_first(net: Net) -> list[tuple[Layer, Shape]]:
    """Layers with input shapes, each ReLU before a max-pool moved after it: equal function and gradient, less work."""
    out: list[tuple[Layer, Shape]] = list(zip(net.layers, net.shapes[:-1], strict=True))
    for i in range(len(out) - 1):
        (layer, shape), (following, _) = out[i], out[i + 1]
        if isinstance(layer, ReLU) and isinstance(following, MaxPool2d):
            out[i], out[i + 1] = (following, shape), (layer, following.out_shape(shape))
    return out
