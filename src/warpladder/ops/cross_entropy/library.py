"""Softmax cross-entropy on cuDNN's log-softmax."""

from pathlib import Path

from ...device.gpu.cudnn import LogSoftmax, cudnn
from ...device.gpu.library import LibraryCall
from ..engine.chain import Slice
from ..engine.kernels import Launches
from .cuda import FusedCrossEntropy


class LibraryCrossEntropy(FusedCrossEntropy):
    """Cross-entropy from cuDNN's log-probabilities in dx: one kernel computes gradient, loss and accuracy."""

    source, name = Path(__file__).with_name("library.cu"), "cross_entropy_from_log"

    def forward(self, part: Slice) -> Launches:
        n = part.n
        log_softmax = LibraryCall(self.device, LogSoftmax(cudnn(self.device), self.x[:n], self.dx[:n]), None)
        return [log_softmax, *super().forward(part)]
