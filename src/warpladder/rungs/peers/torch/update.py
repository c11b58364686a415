"""Optimizers in PyTorch: `torch.optim`'s classes, and for graphs an update of all tensors with device numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from ....config import TrainConfig
from ....optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from .known import FUSED

Tensors = dict[str, torch.Tensor]


def eager(optimizer: Optimizer, params: Iterable[torch.Tensor], exact: bool = False) -> torch.optim.Optimizer:
    """Optimizer of `torch.optim` with this name and settings, after a step by a zero gradient, which creates its slots.

    exact : True to avoid PyTorch's fused Adam, whose CUDA kernel corrects by powers of betas rounded to float32:
    updates have relative errors up to 8e-6 in the first hundreds of steps, which a proof in float32 refuses. Raises
    AttributeError: the name is unknown. Raises TypeError, ValueError: it does not take the settings.
    """
    name, params = type(optimizer).__name__, list(params)
    settings = {
        "lr" if field.name == "learning_rate" else field.name: getattr(optimizer, field.name)
        for field in fields(optimizer)
    }
    how = {"foreach": True} if exact and isinstance(optimizer, Adam) else {"fused": True}
    made: torch.optim.Optimizer = getattr(torch.optim, name)(
        params, **settings, **(how if type(optimizer) in FUSED else {})
    )
    for p in params:
        p.grad = torch.zeros_like(p)
    made.step()
    made.zero_grad()
    return made


def lacking(optimizer: Optimizer) -> str | None:
    """Reason why `torch.optim` cannot train with an optimizer; None if it can."""
    name, w = type(optimizer).__name__, torch.zeros(1, requires_grad=True)
    try:
        made = eager(optimizer, [w])
    except AttributeError:
        return f"torch.optim has no {name}"
    except (TypeError, ValueError) as error:
        return f"torch.optim.{name} does not take the settings of {name}: {error}"
    slots = {key for key, value in made.state[w].items() if isinstance(value, torch.Tensor) and key != "step"}
    if slots != set(optimizer.slots):
        return (
            f"torch.optim.{name} keeps {', '.join(sorted(slots)) or 'nothing'}, "
            f"and {name} has the slots {', '.join(optimizer.slots) or 'none'}"
        )
    return None


class GraphUpdate:
    """Update of all tensors within a CUDA graph.

    Numbers that differ from step to step are read from the device, so that each replay of a graph makes the right step:
    `numbers` is the host's copy of a table with a row for each step, and the functions below take a row. If all steps
    have equal numbers, they are constants, and the row is None.

    compiled : True if a `WrittenUpdate` updates instead of `all`, which calls PyTorch's own kernels. exact : see
    `eager`.
    """

    def __init__(self, config: TrainConfig, compiled: bool, exact: bool = False) -> None:
        self.config, self.compiled, self.steady = config, compiled, config.steady
        adam = exact and isinstance(config.optimizer, Adam)
        self.written = adam or isinstance(config.optimizer, RMSprop)

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        """Numbers (updates, columns) float32 of updates first..last-1: `Optimizer.numbers`; (rate, number) if fused."""
        if self.compiled or self.written:
            return self.config.numbers(first, last, samples).astype(np.float32)
        rates = self.config.rates(first, last, samples)
        return np.stack([rates, np.arange(first + 1, last + 1)], axis=1).astype(np.float32)

    def all(
        self, params: list[torch.Tensor], grads: list[torch.Tensor], slots: list[list[torch.Tensor]],
        row: torch.Tensor | None, bad: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        """Update parameters and slots, lists of tensors, by fused kernels, unless `bad`, (), is 1; overwrites grads."""
        clip, optimizer = self.config.clip_value, self.config.optimizer
        if clip is not None:
            torch._foreach_clamp_max_(grads, clip)
            torch._foreach_clamp_min_(grads, -clip)
        if self.config.clip_norm is not None:
            torch._foreach_mul_(grads, norm_factor(grads, self.config.clip_norm))
        if isinstance(optimizer, RMSprop):  # torch.optim has no fused kernel
            written, good = WrittenUpdate(optimizer, None, None), None if bad is None else bad == 0
            for at, (p, g) in enumerate(zip(params, grads, strict=True)):
                own = {name: held[at] for name, held in zip(optimizer.slots, slots, strict=True)}
                written.change(p, g, own, row, good)
            return
        if row is None and bad is None:
            self._steady_sgd(params, grads, slots)
            return
        if self.written and row is not None:
            self._written_adam(params, grads, slots, row)
            return
        # the kernels of torch.optim for fused=True; it wants gradients in the parameters' memory format
        grads = [
            g if g.stride() == p.stride() else torch.empty_like(p).copy_(g) for p, g in zip(params, grads, strict=True)
        ]
        rate: Any = optimizer.learning_rate if row is None else row[0]  # a number, or a tensor on the device
        match optimizer:
            case SGD():
                torch._fused_sgd_(
                    params, grads, slots[0] if slots else [],
                    weight_decay=optimizer.weight_decay, momentum=optimizer.momentum, lr=rate,
                    dampening=0.0, nesterov=optimizer.nesterov, maximize=False, is_first_step=False, found_inf=bad,
                )  # fmt: skip
            case Adam():  # or AdamW, which is one
                assert row is not None
                fused = torch._fused_adamw_ if isinstance(optimizer, AdamW) else torch._fused_adam_
                beta1, beta2 = optimizer.betas
                fused(
                    params, grads, slots[0], slots[1], [], [row[1]] * len(params), lr=rate, beta1=beta1, beta2=beta2,
                    weight_decay=optimizer.weight_decay, eps=optimizer.eps,
                    amsgrad=False, maximize=False, found_inf=bad,
                )  # fmt: skip

    def _written_adam(
        self, params: list[torch.Tensor], grads: list[torch.Tensor], slots: list[list[torch.Tensor]], row: torch.Tensor
    ) -> None:
        optimizer, (m, v) = self.config.optimizer, slots
        assert isinstance(optimizer, Adam)
        beta1, beta2 = optimizer.betas
        if isinstance(optimizer, AdamW):
            torch._foreach_mul_(params, 1 - row[7])
        elif optimizer.weight_decay:
            torch._foreach_add_(grads, params, alpha=optimizer.weight_decay)
        torch._foreach_mul_(m, beta1)
        torch._foreach_add_(m, grads, alpha=1 - beta1)
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, grads, grads, 1 - beta2)
        below = torch._foreach_sqrt(v)
        torch._foreach_mul_(below, row[5])
        torch._foreach_add_(below, optimizer.eps)
        along = torch._foreach_div(m, below)
        torch._foreach_mul_(along, row[0])
        torch._foreach_sub_(params, along)

    def _steady_sgd(
        self, params: list[torch.Tensor], grads: list[torch.Tensor], slots: list[list[torch.Tensor]]
    ) -> None:
        optimizer = self.config.optimizer
        assert isinstance(optimizer, SGD)
        if optimizer.weight_decay:
            torch._foreach_add_(grads, params, alpha=optimizer.weight_decay)
        along = grads
        if slots:
            (buffer,) = slots
            torch._foreach_mul_(buffer, optimizer.momentum)
            torch._foreach_add_(buffer, grads)
            if optimizer.nesterov:
                torch._foreach_add_(grads, buffer, alpha=optimizer.momentum)
            else:
                along = buffer
        torch._foreach_add_(params, along, alpha=-optimizer.learning_rate)


@dataclass(frozen=True)
class WrittenUpdate:
    """Update of a step as tensor expressions for inductor, with the settings of a `TrainConfig`."""

    optimizer: Optimizer
    clip_value: float | None
    clip_norm: float | None

    @classmethod
    def of(cls, config: TrainConfig) -> WrittenUpdate:
        return cls(config.optimizer, config.clip_value, config.clip_norm)

    def scaled(self, grads: Tensors) -> Tensors:
        """Gradients of a step, by name, scaled together if there is a `clip_norm`."""
        if self.clip_norm is None:
            return grads
        factor = norm_factor(list(grads.values()), self.clip_norm)
        return {name: g * factor for name, g in grads.items()}

    def change(
        self, p: torch.Tensor, g: torch.Tensor, slots: Tensors, row: torch.Tensor | None,
        good: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        """Change a parameter and its slots, or neither if `good`, (), is False."""
        if self.clip_value is not None:
            g = g.clamp(-self.clip_value, self.clip_value)
        match self.optimizer:
            case SGD() as optimizer:
                taken, kept = sgd(optimizer, p, g, slots, row)
            case RMSprop() as optimizer:
                taken, kept = rmsprop(optimizer, p, g, slots, row)
            case Adam() as optimizer:
                assert row is not None
                taken, kept = adam(optimizer, p, g, slots, row)
        p.sub_(taken if good is None else torch.where(good, taken, 0))
        for name, value in kept.items():
            slots[name].copy_(value if good is None else torch.where(good, value, slots[name]))


def norm_factor(grads: list[torch.Tensor], limit: float) -> torch.Tensor:
    """Factor () of all gradients of a step, at most 1, as `torch.nn.utils.clip_grad_norm_` computes it."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    return torch.clamp(limit / (norm + 1e-6), max=1.0)


