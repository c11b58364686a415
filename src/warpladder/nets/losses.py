"""Losses as data, with PyTorch's names and meaning: CrossEntropyLoss and the losses by element."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields
from typing import Any

from ..errors import NetError
from ..errors.arguments import shown


@dataclass(frozen=True)
class Loss:
    """Base of losses: the mean over the batch whose gradient training follows."""

    def __str__(self) -> str:
        """Name, and the settings that differ from their defaults."""
        set_here = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if self._is_set(each)]
        return type(self).__name__ + (f"({', '.join(set_here)})" if set_here else "")

    def _is_set(self, field: Any) -> bool:
        return bool(getattr(self, field.name) != field.default)

    @property
    def is_plain(self) -> bool:
        """True for CrossEntropyLoss and MSELoss without settings: fused kernels compute them."""
        return False

    def check(self, outputs: int) -> None:
        """Raise `NetError` if the settings do not fit a net with this many outputs."""


@dataclass(frozen=True)
class CrossEntropyLoss(Loss):
    """Loss, the mean over the batch of -log softmax(x)[label], as `torch.nn.CrossEntropyLoss`.

    Parameters
    ----------
    weight : sequence of float or None
        Factor of each class, at least 0: the mean is divided by the sum of the labels' factors.
    label_smoothing : float
        Share of each label, 0 to 1, that is spread evenly over all classes.
    """

    weight: tuple[float, ...] | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "label_smoothing", _number("CrossEntropyLoss", "label_smoothing", self.label_smoothing)
        )
        if not 0 <= self.label_smoothing <= 1:
            raise NetError(f"CrossEntropyLoss: label_smoothing wants 0 to 1, got {self.label_smoothing:g}")
        if self.weight is not None:
            object.__setattr__(self, "weight", _numbers("CrossEntropyLoss", "weight", self.weight))
            if not any(self.weight):
                raise NetError("CrossEntropyLoss: weight is 0 for every class: at least one wants to be above 0")

    @property
    def is_plain(self) -> bool:
        return self.weight is None and self.label_smoothing == 0

    def check(self, outputs: int) -> None:
        if self.weight is not None and len(self.weight) != outputs:
            raise NetError(f"CrossEntropyLoss: weight has {len(self.weight)} numbers, the net {outputs} classes")


@dataclass(frozen=True)
class ElementLoss(Loss):
    """Base of losses that are the mean, over the batch and all its elements, of a function of output and target.

    The target is the data set's; without targets in the data set it is the net's input.
    """


@dataclass(frozen=True)
class MSELoss(ElementLoss):
    """Loss, the mean over the batch and all its elements of (x - target)^2, as `torch.nn.MSELoss`.

    The target is the data set's; without targets in the data set it is the net's input.
    """

    @property
    def is_plain(self) -> bool:
        return True


@dataclass(frozen=True)
class L1Loss(ElementLoss):
    """Loss, the mean over all elements of the batch of |x - target|, as `torch.nn.L1Loss`; its derivative at 0 is 0."""


@dataclass(frozen=True)
class HuberLoss(ElementLoss):
    """Loss, the mean over the batch and all its elements of Huber's function of d = x - target, as
    `torch.nn.HuberLoss`.

    It is d^2 / 2 if |d| <= delta, else delta (|d| - delta / 2).

    Parameters
    ----------
    delta : float
        Distance from the target, above 0, beyond which the loss grows linearly.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _number("HuberLoss", "delta", self.delta))
        if not self.delta > 0:
            raise NetError(f"HuberLoss: delta wants a number above 0, got {self.delta:g}")


@dataclass(frozen=True)
class BCEWithLogitsLoss(ElementLoss):
    """Binary cross-entropy of sigmoid(x), as `torch.nn.BCEWithLogitsLoss`: mean over the batch and all its elements.

    The loss of an element is -pos_weight t log s(x) - (1 - t) log(1 - s(x)), with the sigmoid s and the target t, 0 to
    1.

    Parameters
    ----------
    pos_weight : float, sequence of float or None
        Factor of the targets that are 1, above 0: one number, or one for each output.
    """

    pos_weight: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.pos_weight is not None:
            given = self.pos_weight
            numbers = given if isinstance(given, Iterable) and getattr(given, "ndim", 1) != 0 else (given,)
            object.__setattr__(self, "pos_weight", _numbers("BCEWithLogitsLoss", "pos_weight", numbers))
            if not all(self.pos_weight):
                raise NetError("BCEWithLogitsLoss: pos_weight wants numbers above 0")

    def check(self, outputs: int) -> None:
        if self.pos_weight is not None and len(self.pos_weight) not in (1, outputs):
            raise NetError(
                f"BCEWithLogitsLoss: pos_weight has {len(self.pos_weight)} numbers, the net {outputs} outputs: "
                "give one number, or one for each output"
            )


#: Losses by name.
LOSSES: dict[str, type[Loss]] = {
    kind.__name__: kind for kind in (CrossEntropyLoss, MSELoss, L1Loss, HuberLoss, BCEWithLogitsLoss)
}


def _number(loss: str, name: str, value: Any) -> float:
    if isinstance(value, bool | str) or not hasattr(value, "__float__") or not math.isfinite(float(value)):
        raise NetError(f"{loss}: {name} wants a finite number, got {shown(value)}")
    return float(value)


def _numbers(loss: str, name: str, values: Any) -> tuple[float, ...]:
    """Finite numbers, none below 0, from a list, an array or a tensor of one axis."""
    if isinstance(values, str | Mapping | Set) or not isinstance(values, Iterable):
        raise NetError(f"{loss}: {name} wants a list of numbers, one after the other, got {shown(values)}")
    found = tuple(_number(loss, name, each) for each in values)
    if not found or min(found) < 0:
        raise NetError(f"{loss}: {name} wants numbers of at least 0, got {shown(list(found))}")
    return found
