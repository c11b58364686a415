"""Interface of a convolution on tensor cores: `ConvProblem`, and the `ConvAlgorithm` that computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....device import Array, Device, Limits
from ....machine.peaks import HOPPER
from ...engine.chain import Subgraph
from ...engine.kernels import Launches
from ...engine.segments import Segment
from ...engine.tensor_limits import FIRST, is_small
from ..gradients import Gradients
from ..problem import FusedConv
from .formats import HALF_FORMATS
from .warpgroups.images import GradientBelow, PackedImages

#: Precisions whose factors some algorithms multiply in another format of as many bits.
HALVES = {"tf32": "fp16"}


def has_wgmma(device: Device) -> bool:
    """True if the device runs Hopper's warpgroup products; the emulator runs them."""
    return device.capability in (None, HOPPER)


@dataclass(frozen=True)
class ConvProblem:
    """Convolution on a device, as an input of the choice of an algorithm.

    conv : shapes, window, and fused neighbours (upsampling before it, ReLU and 2 x 2 max-pool after it).
    precision : precision of the chain.
    capacity : images of a full batch.
    has_wgmma : True if the device runs Hopper's warpgroup products.
    trains, has_dx : True if there is a backward pass, and if it computes dx.
    is_slight : True if this is a net's first layer, with a small share of FLOPs (engine/tensor_limits.py).
    """

    conv: FusedConv
    precision: str
    capacity: int
    limits: Limits
    has_wgmma: bool = False
    trains: bool = True
    has_dx: bool = True
    is_slight: bool = False

    @classmethod
    def of(
        cls, subgraph: Subgraph, capacity: int, device: Device | None = None, trains: bool = True, has_dx: bool = True
    ) -> ConvProblem:
        """Problem of the layers of a subgraph. Without a device has_wgmma is False."""
        conv = FusedConv.of(subgraph.layers, subgraph.shapes[0])
        is_slight = not conv.upsamples and not has_dx and is_small(subgraph, FIRST, products=2)
        limits, wgmma = (subgraph.limits, False) if device is None else (device.limits, has_wgmma(device))
        return cls(conv, subgraph.precision, capacity, limits, wgmma, trains, has_dx, is_slight)

    @property
    def is_first(self) -> bool:
        """True if this is a net's first layer: it has no dx and no upsampling."""
        return not self.conv.upsamples and not self.has_dx

    @property
    def is_same_3x3(self) -> bool:
        """True if the window is 3 x 3 with padding 1, alone or after an upsampling by 2, in a precision of
        HALF_FORMATS.
        """
        return self.conv.window == (3, 1, 1) and self.conv.upsample <= 2 and self.precision in HALF_FORMATS


class ConvAlgorithm(ABC):
    """Base of the algorithms for convolutions on tensor cores: y, dx, dw and db as launches.

    owner : segment whose arrays are read and written, and which holds the scratch memory. No reference to it is stored.
    problem : a problem that the algorithm `supports`.
    before : algorithm of the previous convolution in the chain, or None. The two may exchange packed x and dx.
    factors : precision of the multiplied factors, if it differs from the net's (`Segment.factors`).
    argmax : uint8, argmax index of each window of a pool, for its gradient. None without a pool or a backward pass.
    relu_output : y, if it is the output of a ReLU whose mask has not been applied to dy.
    dx_mask : x, if dx must be 0 where x is not above 0.
    packed : uint16, a second copy of y, packed for the next layer. None if that layer packs its image itself.
    updates_separately : True if the optimizer's step is faster as a separate launch: the launch that fills dw then
    need not wait until dx has read the weights.
    """

    #: True if y can be packed in bf16 for the next layer.
    packs: ClassVar[bool] = False
    #: True if tf32's factors, of 11 bits, are multiplied as scaled halves, which have as many.
    uses_halves: ClassVar[bool] = False

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        self.problem, self.buffers = problem, owner.buffers
        self.factors = HALVES.get(problem.precision) if self.uses_halves else None
        self.packed: Array | None = None
        self.updates_separately = False
        pooled = problem.conv.pool and problem.trains
        self.argmax = owner.scratch((problem.capacity, *owner.buffers.y.shape[1:]), np.uint8) if pooled else None
        self.relu_output = owner.buffers.y if problem.conv.relu and not owner.operands.dy_is_masked else None
        self.dx_mask = owner.buffers.x if owner.operands.masks_dx else None

    @classmethod
    @abstractmethod
    def supports(cls, problem: ConvProblem) -> bool:
        """True if the algorithm can compute the problem. `dispatch.choose` takes the first that can."""

    def prepare(self) -> Launches:
        """Launches that depend on the weights alone, such as packing."""
        return []

    @abstractmethod
    def forward(self, n: int) -> Launches:
        """Launches that fill y[:n]."""

    @abstractmethod
    def backward(self, n: int, to: Gradients) -> Launches:
        """Launches that fill dw, db and, if the problem has one, dx[:n]."""

    def feed(self, images: PackedImages) -> bool:
        """Set a packed copy of y for the next layer, written from now on. Returns False if this algorithm cannot write
        it.
        """
        if images.has_scales or not self.packs:
            return False
        self.packed = images.halves.high
        return True

    def fed_back(self) -> GradientBelow | None:
        """Packed buffer for dy of the next layer, with its sums for the bias; None for the float32 array dy."""
        return None