def sgd(
    optimizer: SGD, p: torch.Tensor, g: torch.Tensor, slots: Tensors, row: torch.Tensor | None
) -> tuple[torch.Tensor, Tensors]:
    """SGD's step, to be subtracted (inductor 2.13 loses an add_ with alpha fused into a product), and the new slots."""
    kept: Tensors = {}
    if optimizer.weight_decay:
        g = g + optimizer.weight_decay * p
    if optimizer.momentum:
        v = optimizer.momentum * slots["momentum_buffer"] + g
        kept["momentum_buffer"] = v
        g = g + optimizer.momentum * v if optimizer.nesterov else v
    return (optimizer.learning_rate if row is None else row[0]) * g, kept


def rmsprop(
    optimizer: RMSprop, p: torch.Tensor, g: torch.Tensor, slots: Tensors, row: torch.Tensor | None
) -> tuple[torch.Tensor, Tensors]:
    """Step of RMSprop, to be subtracted, and the new slots."""
    if optimizer.weight_decay:
        g = g + optimizer.weight_decay * p
    square = optimizer.alpha * slots["square_avg"] + (1 - optimizer.alpha) * g * g
    kept, along = {"square_avg": square}, g / (square.sqrt() + optimizer.eps)
    if optimizer.momentum:
        along = kept["momentum_buffer"] = optimizer.momentum * slots["momentum_buffer"] + along
    return (optimizer.learning_rate if row is None else row[0]) * along, kept


def adam(
    optimizer: Adam, p: torch.Tensor, g: torch.Tensor, slots: Tensors, row: torch.Tensor
) -> tuple[torch.Tensor, Tensors]:
    """Step of Adam or AdamW, to be subtracted from the parameter, and the new slots."""
    apart = isinstance(optimizer, AdamW)
    if optimizer.weight_decay and not apart:
        g = g + optimizer.weight_decay * p
    beta1, beta2 = optimizer.betas
    m = beta1 * slots["exp_avg"] + (1 - beta1) * g
    v = beta2 * slots["exp_avg_sq"] + (1 - beta2) * g * g
    taken = row[0] * m / (v.sqrt() * row[5] + optimizer.eps)
    return taken + row[7] * p if apart else taken, {"exp_avg": m, "exp_avg_sq": v}
