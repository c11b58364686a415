"""Arrays and shapes of a thin chain."""

import numpy as np

from ...device import Array
from ..engine.chain import Slice
from ..engine.kernels import KernelUpdate, Log, OnDevice
from ..update.fused import settings

#: Most outputs of a layer: all of a sample's stay in registers.
MOST = 16


class ChainArrays:
    """Arrays of one or two thin linear layers and cross-entropy; `owner` holds the scratch memory.

    source, scale : (samples, inputs) uint8 or float32, and the factor of its numbers.
    labels : (samples,) int32.
    order : the epoch's order; None for the order of storage, as for a batch of all samples, whose sum needs no order.
    whole, capacity : samples of a full batch, and largest number of samples in a slice.
    weights, gradients : w1, b1 and, with two layers, w2, b2.
    update : the optimizer's step that ends a batch in one slice, or None.
    dx : (samples, inputs) float32, gradient by the input, or None.
    is_gathered : True if source holds only the samples of a slice.
    is_fixed : True if every step has the same samples in the same order, as bytes.
    """

    def __init__(
        self, owner: OnDevice, source: Array, scale: float | np.float32, labels: Array, order: Array | None, log: Log,
        whole: int, capacity: int, weights: tuple[Array, ...], gradients: tuple[Array, ...],
        update: KernelUpdate | None = None, dx: Array | None = None, is_gathered: bool = False,
    ) -> None:  # fmt: skip
        self.device, self.source, self.scale = owner.device, source, np.float32(scale)
        self.labels, self.log, self.is_gathered = labels, log, is_gathered
        self.order = None if whole == len(source) else order
        self.is_fixed = order is not None and self.order is None and source.dtype == np.uint8
        self.whole, self.weights, self.gradients, self.update, self.dx = whole, weights, gradients, update, dx
        outputs = [bias.size for bias in weights[1::2]]
        self.hidden = outputs[0] if len(outputs) == 2 else 0
        self.out, self.width = outputs[-1], outputs[0]
        self.inputs = source.size // len(source)
        self.small = self.hidden + self.out + self.hidden * self.out if self.hidden else self.out
        self.pixel = "unsigned char" if source.dtype == np.uint8 else "float"
        self.g = owner.scratch((capacity, -(-self.width // 4) * 4))

    def start(self, part: Slice) -> int:
        """Position of a slice's first sample in the batch; 0 if `source` holds only the slice."""
        return 0 if self.is_gathered else part.offset

    def updated(self, part: Slice) -> tuple[object, ...]:
        """Arguments of the fused update: gradients, parameters, momentum buffer and settings of SGD."""
        return settings(self.update, part)

    def second(self, tensors: tuple[Array, ...]) -> tuple[Array | None, Array | None]:
        """Second layer's weight and bias, or their gradients, from `tensors`; (None, None) without a second layer."""
        return (tensors[2], tensors[3]) if self.hidden else (None, None)
