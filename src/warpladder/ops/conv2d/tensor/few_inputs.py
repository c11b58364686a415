"""First layers with few FLOPs: fp32 multiply-adds in every precision."""

from __future__ import annotations

from ...engine.kernels import Launches
from ...engine.segments import Segment
from ..few_inputs.few_inputs import FewConvolution, FewImagesGradient, RowsGradient
from ..gradients import Gradients
from .algorithm import ConvAlgorithm, ConvProblem


class FewInputs(ConvAlgorithm):
    """First layer with few FLOPs whose sums have at most 32 terms, such as 3 x 3 over colours: fp32 multiply-adds in
    every precision.

    There is too little arithmetic to split numbers for tensor cores (docs/rungs/tensor.md).
    """

    packs = True

    @classmethod
    def supports(cls, problem: ConvProblem) -> bool:
        conv, limits = problem.conv, problem.limits
        if not problem.is_slight or not FewConvolution.supports(conv):
            return False
        return not problem.trains or cls._takes_images(problem) or RowsGradient.supports(conv, limits)

    @staticmethod
    def _takes_images(problem: ConvProblem) -> bool:
        """True if dw is computed from the gradient of a pool, image by image."""
        return problem.conv.pool and FewImagesGradient.supports(problem.conv, problem.capacity, problem.limits)

    def __init__(self, owner: Segment, problem: ConvProblem, before: ConvAlgorithm | None) -> None:
        super().__init__(owner, problem, before)
        conv = problem.conv
        self.y_pass = FewConvolution(owner, conv)
        self.images = FewImagesGradient(owner, conv) if problem.trains and self._takes_images(problem) else None
        is_by_rows = problem.trains and self.images is None
        self.rows = RowsGradient(owner, conv, problem.capacity) if is_by_rows else None

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, self.argmax, self.packed)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        if self.images is not None:
            assert self.argmax is not None
            return self.images.launches(n, t.x, t.dy, self.argmax, to)
        assert self.rows is not None
        return self.rows.launches(n, t.x, t.dy, self.relu_output, self.argmax, to)
