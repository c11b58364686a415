"""References of the layers, called with settings in place of a layer."""

from __future__ import annotations

import numpy as np

from warpladder import nets
from warpladder.ops.conv2d import reference as _conv2d
from warpladder.ops.linear import reference as _linear
from warpladder.ops.maxpool2d import reference as _maxpool2d
from warpladder.ops.relu import reference as _relu
from warpladder.ops.upsample2d import reference as _upsample2d

Gradients = tuple[np.ndarray, ...]


def _convolution(w: np.ndarray, stride: int, padding: int) -> nets.Conv2d:
    return nets.Conv2d(out_channels=len(w), kernel_size=w.shape[2], stride=stride, padding=padding)


class conv2d:
    """Convolutions with weights w (o, c, k, k)."""

    @staticmethod
    def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int, padding: int) -> np.ndarray:
        return _conv2d.forward(_convolution(w, stride, padding), x, w, b)

    @staticmethod
    def backward(x: np.ndarray, w: np.ndarray, dy: np.ndarray, stride: int, padding: int) -> Gradients:
        return _conv2d.backward(_convolution(w, stride, padding), x, w, dy)


class linear:
    """Linear layers with weights w (out, in)."""

    @staticmethod
    def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _linear.forward(nets.Linear(out_features=len(w)), x, w, b)

    @staticmethod
    def backward(x: np.ndarray, w: np.ndarray, dy: np.ndarray) -> Gradients:
        return _linear.backward(nets.Linear(out_features=len(w)), x, w, dy)


class relu:
    @staticmethod
    def forward(x: np.ndarray) -> np.ndarray:
        return _relu.forward(nets.ReLU(), x)

    @staticmethod
    def backward(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        return _relu.backward(nets.ReLU(), x, None, dy)[0]


class maxpool2d:
    @staticmethod
    def forward(x: np.ndarray, k: int, stride: int) -> np.ndarray:
        return _maxpool2d.forward(nets.MaxPool2d(kernel_size=k, stride=stride), x)

    @staticmethod
    def backward(x: np.ndarray, k: int, stride: int, dy: np.ndarray) -> np.ndarray:
        return _maxpool2d.backward(nets.MaxPool2d(kernel_size=k, stride=stride), x, None, dy)[0]

    @staticmethod
    def windows(x: np.ndarray, k: int, stride: int) -> np.ndarray:
        """(n, c, oh, ow, k * k)."""
        return np.stack(_maxpool2d.positions(nets.MaxPool2d(kernel_size=k, stride=stride), x), axis=-1)


class upsample2d:
    @staticmethod
    def forward(x: np.ndarray, factor: int) -> np.ndarray:
        return _upsample2d.forward(nets.Upsample2d(scale_factor=factor), x)

    @staticmethod
    def backward(factor: int, dy: np.ndarray) -> np.ndarray:
        return _upsample2d.backward(nets.Upsample2d(scale_factor=factor), dy, None, dy)[0]
