"""The resident rung's kernels, with some operations given to cuBLASLt and cuDNN (S5 adds one after the other)."""

from __future__ import annotations

from dataclasses import replace

from ..config import LIBRARY
from ..gpu import library
from ..nets import Conv2d, CrossEntropyLoss, Linear, ReLU
from . import resident
from .conv2d.library import LibraryConv2d
from .cross_entropy.library import LibraryCrossEntropy
from .kernels import KernelTable
from .linear.library import LibraryLinear


def chosen(operations: str | None) -> tuple[str, ...]:
    """The operations that a config's `library` names."""
    return LIBRARY if operations is None else tuple(operations.split(","))


def table(operations: str | None) -> KernelTable:
    """A table in which these operations are the libraries'.

    Parameters
    ----------
    operations : str or None
        As `TrainConfig.library`.
    """
    names = chosen(operations)
    layers, losses = dict(resident.TABLE.layers), dict(resident.TABLE.losses)
    if "linear" in names:
        layers[Linear,] = LibraryLinear
    if "conv2d" in names:
        layers[Conv2d,] = layers[Conv2d, ReLU] = LibraryConv2d
    if "cross_entropy" in names:
        losses[CrossEntropyLoss] = LibraryCrossEntropy
    return replace(resident.TABLE, layers=layers, losses=losses)


def why_not(operations: str | None) -> str | None:
    """A line that says which package is missing for these operations, or None."""
    names = chosen(operations)
    return library.why_not(cublas="linear" in names, cudnn="conv2d" in names or "cross_entropy" in names)
