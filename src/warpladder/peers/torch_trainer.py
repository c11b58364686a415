"""Training with PyTorch on the CPU, as a careful user of it would write the loop. docs/peers.md has the measurements behind each choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..config import TrainConfig
from ..data.dataset import pixels
from ..errors import DataError, RungError
from ..machine import cores
from ..nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, Upsample2d
from ..order import Order
from ..params import slots, views
from ..trainers.base import State, StepLog, Trainer, check_fit, check_range

if TYPE_CHECKING:
    from ..data.dataset import Dataset

PREDICT_FLOATS = 1 << 22  # in the largest activation of one call of the model, at most, if one sample allows


class TorchTrainer(Trainer):
    """The equal `nn.Sequential`, `torch.optim.SGD` and no DataLoader.

    Parameters
    ----------
    net, config, state
        As every rung's `build` is given them.
    channels_last : bool
        Keep images and convolution weights in PyTorch's channels-last memory format.
    """

    def __init__(self, net: Net, config: TrainConfig, state: State, *, channels_last: bool = False) -> None:
        self.net, self.config, self.channels_last = net, config, channels_last and len(net.in_shape) == 3
        self.classes = isinstance(net.loss, CrossEntropyLoss)
        self.model = sequential(net)
        if channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.named = dict(self.model.named_parameters())
        self.optimiser = torch.optim.SGD(
            self.model.parameters(),
            lr=config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
            fused=True,
        )
        self.x: torch.Tensor | None = None
        self.labels: torch.Tensor | None = None
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        self.x = self._tensor(dataset.train_x, dataset.scale)
        self.labels = torch.tensor(dataset.train_y, dtype=torch.int64) if self.classes else None

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        n = len(self.x)
        check_range(self.config, order, n, first, last)
        batch = self.config.batch(n)
        starts = np.arange(first * batch, min(last * batch, n), batch)
        sizes = np.minimum(batch, n - starts)
        if not starts.size:
            return StepLog(np.zeros(0), np.zeros(0, np.int64), sizes)
        losses: list[torch.Tensor] = []
        hits = np.zeros(len(sizes), np.int64)
        with self._threads():
            if batch == n:  # a full batch has every sample, whatever the order
                outputs = [self._step(self.x, self.labels, losses)]
                labels = self.labels
            else:
                rows = torch.from_numpy(order.indices(int(starts[0]), int(starts[-1] + sizes[-1])))
                labels = None if self.labels is None else self.labels.index_select(0, rows)
                outputs = []
                for start in range(0, len(rows), batch):
                    some = slice(start, start + batch)
                    x = self.x.index_select(0, rows[some])
                    outputs.append(self._step(x, None if labels is None else labels[some], losses))
            if labels is not None:
                right = (torch.cat(outputs).argmax(1) == labels).numpy()
                hits = np.add.reduceat(right, starts - starts[0], dtype=np.int64)
            return StepLog(torch.stack(losses).numpy().astype(np.float64), hits, sizes)

    def _step(self, x: torch.Tensor, labels: torch.Tensor | None, losses: list[torch.Tensor]) -> torch.Tensor:
        """One step on samples as they are stored; returns the logits, which nothing holds a graph of."""
        if self.channels_last:
            x = x.permute(0, 3, 1, 2)
        output = self.model(x)
        if labels is not None:
            loss = functional.cross_entropy(output, labels)
        else:
            loss = functional.mse_loss(output, x.reshape(output.shape))
        for p in self.named.values():
            p.grad = None
        loss.backward()
        if self.config.clip_value is not None:
            nn.utils.clip_grad_value_(self.named.values(), self.config.clip_value)
        self.optimiser.step()
        losses.append(loss.detach())
        return output.detach()

    def state(self) -> State:
        params, velocity = (np.zeros(self.net.param_count, np.float32) for _ in range(2))
        for name, view in views(self.net, params).items():
            view[...] = self.named[name].detach().numpy()
        for name, view in views(self.net, velocity).items():
            buffer = self.optimiser.state[self.named[name]].get("momentum_buffer")
            if buffer is not None:
                view[...] = buffer.numpy()
        return State(params, velocity)

    def set_state(self, state: State) -> None:
        params, velocity = views(self.net, state.params), views(self.net, state.velocity)
        with torch.no_grad():
            for name, p in self.named.items():
                p.copy_(torch.tensor(params[name]))
                if self.config.momentum:
                    self.optimiser.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(torch.tensor(velocity[name]))

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        out = np.empty((len(x), *self.net.out_shape), np.float32)
        rows = max(1, PREDICT_FLOATS // max(map(math.prod, self.net.shapes)))
        with self._threads(), torch.inference_mode():
            for first in range(0, len(x), rows):
                some = self._tensor(x[first : first + rows], scale)
                out[first : first + rows] = self.model(some.permute(0, 3, 1, 2) if self.channels_last else some).numpy()
        return out

    def memory(self) -> dict[str, int]:
        weights = 4 * self.net.param_count
        held = {"parameters": weights, "gradients": weights, "optimiser": weights if self.config.momentum else 0}
        if self.x is not None:
            held["data"] = self.x.nbytes + (0 if self.labels is None else self.labels.nbytes)
        return held

    def close(self) -> None:
        self.x = self.labels = None

    def _tensor(self, x: np.ndarray, scale: float) -> torch.Tensor:
        """Samples as the model takes them, or (samples, height, width, channels) for channels last."""
        if self.channels_last:
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        return torch.from_numpy(pixels(x, scale))

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """PyTorch's number of threads is the process's: ours while we train, then again what it was."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.config.threads or cores())
        try:
            yield
        finally:
            torch.set_num_threads(before)


def sequential(net: Net) -> nn.Sequential:
    """The equal PyTorch model; its `state_dict` has our names, shapes and order."""
    modules = [_module(layer, shape) for layer, shape in zip(net.layers, net.shapes, strict=False)]
    for before, module in pairwise(modules):
        if isinstance(module, nn.ReLU):
            module.inplace = isinstance(before, nn.Linear | nn.Conv2d)  # whose backward pass does not look at their output
    model = nn.Sequential(*modules)
    wanted = [(slot.name, slot.shape) for slot in slots(net)]
    if [(name, tuple(p.shape)) for name, p in model.named_parameters()] != wanted:
        raise RungError(f"net {net.name!r}: PyTorch's parameters are not those of the net")
    return model


def _module(layer: Layer, in_shape: tuple[int, ...]) -> nn.Module:
    match layer:
        case Linear():
            return nn.Linear(in_shape[0], layer.out_features)
        case Conv2d():
            return nn.Conv2d(in_shape[0], layer.out_channels, layer.kernel_size, layer.stride, layer.padding)
        case ReLU():
            return nn.ReLU()
        case MaxPool2d():
            return nn.MaxPool2d(layer.kernel_size, layer.stride)
        case Upsample2d():
            return nn.Upsample(scale_factor=layer.scale_factor)
        case Flatten():
            return nn.Flatten()
    raise RungError(f"PyTorch's peer has no {type(layer).__name__}")
