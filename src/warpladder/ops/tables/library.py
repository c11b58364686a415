"""Table of the library rung: the resident rung's kernels, with some operations by cuBLASLt and cuDNN."""

from collections.abc import Collection
from dataclasses import replace

from ...device.gpu import library
from ...nets import Conv2d, CrossEntropyLoss, Linear, ReLU
from ..conv2d.library import LibraryConv2d
from ..cross_entropy.library import LibraryCrossEntropy
from ..engine.segments import KernelTable
from ..linear.library import LibraryLinear
from . import resident


def table(operations: Collection[str]) -> KernelTable:
    """Table in which the libraries compute these operations, among "linear", "conv2d" and "cross_entropy"."""
    segments = dict(resident.TABLE.segments)
    if "linear" in operations:
        segments[Linear,] = LibraryLinear
    if "conv2d" in operations:
        segments[Conv2d,] = segments[Conv2d, ReLU] = LibraryConv2d
    if "cross_entropy" in operations:
        segments[CrossEntropyLoss,] = LibraryCrossEntropy
    return replace(resident.TABLE, segments=segments)


def why_not(operations: Collection[str]) -> str | None:
    """Reason why these operations cannot run, which names the missing package; None if they can."""
    return library.why_not(cublas="linear" in operations, cudnn="conv2d" in operations or "cross_entropy" in operations)
