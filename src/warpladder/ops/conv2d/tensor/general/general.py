"""General algorithm: any convolution by mma.sync, and the backward pass of first layers by multiply-adds."""

from collections.abc import Callable

from ....engine.kernels import Launches
from ....engine.segments import Segment
from ...few_inputs.few_inputs import FewConvolution, FewImagesGradient, RowsGradient
from ...gradients import Gradients, IncomingGradient
from ...products import Geometry
from ..algorithm import ConvAlgorithm, ConvProblem
from .launches import GeneralConvolution, GeneralWeightGradient, pack


class GeneralGradients:
    """Launchers of dw, db and dx by mma.sync (product.cu, weights.cu); dw of a slight first layer by few_inputs, if it
    can.
    """

    def __init__(self, owner: Segment, algorithm: ConvAlgorithm) -> None:
        # Fields of the algorithm, not itself: a reference cycle would hold device memory until the garbage collection.
        self.conv, self.buffers, self.argmax = algorithm.problem.conv, algorithm.buffers, algorithm.argmax
        self.relu_output, self.dx_mask = algorithm.relu_output, algorithm.dx_mask
        problem, conv = algorithm.problem, self.conv
        self.dx_pass: GeneralConvolution | None = None
        self.slight = self._slight(owner, problem) if problem.is_slight else None
        if self.slight is not None:
            return
        self.incoming = IncomingGradient(owner, conv.written, problem.capacity, conv.pool, conv.has_bias)
        self.weight_gradient = GeneralWeightGradient(owner, conv, problem.capacity, problem.precision)
        if problem.has_dx:
            self.dx_pass = GeneralConvolution(owner, Geometry.back(conv), problem.capacity, problem.precision)

    def _slight(self, owner: Segment, problem: ConvProblem) -> Callable[[int, Gradients], Launches] | None:
        """Function from n and `Gradients` to the launches of a slight first layer; None if few_inputs does not support
        it.
        """
        t, argmax, relu_output, conv, limits = self.buffers, self.argmax, self.relu_output, self.conv, problem.limits
        if argmax is not None and FewImagesGradient.supports(conv, problem.capacity, limits):
            images = FewImagesGradient(owner, conv)
            return lambda n, to: images.launches(n, t.x, t.dy, argmax, to)
        if RowsGradient.supports(conv, limits):
            rows = RowsGradient(owner, conv, problem.capacity)
            return lambda n, to: rows.launches(n, t.x, t.dy, relu_output, argmax, to)
        return None

    def launches(self, n: int, to: Gradients) -> Launches:
        """Launches that fill dw, db and, if the problem has one, dx[:n]."""
        if self.slight is not None:
            return self.slight(n, to)
        t = self.buffers
        found, gradient, rows = self.incoming.launches(n, t.dy, self.relu_output, self.argmax)
        read, other = (gradient, t.x) if self.conv.upsamples else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, self.incoming.sums, rows, to)
        if self.dx_pass is not None:
            found += self.dx_pass.launches(n, gradient, None, t.dx, mask=self.dx_mask)
        return found


class General(ConvAlgorithm):
    """Convolution of any shape, by mma.sync (product.cu, weights.cu)."""

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        return True

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        self.y_pass = GeneralConvolution(owner, Geometry.of(problem.conv), problem.capacity, problem.precision)
        self.gradients = GeneralGradients(owner, self) if problem.trains else None

    def prepare(self) -> Launches:
        return [pack(self.buffers.w, self.y_pass, self.gradients.dx_pass if self.gradients else None)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.b, t.y, self.problem.conv.relu, self.argmax)

    def backward(self, n: int, to: Gradients) -> Launches:
        assert self.gradients is not None
        return self.gradients.launches(n, to)


class FewInputs(ConvAlgorithm):
    """First layer with few FLOPs whose sums have at most 32 terms, such as 3 x 3 over colours: fp32 multiply-adds in
    every precision.

    There is too little arithmetic to split numbers for tensor cores (docs/rungs/tensor.md).
    """

    packs = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        return problem.is_slight and FewConvolution.supports(problem.conv)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        self.y_pass = FewConvolution(owner, problem.conv)
        self.gradients = GeneralGradients(owner, self) if problem.trains else None

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, self.argmax, self.packed)

    def backward(self, n: int, to: Gradients) -> Launches:
        assert self.gradients is not None
        return self.gradients.launches(n, to)
