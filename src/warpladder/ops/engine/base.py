"""`Op`: implementation of one layer, bound once to shapes and buffers; likewise losses, updates and gathers.

A bound op allocates nothing, so that a graph can capture it. Its arrays are of NumPy or CuPy. The first axis of an
activation is the capacity of a batch, and each call gives the number of rows in use.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...errors import RungError
from ...nets import CrossEntropyLoss, Layer, Loss, Shape
from .layer_files import form

Array = Any  # numpy.ndarray or cupy.ndarray


def module_of(array: Array) -> Any:
    """Python module of an array: numpy or cupy."""
    return np if isinstance(array, np.ndarray) else sys.modules[type(array).__module__.partition(".")[0]]


def host(array: Array) -> np.ndarray:
    """NumPy array of `array`: itself, or a copy of a CuPy array."""
    return array if isinstance(array, np.ndarray) else array.get()


def chunk_bytes(array: Array) -> int:
    """Bytes to process at a time: a core's cache, or on a GPU enough to occupy it with one launch."""
    return 1 << 20 if isinstance(array, np.ndarray) else 1 << 29


@dataclass(frozen=True)
class Buffers:
    """Arrays that one op reads and writes.

    x, y : (capacity, *in_shape) and (capacity, *out_shape), input and output.
    dx, dy : gradients of the loss by x and y. dx is None if no layer needs it; both are None without training.
    w, b, dw, db : parameters and their gradients, views into flat buffers; None without parameters. float64 dw and db
    next to float32 arrays mean that gradients of samples are added in float64.
    mean, var : (channels,) running statistics of a normalisation, which `forward` updates; else None.
    skip : stored input of a `Shortcut` or a `Sum`, shaped as its output. dskip : second gradient of a `Branch` or a
    `Shortcut`, shaped as its input. As `Net.skips` has them; else None.
    """

    x: Array
    y: Array
    dx: Array = None
    dy: Array = None
    w: Array = None
    b: Array = None
    dw: Array = None
    db: Array = None
    mean: Array = None
    var: Array = None
    skip: Array = None
    dskip: Array = None


class Bound:
    """Base of classes bound to buffers once; `workspace` counts the bytes of their scratch memory."""

    workspace: int = 0

    def scratch(self, like: Array, shape: Shape, dtype: Any = None) -> Array:
        """Uninitialised array in the memory of `like`, by default of its dtype, counted in `workspace`."""
        out = module_of(like).empty(shape, like.dtype if dtype is None else dtype)
        self.workspace += out.nbytes
        return out


class Op(Bound, ABC):
    """Arithmetic of one layer on bound buffers."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        self.layer: Any = layer  # of the class that the op computes
        self.buffers = buffers

    @abstractmethod
    def forward(self, n: int) -> None:
        """Fill y[:n] from x[:n]."""

    def predict(self, n: int) -> None:
        """Fill y[:n] from x[:n] for predictions, by default like `forward`."""
        self.forward(n)

    def begin(self, key: int, position: int) -> None:
        """Prepare for training on samples from `position` of the epoch's order on; `key` is the layer's `layer_key`."""

    @abstractmethod
    def backward(self, n: int) -> None:
        """Fill dw and db, and dx[:n] unless dx is None, from dy[:n]. Call it after `forward` of the same n."""


class LossOp(Bound, ABC):
    """Loss over a batch, its gradient, and the number of correct samples.

    x, dx : (capacity, *out_shape), output of the net, and gradient of the mean loss by it.
    target : (capacity,) int32 labels, (capacity, outputs) float32 targets, or (capacity, *in_shape) images to
    reproduce.
    loss, correct : (1,) float64 and (1,) int64, which `forward` writes.
    """

    def __init__(self, x: Array, target: Array, dx: Array) -> None:
        xp = module_of(x)
        self.x, self.target, self.dx = x, target, dx
        self.loss = xp.zeros(1, np.float64)
        self.correct = xp.zeros(1, np.int64)

    @abstractmethod
    def forward(self, n: int, has_loss: bool = True) -> None:
        """Write the mean loss and the number of correct samples (0 without labels) of the first n samples.

        has_loss : False to write neither.
        """

    @abstractmethod
    def backward(self, n: int) -> None:
        """Fill dx[:n]. Call it after `forward` of the same n."""


class GeneralLossOp(LossOp):
    """Loss with settings or with weights of samples.

    shares : (capacity,), weight of each sample in the mean. If a batch passes in slices of n samples, a share is
    multiplied by n over the samples of the whole batch. None for means.
    """

    def __init__(self, x: Array, target: Array, dx: Array, loss: Loss, shares: Array | None = None) -> None:
        super().__init__(x, target, dx)
        self.settings, self.shares = loss, shares


class UpdateOp(Bound, ABC):
    """Step of the config's optimizer on flat buffers: it reads and may overwrite grads, and changes params and slots.

    params, grads, slots : (param_count,) each; slots in the order of `Optimizer.slots`.
    """

    def __init__(self, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...]) -> None:
        self.config = config
        self.params, self.grads, self.slots = params, grads, slots

    @abstractmethod
    def step(self, numbers: np.ndarray) -> None:
        """Update the parameters once. numbers : (NUMBERS,), `Optimizer.numbers` of the step, in the dtype of params."""


class GatherOp(Bound, ABC):
    """Gathering of a batch: rows of a data set, scaled.

    source : (samples, *shape) uint8 or float32.
    scale : float32 factor of each number.
    x : (capacity, *shape), the batch, which may have a wider dtype.
    """

    def __init__(self, source: Array, scale: float, x: Array) -> None:
        self.source, self.scale, self.x = source, np.float32(scale), x

    @abstractmethod
    def rows(self, indices: Array) -> None:
        """Fill x[:len(indices)] with the rows at these indices, (n,) int64."""


@dataclass(frozen=True)
class OpTable:
    """Table of the implementations of a layer-by-layer training step.

    layers : by layer class; Flatten is absent, because it is a reshaped view.
    file : name of the file next to its class that implements, as `OP`, a layer absent from `layers`.
    labelled, elements : losses with settings or weights of samples, with labels and by element; None if absent.
    """

    layers: Mapping[type[Layer], type[Op]]
    losses: Mapping[type[Loss], type[LossOp]]
    update: type[UpdateOp]
    gather: type[GatherOp]
    file: str = "array.py"
    labelled: type[GeneralLossOp] | None = None
    elements: type[GeneralLossOp] | None = None

    def loss(self, loss: Loss, x: Array, target: Array, dx: Array, shares: Array | None) -> LossOp:
        """Loss op bound to the net's output x, labels or targets, the output's gradient dx, and shares of samples."""
        if loss.is_plain and shares is None:
            return self.losses[type(loss)](x, target, dx)
        general = self.labelled if isinstance(loss, CrossEntropyLoss) else self.elements
        if general is None:
            raise RungError(f"this table of operations has nothing for {loss} or for weights of samples")
        return general(x, target, dx, loss, shares)

    def op(self, layer: Layer) -> type[Op]:
        """Implementation of a layer. Raises `RungError` if there is none."""
        kind = type(layer)
        found: type[Op] = self.layers[kind] if kind in self.layers else form(kind, self.file).OP
        return found
