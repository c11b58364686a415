"""Loss of a batch in PyTorch, by `torch.nn.functional`, also with weights of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch.nn import functional

from ....data.dataset import Dataset
from ....nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Loss, Net
from ....ops.loss import scalar
from ....trainers.shares import goals_with_weights


@dataclass(frozen=True)
class Criterion:
    """Loss of a net's outputs (n, *out_shape), and its gradient.

    element, device : dtype and device of the outputs.
    is_weighted : True if goals end in a column of weights of samples.
    factors : weights of classes, or pos_weight in the shape of an output; None without them.
    """

    net: Net
    element: torch.dtype
    device: torch.device
    is_weighted: bool = False
    factors: torch.Tensor | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        factors: np.ndarray | None = None
        if isinstance(self.loss, CrossEntropyLoss) and self.loss.weight is not None:
            factors = np.array(self.loss.weight)
        elif isinstance(self.loss, BCEWithLogitsLoss) and self.loss.pos_weight is not None:
            factors = scalar.settings(self.loss, math.prod(self.net.out_shape)).reshape(self.net.out_shape)
        made = None if factors is None else torch.tensor(factors, dtype=self.element, device=self.device)
        object.__setattr__(self, "factors", made)

    @property
    def loss(self) -> Loss:
        """Loss of the net."""
        return self.net.loss

    @property
    def has_classes(self) -> bool:
        """True if the net learns labels."""
        return isinstance(self.loss, CrossEntropyLoss)

    def of(self, dataset: Dataset) -> Criterion:
        """Copy of this criterion for a training set, weighted if its samples have weights."""
        return replace(self, is_weighted=dataset.train_weight is not None)

    def goals(self, dataset: Dataset, device: torch.device | None = None) -> torch.Tensor | None:
        """Goals of a training set on the device: labels (samples,) int64, or (samples, columns), or None."""
        goal = goals_with_weights(self.net, dataset)
        kind = torch.int64 if goal is not None and goal.ndim == 1 else self.element
        return None if goal is None else torch.tensor(goal, dtype=kind, device=device or self.device)

    def labels(self, y: torch.Tensor | None) -> torch.Tensor | None:
        """Labels (n,) int64 of goals; None for a net without labels."""
        if y is None or not self.has_classes:
            return None
        return y[:, 0].long() if self.is_weighted else y

    def wanted(self, x: torch.Tensor, y: torch.Tensor | None, output: torch.Tensor) -> torch.Tensor:
        """Labels (n,), or targets in the shape of the output, of samples x and their goals."""
        if (labels := self.labels(y)) is not None:
            return labels
        if y is not None and self.is_weighted:
            y = y[:, :-1] if y.shape[1] > 1 else None
        return (x if y is None else y).reshape(output.shape).to(output.dtype)

    def __call__(self, output: torch.Tensor, x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
        """Mean loss of the outputs of samples x; without goals y, x is the target."""
        output = output if output.dtype == torch.float64 else output.float()
        wanted = self.wanted(x, y, output)
        of_classes = self.factors if self.has_classes else None
        if not self.is_weighted and of_classes is None:
            return self._values(output, wanted, "mean")
        lost = self._values(output, wanted, "none").reshape(len(output), -1).mean(1)
        weight = y[:, -1] if self.is_weighted and y is not None else torch.ones_like(lost)
        total = (weight if of_classes is None else weight * of_classes[wanted]).sum()
        return (weight * lost).sum() / torch.where(total > 0, total, torch.inf)  # 0 where no sample counts

    def _values(self, output: torch.Tensor, wanted: torch.Tensor, reduction: str) -> torch.Tensor:
        loss = self.loss
        if isinstance(loss, CrossEntropyLoss):
            return functional.cross_entropy(
                output, wanted, weight=self.factors, label_smoothing=loss.label_smoothing, reduction=reduction
            )
        if isinstance(loss, L1Loss):
            return functional.l1_loss(output, wanted, reduction=reduction)
        if isinstance(loss, HuberLoss):
            return functional.huber_loss(output, wanted, delta=loss.delta, reduction=reduction)
        if isinstance(loss, BCEWithLogitsLoss):
            return functional.binary_cross_entropy_with_logits(
                output, wanted, pos_weight=self.factors, reduction=reduction
            )
        return functional.mse_loss(output, wanted, reduction=reduction)

    def slope(self, output: torch.Tensor, x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
        """Gradient of the mean loss by the net's output, in float32 or float64, equal to autograd's.

        output : (n, *out_shape), without a graph.
        """
        element = torch.promote_types(output.dtype, torch.float32)
        if not self.loss.is_plain or self.is_weighted:
            with torch.enable_grad():
                leaf = output.to(element).requires_grad_()
                return torch.autograd.grad(self(leaf, x, y), leaf)[0]
        wanted = self.wanted(x, y, output)
        if not self.has_classes:
            return (output.to(element) - wanted.to(element)).mul_(2 / output.numel())
        out = torch.softmax(output.to(element), 1)
        out.scatter_add_(1, wanted[:, None], out.new_full((1, 1), -1.0).expand(len(out), 1))
        return out.mul_(1 / len(out))
