"""Convolutions after an upsampling, as transposed implicit GEMMs of the small image: y, dx and dw."""

from __future__ import annotations

from .....device import Array, Launch
from ....engine.kernels import Launches, OnDevice
from ....engine.segments import Segment
from ...gradients import Gradients, IncomingGradient
from ..algorithm import ConvAlgorithm, ConvProblem
from ..formats import HALF_FORMATS
from .implicit import STORED, ImplicitWeightGradient, conv_pass, fits, pack
from .plan import ImplicitShape


class UpsampledConvolution:
    """Launchers of y, dx and dw of a convolution after an upsampling, for up to `capacity` images.

    Both are one transposed convolution of the small image, with folded weights (`FusedConv`). So y is computed as dx of
    a convolution, dx as its y, and dw with x and dy in each other's place.

    shape : of the convolution from y to x. upsample : factor of the upsampling.
    trains, has_dx : True if there is a backward pass, and if it computes dx.
    """

    def __init__(
        self, owner: OnDevice, shape: ImplicitShape, upsample: int, capacity: int, precision: str, trains: bool,
        has_dx: bool,
    ) -> None:  # fmt: skip
        kind = HALF_FORMATS[precision]
        self.device, self.shape, self.upsample = owner.device, shape, upsample
        self.y = conv_pass(owner, shape.reversed, capacity, kind)
        self.dx = conv_pass(owner, shape, capacity, kind) if trains and has_dx else None
        self.dw = ImplicitWeightGradient(owner, shape, capacity, kind, upsample) if trains else None
        self.incoming = IncomingGradient(owner, shape.read, capacity, pool=False) if trains else None

    def pack(self, w: Array) -> Launch:
        """Launch that packs the weights for y and dx, needed once after each change of the weights."""
        return pack(self.device, w, self.shape, self.dx, self.y, self.upsample)

    def forward(self, n: int, x: Array, bias: Array | None, y: Array, relu: bool) -> Launches:
        """Launches that fill y[:n] from x[:n], with bias, and ReLU if there is one."""
        return [self.y.launch(n, x, (STORED, None), y, bias, relu)]

    def backward(
        self, n: int, x: Array, dy: Array, relu_output: Array | None, to: Gradients, dx: Array | None,
        mask: Array | None
    ) -> Launches:  # fmt: skip
        """Launches that fill dw and db from x[:n] and dy[:n], and dx[:n], masked by `mask`.

        relu_output : output of a ReLU whose mask is applied to dy first, or None.
        """
        assert self.dw is not None and self.incoming is not None
        found, gradient, rows = self.incoming.launches(n, dy, relu_output, None)
        found += self.dw.launches(n, gradient, x, (STORED, None), to, (self.incoming.sums, rows))
        if self.dx is not None and dx is not None:
            found.append(self.dx.launch(n, gradient, (STORED, None), dx, mask=mask))
        return found


class Upsampled(ConvAlgorithm):
    """Convolution of stride 1 after an upsampling, of any window and channels, by kernels compiled for its shape."""

    uses_halves = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        if not problem.conv.upsamples or problem.conv.pool:
            return False
        shape = cls._shape(problem)
        return fits(problem, shape, y=shape.reversed, dx=shape)

    @staticmethod
    def _shape(problem: ConvProblem) -> ImplicitShape:
        return ImplicitShape(*problem.conv.correlated, problem.conv.small_window)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        settings = problem.capacity, problem.precision, problem.trains, problem.has_dx
        self.passes = UpsampledConvolution(owner, self._shape(problem), problem.conv.upsample, *settings)

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y, self.problem.conv.relu)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.x, t.dy, self.relu_output, to, t.dx, self.dx_mask)
