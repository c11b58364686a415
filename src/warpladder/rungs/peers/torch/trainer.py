"""PyTorch trainer in eager mode, the loop of a careful user (docs/peers.md has the measurements for each choice)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ....config import TrainConfig
from ....data.dataset import pixels
from ....data.order import Order
from ....errors import RungError
from ....machine.facts import cores
from ....machine.precision import named
from ....nets import Net
from ....nets.params import buffer_slices, buffer_views, param_slices, views
from ....trainers.base import State, StepLog, Trainer, check_fit, check_range, check_samples, not_loaded
from .. import driver
from .criterion import Criterion
from .masks import with_masks
from .net import arithmetic, sequential
from .scale import SCALE
from .update import eager

if TYPE_CHECKING:
    from ....data.dataset import Dataset

PREDICT_FLOATS = 1 << 22  # elements of an activation in one call, at most, unless one sample has more
SHORT = {"bf16": torch.bfloat16, "fp16": torch.float16}  # formats of automatic mixed precision
TOGETHER = 256  # steps whose sample indices are computed at once, while a GPU runs the previous ones


class TorchTrainer(Trainer):
    """Trainer by the equal `nn.Sequential` and the `torch.optim` class of the optimizer's name, without a DataLoader.

    device : "cpu" or "cuda", for training and the data set. Raises `RungError` if PyTorch has no such device.
    precision : precision of products, "fp64", "fp32", "tf32", "bf16" or "fp16". In fp64 all numbers are float64; bf16
    and fp16 are automatic mixed precision, with a scaled loss in fp16.
    channels_last : True for channels-last images and convolution weights.
    model : module with the net's parameters in the net's order; by default the equal `nn.Sequential`.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, *, device: str = "cpu", precision: str = "fp32",
        channels_last: bool = False, threads: int | None = None, model: nn.Module | None = None,
    ) -> None:  # fmt: skip
        self.net, self.config, self.channels_last = net, config, channels_last and len(net.in_shape) == 3
        self.device, self.precision, self.threads = open_device(device), named(precision).name, threads
        self.element = torch.float64 if self.precision == "fp64" else torch.float32  # dtype of parameters and slots
        self.criterion = Criterion(net, self.element, self.device)
        self.short = SHORT.get(self.precision)  # format of products under autocast
        self.model = (sequential(net) if model is None else model).to(self.device, self.element)
        self.masks = with_masks(net, self.model)
        if channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.named = dict(zip((place.name for place in param_slices(net)), self.model.parameters(), strict=True))

        self.running = dict(zip((place.name for place in buffer_slices(net)), statistics(self.model), strict=True))
        exact = device == "cuda" and self.precision in ("fp32", "fp64")
        self.optimizer = eager(config.optimizer, self.model.parameters(), exact)
        self.scaler = torch.amp.GradScaler(self.device.type, init_scale=SCALE, enabled=self.precision == "fp16")
        self.x: torch.Tensor | None = None
        self.labels: torch.Tensor | None = None
        self.rates: Iterator[float] | None = None
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        self.x = self._tensor(dataset.train_x, dataset.scale).to(self.device)
        self.criterion = self.criterion.of(dataset)
        self.labels = self.criterion.goals(dataset)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None:
            raise not_loaded(self.net)
        n = len(self.x)
        check_range(self.config, order, n, first, last)
        batch = self.config.batch(n)
        size = np.minimum(batch, n - np.arange(first, last) * batch)
        logs: list[tuple[torch.Tensor, torch.Tensor]] = []
        has_loss = self.config.has_loss(order.epoch)
        self._schedule(last - first, n)
        with self._settings():
            for start in range(first, last, TOGETHER):
                logs += self._steps(order, start, min(start + TOGETHER, last), batch, has_loss)
            if not has_loss:
                self._wait()
                return StepLog.without_loss(size)
            nothing = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
            loss, correct = (torch.cat([log[i].cpu() for log in (nothing, *logs)]).numpy() for i in range(2))
        return StepLog(loss.astype(np.float64), correct.astype(np.int64), size)

    def _steps(
        self, order: Order, first: int, last: int, batch: int, has_loss: bool
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Losses and correct counts of some steps, queued on the device; no losses without `has_loss`."""
        assert self.x is not None
        losses: list[torch.Tensor] = []
        hits: list[torch.Tensor] = []
        n = len(self.x)
        rows = None
        labels = self.labels
        if batch < n or self.masks:  # a full batch has every sample, whatever the order, but masks go by position
            rows = torch.from_numpy(order.indices(first * batch, min(last * batch, n))).to(self.device)
            labels = None if labels is None else labels.index_select(0, rows)
        for start in range(0, (last - first) * batch, batch):
            some = slice(start, start + batch)
            x = self.x if rows is None else self.x.index_select(0, rows[some])
            y = None if labels is None else labels[some]
            for each in self.masks:
                each.keys = order.mask_key, first * batch + start
            loss, output = self._step(x, y, has_loss)
            if loss is None:
                continue
            losses.append(loss)
            if (wanted := self.criterion.labels(y)) is not None:
                hits.append((output.argmax(1) == wanted).sum())
        if not has_loss:
            return []
        return [(torch.stack(losses), torch.stack(hits) if hits else torch.zeros(len(losses), dtype=torch.int64))]

    def _wait(self) -> None:
        """Wait until the device is idle; the CPU always is."""
        if self.device.type == "cuda":
            torch.cuda.current_stream().synchronize()

    def _schedule(self, steps: int, samples: int) -> None:
        """Compute the learning rates of the next steps, if they vary."""
        if not self.config.schedule.steady:
            self.rates = iter(self.config.rates(self.step, self.step + steps, samples).tolist())

    def _step(
        self, x: torch.Tensor, labels: torch.Tensor | None, has_loss: bool
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Train one step on stored samples; returns the loss (None without `has_loss`), and the detached output."""
        if self.channels_last:
            x = x.permute(0, 3, 1, 2)
        with self._autocast():
            output = self.model(x)
            if has_loss:
                loss = self.criterion(output, x, labels)
        for p in self.named.values():
            p.grad = None
        if self.rates is not None:
            self.optimizer.param_groups[0]["lr"] = next(self.rates)
        if has_loss:
            self.scaler.scale(loss).backward()
        else:
            output.backward(self.scaler.scale(self.criterion.slope(output.detach(), x, labels)).to(output.dtype))
        if self.config.clip_value is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_value_(self.named.values(), self.config.clip_value)
        if self.config.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.named.values(), self.config.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        return loss.detach() if has_loss else None, output.detach()

    def state(self) -> State:
        names = self.config.optimizer.slots
        params, *flats = (np.zeros(self.net.param_count, self._numpy()) for _ in range(1 + len(names)))
        for name, view in views(self.net, params).items():
            view[...] = self.named[name].detach().cpu().numpy()
        for slot, flat in zip(names, flats, strict=True):
            for name, view in views(self.net, flat).items():
                view[...] = self.optimizer.state[self.named[name]][slot].cpu().numpy()
        buffers = np.zeros(self.net.buffer_count, self._numpy()) if self.net.normalizes else None
        for name, view in () if buffers is None else buffer_views(self.net, buffers).items():
            view[...] = self.running[name].cpu().numpy()
        return State(params, dict(zip(names, flats, strict=True)), self.step, buffers)

    def set_state(self, state: State) -> None:
        self.step = state.step
        params = views(self.net, state.params)
        slots = {slot: views(self.net, state.slot(slot)) for slot in self.config.optimizer.slots}
        with torch.no_grad():
            for name, view in buffer_views(self.net, state.buffers_of(self.net)).items():
                self.running[name].copy_(torch.tensor(view))
            for name, p in self.named.items():
                p.copy_(torch.tensor(params[name]))
                held = self.optimizer.state[p]
                for slot, tensors in slots.items():
                    held[slot].copy_(torch.tensor(tensors[name]))
                if "step" in held:
                    held["step"].fill_(state.step)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        out = np.empty((len(x), *self.net.out_shape), self._numpy())
        rows = max(1, PREDICT_FLOATS // max(map(math.prod, self.net.shapes)))
        with self._settings(search=False), torch.inference_mode(), self._predicting():
            for first in range(0, len(x), rows):
                some = self._tensor(x[first : first + rows], scale).to(self.device)
                with self._autocast():
                    output = self.model(some.permute(0, 3, 1, 2) if self.channels_last else some)
                out[first : first + rows] = output.to(self.element).cpu().numpy()
        return out

    @contextmanager
    def _predicting(self) -> Iterator[None]:
        """Context in which the model drops nothing and normalises by its running statistics, for predictions."""
        if not self.net.normalizes and not self.masks:
            yield
            return
        self.model.eval()
        try:
            yield
        finally:
            self.model.train()

    def memory(self) -> dict[str, int]:
        weights = self.element.itemsize * self.net.param_count
        held = {"parameters": weights, "gradients": weights, "optimizer": weights * len(self.config.optimizer.slots)}
        if self.x is not None:
            held["data"] = self.x.nbytes + (0 if self.labels is None else self.labels.nbytes)
        return held

    def peak(self) -> float | None:
        return driver.peak(self.precision) if self.device.type == "cuda" else None

    def close(self) -> None:
        self.x = self.labels = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # for other processes on this GPU

    def _tensor(self, x: np.ndarray, scale: float) -> torch.Tensor:
        """Samples times scale in the model's dtype; (samples, height, width, channels) for channels last."""
        if self.channels_last:
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        return torch.from_numpy(pixels(x, scale)).to(self.element)

    def _numpy(self) -> type[np.floating]:
        """NumPy dtype of parameters, slots and outputs."""
        return np.float64 if self.element == torch.float64 else np.float32

    def _autocast(self) -> torch.autocast:
        """Context with PyTorch's automatic mixed precision for this trainer."""
        return torch.autocast(self.device.type, self.short or torch.bfloat16, enabled=self.short is not None)

    @contextmanager
    def _settings(self, search: bool = True) -> Iterator[None]:
        """Context with this trainer's number of threads and arithmetic, which are settings of the process."""
        if self.device.type == "cuda":
            with arithmetic(self.precision, search=search):
                yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads or cores())
        try:
            yield
        finally:
            torch.set_num_threads(before)


def statistics(model: nn.Module) -> list[torch.Tensor]:
    """Running means and variances of a module, in the order of its `state_dict`."""
    return [held for name, held in model.named_buffers() if not name.endswith("num_batches_tracked")]


def open_device(name: str) -> torch.device:
    """CPU or GPU as a torch device. Raises `RungError` if PyTorch has none."""
    if name == "cuda" and not torch.cuda.is_available():
        built = "for CUDA " + torch.version.cuda if torch.version.cuda else "without CUDA"
        raise RungError(f"PyTorch {torch.__version__} finds no GPU here: it is built {built}")
    return torch.device(name)
