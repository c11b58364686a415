"""Loss of a net as a function of parameters and stored samples, and the step that inductor compiles from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import FunctionType

import torch

from ....nets import Net
from .captured import Reported
from .criterion import Criterion
from .net import TrainingBatch, forward
from .scale import unscaled
from .update import Tensors, WrittenUpdate

#: Compiled steps that a process stores. The proof of a peer uses some twenty.
STORED = 64

#: Step of (parameters, slots, running statistics, samples, labels, row of the step's numbers, scale of the loss and its
#: steps, or None, keys of masks or None).
CompiledStep = Callable[
    [
        Tensors, dict[str, Tensors], Tensors, torch.Tensor, torch.Tensor | None, torch.Tensor | None,
        tuple[torch.Tensor, torch.Tensor] | None, torch.Tensor | None,
    ],
    Reported | None,
]  # fmt: skip


@dataclass(frozen=True)
class NetFunction:
    """Outputs and mean loss of a net, as functions of its parameters.

    format : dtype of the factors of products. criterion : loss for a training set.
    images_last : True if stored images and convolution weights are channels-last.
    """

    net: Net
    format: torch.dtype
    images_last: bool
    criterion: Criterion

    def loss(
        self, tensors: Tensors, x: torch.Tensor, y: torch.Tensor | None, batch: TrainingBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean loss () of a batch of stored samples and the net's outputs (n, *out_shape), both float32."""
        output = self.output(tensors, x, batch)
        return self.criterion(output, self.images(x).float(), y), output

    def output(self, tensors: Tensors, x: torch.Tensor, batch: TrainingBatch | None = None) -> torch.Tensor:
        """Outputs (n, *out_shape) float32 of stored samples, in training those of a batch.

        tensors : parameters and running statistics by name.
        """
        if self.format != torch.float32:  # the casts of autocast, which leaves normalisations in float32
            tensors = {name: t if name in self.float32 else t.to(self.format) for name, t in tensors.items()}
        return forward(self.net, tensors, self.images(x), self.images_last, batch).float()

    @cached_property
    def float32(self) -> frozenset[str]:
        """Names of the tensors that stay in float32: those of normalisations."""
        net = self.net
        shaped = zip(net.names, net.layers, net.shapes, strict=False)
        return frozenset(
            f"{name}.{kind}"
            for name, layer, shape in shaped
            if layer.normalizes
            for kind in (*layer.param_shapes(shape), *layer.buffer_shapes(shape))
        )

    def images(self, x: torch.Tensor) -> torch.Tensor:
        """Samples (n, channels, height, width), a view of x if the data set is stored with its channels last."""
        return x.permute(0, 3, 1, 2) if self.images_last else x


@lru_cache(STORED)
def compiled_step(function: NetFunction, update: WrittenUpdate, size: int, has_loss: bool) -> CompiledStep:
    """Training step on `size` samples, compiled at its first call: forward, backward and update as one function.

    Trainers with equal settings share it: a proof loads many data sets of few sizes. It returns the loss and outputs,
    or None without `has_loss`.
    """

    def scaled(
        params: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor | None, by: torch.Tensor | None,
        keys: torch.Tensor | None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor, Tensors]]:  # fmt: skip
        moved: Tensors = {}
        loss, output = function.loss(params | buffers, x, y, TrainingBatch(keys, moved))
        return loss if by is None else loss * by, (loss, output, moved)

    def step(
        params: Tensors, slots: dict[str, Tensors], buffers: Tensors,
        x: torch.Tensor, y: torch.Tensor | None, row: torch.Tensor | None,
        scale: tuple[torch.Tensor, torch.Tensor] | None, keys: torch.Tensor | None,
    ) -> Reported | None:  # fmt: skip
        by = None if scale is None else scale[0]
        grads, (_, (loss, output, moved)) = torch.func.grad_and_value(scaled, has_aux=True)(
            params, buffers, x, y, by, keys
        )
        for name, new in moved.items():
            buffers[name].copy_(new)
        good = None
        if scale is not None:
            grads, good = unscaled(grads, *scale)
        grads = update.scaled(grads)
        for name, p in params.items():
            own_slots = {slot: tensors[name] for slot, tensors in slots.items()}
            update.change(p, grads[name], own_slots, row, good)
        return (loss, output) if has_loss else None

    # torch.compile stores eight functions for a code object, and all steps share this code
    own = FunctionType(step.__code__.replace(), step.__globals__, step.__name__, None, step.__closure__)
    compiled: CompiledStep = torch.compile(own, fullgraph=True, dynamic=False)
    return compiled
