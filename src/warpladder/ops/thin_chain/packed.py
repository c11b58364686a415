"""Samples that are equal at every step, packed once for the forward pass."""

from pathlib import Path

import numpy as np

from ...device import Array, Call
from ..engine.kernels import Launches, OnDevice, ceil_div
from .arrays import ChainArrays

PACK, FORWARD = (Path(__file__).with_name(name) for name in ("pack.cu", "packed_forward.cu"))
#: Samples and threads of a block of packed_forward.cu, and most bytes of its static shared memory.
SAMPLES, THREADS, STATIC = 256, 128, 4096
#: Most weights of the second layer: the compiler holds them in registers, and with 256 of them spills 1.3 KB.
SECOND = 100


class Packed:
    """Packed copy of all samples, filled once, in as many bytes as the samples."""

    @classmethod
    def takes(cls, arrays: ChainArrays) -> bool:
        """True if every batch has all samples, as bytes, and the weights fit shared memory and registers."""
        most = arrays.device.limits.shared_opt_in - STATIC
        return arrays.is_fixed and arrays.hidden * arrays.out <= SECOND and _shared(arrays) <= most

    def __init__(self, owner: OnDevice, arrays: ChainArrays) -> None:
        self.arrays = a = arrays
        self.words = ceil_div(a.inputs, 4)
        blocks = ceil_div(a.whole, SAMPLES)
        self.samples = owner.scratch((blocks, self.words, SAMPLES), np.uint32)
        kernel = a.device.kernel(PACK, "chain_pack")
        self.packing: Launches = [kernel.bind((blocks, self.words), SAMPLES, a.source, self.samples, a.whole, a.inputs)]
        for call in self.packing:
            call.send()

    def forward(self, n: int, batch: int, small: Array, lost: Array | None, hits: Array | None) -> Call:
        """Call that computes the loss of all n samples, and its gradient by the first layer's output."""
        a = self.arrays
        w1, b1 = a.weights[:2]
        kernel = a.device.kernel(FORWARD, f"chain_forward_packed<{a.hidden}, {a.out}>")
        read = self.samples, a.scale, a.labels, w1, b1, *a.second(a.weights)
        arguments = *read, a.g, small, lost, hits, n, a.inputs, self.words, batch
        return kernel.bind(ceil_div(n, SAMPLES), THREADS, *arguments, shared=_shared(a))


def _shared(a: ChainArrays) -> int:
    """Bytes of shared memory: the first layer's weights, or two halves of its sums and all numbers of the samples."""
    numbers = a.width + (a.hidden + a.out if a.hidden else 0)
    return max(16 * a.width * ceil_div(a.inputs, 4), 4 * (2 * a.width * SAMPLES + numbers * (SAMPLES + 4)))
