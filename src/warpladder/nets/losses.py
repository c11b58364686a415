"""Losses as data, with the names and the meaning of PyTorch's: CrossEntropyLoss and the losses by element."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """Base of losses: mean over the batch, whose gradient training follows."""


@dataclass(frozen=True)
class CrossEntropyLoss(Loss):
    """Mean over the batch of -log softmax(x)[label], as `torch.nn.CrossEntropyLoss`."""


@dataclass(frozen=True)
class ElementLoss(Loss):
    """Base of losses that are the mean, over the batch and all its elements, of a function of output and target.

    The target is the data set's; of a data set without targets it is the net's input.
    """


@dataclass(frozen=True)
class MSELoss(ElementLoss):
    """Mean over the batch and all its elements of (x - target)^2, as `torch.nn.MSELoss`.

    The target is the data set's; of a data set without targets it is the net's input.
    """
