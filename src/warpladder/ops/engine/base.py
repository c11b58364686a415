"""`Op`: one implementation of one layer, bound once to shapes and buffers.

After binding it allocates nothing, so that it can be captured in a graph. The arrays may be
NumPy's or CuPy's; the first axis of activations is the batch's capacity, and every call says
how many of its rows are in use. A loss, the update and the gathering of a batch are bound the
same way, and an `OpTable` names one implementation of each.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...nets import CrossEntropyLoss, Layer, MSELoss, Shape
from .layer_files import form

Array = Any  # numpy.ndarray or cupy.ndarray


def module_of(array: Array) -> Any:
    """The module, numpy or cupy, that an array belongs to."""
    return np if isinstance(array, np.ndarray) else sys.modules[type(array).__module__.partition(".")[0]]


def host(array: Array) -> np.ndarray:
    """An array as NumPy's: itself, or a copy of CuPy's."""
    return array if isinstance(array, np.ndarray) else array.get()


def near(array: Array) -> int:
    """Bytes that work in pieces should take at a time: what a core's cache holds, or, on a GPU, enough to fill it with
    one launch.
    """
    return 1 << 20 if isinstance(array, np.ndarray) else 1 << 29


@dataclass(frozen=True)
class Buffers:
    """Arrays that one op reads and writes.

    x, y : (capacity, *in_shape) and (capacity, *out_shape), input and output.
    dx, dy : gradients of the loss by x and y; dx is None where no layer needs it. Where the op trains nothing either,
    both are None.
    w, b, dw, db : parameters and their gradients, views into flat buffers; None without parameters. Where dw and db are
    float64 and all else is float32,
        the gradients of a batch's samples are to be added in float64.
    """

    x: Array
    y: Array
    dx: Array = None
    dy: Array = None
    w: Array = None
    b: Array = None
    dw: Array = None
    db: Array = None


class Bound:
    """Base of classes bound to buffers once: it counts their scratch memory in bytes."""

    workspace: int = 0

    def scratch(self, like: Array, shape: Shape, dtype: Any = None) -> Array:
        """Uninitialised array in the memory of `like`, by default of its dtype; its bytes are added to `workspace`."""
        out = module_of(like).empty(shape, like.dtype if dtype is None else dtype)
        self.workspace += out.nbytes
        return out


class Op(Bound, ABC):
    """One layer's arithmetic on bound buffers."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        self.layer: Any = layer  # of the kind that the op computes
        self.buffers = buffers

    @abstractmethod
    def forward(self, n: int) -> None:
        """Fill y[:n] from x[:n]."""

    @abstractmethod
    def backward(self, n: int) -> None:
        """Fill dw and db (overwriting) and, where it is bound, dx[:n] from dy[:n]; follows a forward of the same n."""


class LossOp(Bound, ABC):
    """A loss over a batch, its gradient, and the count of correct samples.

    x : (capacity, *out_shape), the net's output.
    target : (capacity,) int32 labels, or (capacity, *in_shape), the images to reproduce.
    dx : as x, the gradient of the mean loss by x.
    loss, correct : (1,) float64 and (1,) int64, which `forward` writes.
    """

    def __init__(self, x: Array, target: Array, dx: Array) -> None:
        xp = module_of(x)
        self.x, self.target, self.dx = x, target, dx
        self.loss = xp.zeros(1, np.float64)
        self.correct = xp.zeros(1, np.int64)

    @abstractmethod
    def forward(self, n: int, has_loss: bool = True) -> None:
        """Write the mean loss over the first n samples and how many of them are correct (0 where that means nothing);
        or neither, where not `has_loss`.
        """

    @abstractmethod
    def backward(self, n: int) -> None:
        """Fill dx[:n]; follows a forward of the same n."""


class UpdateOp(Bound, ABC):
    """One step of the config's optimizer on flat buffers (param_count,): reads grads, which it may overwrite, and
    changes params and slots.

    slots : in the order of `Optimizer.slots`.
    """

    def __init__(self, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...]) -> None:
        self.config = config
        self.params, self.grads, self.slots = params, grads, slots

    @abstractmethod
    def step(self, numbers: np.ndarray) -> None:
        """Change the parameters once; numbers: (NUMBERS,), what this step is made with, in the parameters' format."""


class GatherOp(Bound, ABC):
    """Rows of a data set (samples, *shape), uint8 or float32, multiplied by scale in float32, into x (capacity,
    *shape), which may be wider.
    """

    def __init__(self, source: Array, scale: float, x: Array) -> None:
        self.source, self.scale, self.x = source, np.float32(scale), x

    @abstractmethod
    def rows(self, indices: Array) -> None:
        """Fill x[:len(indices)] with the rows at these indices, (n,) int64."""


@dataclass(frozen=True)
class OpTable:
    """One implementation of everything that a layer-by-layer training step needs.

    layers : Flatten is missing: it is a reshaped view.
    file : next to the class of a layer that is missing too, what names the layer's implementation as `OP`.
    """

    layers: Mapping[type[Layer], type[Op]]
    losses: Mapping[type[CrossEntropyLoss] | type[MSELoss], type[LossOp]]
    update: type[UpdateOp]
    gather: type[GatherOp]
    file: str = "array.py"

    def op(self, layer: Layer) -> type[Op]:
        """The implementation of a layer; `RungError` where there is none."""
        kind = type(layer)
        found: type[Op] = self.layers[kind] if kind in self.layers else form(kind, self.file).OP
        return found
