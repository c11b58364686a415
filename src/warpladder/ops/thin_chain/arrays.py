"""What the launches of a thin chain are bound to."""

from __future__ import annotations

import numpy as np

from ...device import Array
from ..engine.chain import Slice
from ..engine.kernels import KernelUpdate, Log, OnDevice
from ..update.fused import settings

#: Outputs of a layer at most: all of a sample's stay in registers.
MOST = 16


class ChainArrays:
    """One or two thin linear layers and cross-entropy.

    Parameters
    ----------
    owner : OnDevice
        Whose scratch memory is taken.
    source, scale : Array, float
        (samples, inputs) uint8 or float32, and what its numbers are multiplied by.
    labels : Array
        (samples,) int32.
    order : Array or None
        None takes samples as they stand. So does a batch of all samples: each is in it once, and their sum needs no
        order.
    log : Log
    whole, capacity : int
        Samples of a full batch, and at a time.
    weights, gradients : tuple of Array
        w1, b1 and perhaps w2, b2.
    update : KernelUpdate or None
        What a batch that comes in one piece ends with.
    dx : Array or None
        (samples, inputs) float32, the gradient by what enters, where it is wanted.
    gathered : bool
        Whether source holds a slice's samples alone, those of a batch before it left out.

    Attributes
    ----------
    fixed : bool
        Whether every step has the same samples in the same places, as bytes.
    """

    def __init__(
        self, owner: OnDevice, source: Array, scale: float | np.float32, labels: Array, order: Array | None, log: Log,
        whole: int, capacity: int,
        weights: tuple[Array, ...], gradients: tuple[Array, ...], update: KernelUpdate | None = None,
        dx: Array | None = None,
        gathered: bool = False,
    ) -> None:  # fmt: skip
        self.device, self.source, self.scale, self.labels, self.log = (
            owner.device,
            source,
            np.float32(scale),
            labels,
            log,
        )
        self.order = None if whole == len(source) else order
        self.fixed = order is not None and self.order is None and source.dtype == np.uint8
        self.gathered = gathered
        self.whole, self.weights, self.gradients, self.update, self.dx = whole, weights, gradients, update, dx
        outputs = [bias.size for bias in weights[1::2]]
        self.hidden = outputs[0] if len(outputs) == 2 else 0
        self.out, self.width = outputs[-1], outputs[0]
        self.inputs = source.size // len(source)
        self.small = self.hidden + self.out + self.hidden * self.out if self.hidden else self.out
        self.pixel = "unsigned char" if source.dtype == np.uint8 else "float"
        self.g = owner.scratch((capacity, -(-self.width // 4) * 4))

    def start(self, part: Slice) -> int:
        """The position from which on a slice's samples stand in the batch, or in source where that has no others."""
        return 0 if self.gathered else part.offset

    def updated(self, part: Slice) -> tuple[object, ...]:
        """Gradients, parameters, momentum buffer and the settings of SGD, as kernels that may update take them."""
        return settings(self.update, part)

    def second(self, tensors: tuple[Array, ...]) -> tuple[Array | None, Array | None]:
        """The second layer's of weights or gradients, where there is one."""
        return (tensors[2], tensors[3]) if self.hidden else (None, None)
