"""PyTorch trainer with CUDA graphs: blocks of steps are captured when the data set is loaded.

The step is a function of its tensors: PyTorch's autograd and its fused updates, or one function compiled by inductor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ....config import TrainConfig
from ....data.dataset import pixels
from ....data.order import Order
from ....machine.precision import named
from ....nets import Net
from ....nets.params import buffer_views, views
from ....trainers.base import State, StepLog, Trainer, check_fit, check_range, check_samples, in_a_row, not_loaded
from .. import driver
from ..blocks import Blocks, powers, with_losses
from ..layout import channels_first, channels_last, flattened, spatial
from .captured import CapturedSteps, Reported, Step
from .criterion import Criterion
from .function import NetFunction, compiled_step
from .net import TrainingBatch, arithmetic
from .order import Shuffle
from .scale import LossScale
from .trainer import PREDICT_FLOATS, SHORT, open_device
from .update import GraphUpdate, Tensors, WrittenUpdate

if TYPE_CHECKING:
    from ....data.dataset import Dataset

#: Steps in a graph, by the most FLOPs of one.
CAPTURED = ((1e10, 64), (math.inf, 8))

GATHERED = 1 << 28  # bytes of samples that a graph gathers before its first step, at most


class GraphTrainer(Trainer):
    """Trainer by CUDA graphs of whole steps, with the gathering of their samples, over static buffers.

    device : "cuda"; or "cpu" for tests, without graphs.
    precision : "fp32", "tf32", "bf16" or "fp16" of the factors of products; weights, update and loss are float32. In
    fp16 the loss is scaled, as by `torch.amp.GradScaler`.
    images_last : True for channels-last images and convolution weights.
    compiled : True if inductor compiles forward, backward and update as one function.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, *,
        device: str = "cuda", precision: str = "fp32", images_last: bool = False, compiled: bool = False,
    ) -> None:  # fmt: skip
        self.net, self.config, self.precision, self.compiled = net, config, named(precision).name, compiled
        self.device = open_device(device)
        self.images_last = images_last and spatial(net)
        self.flattened = flattened(net) if self.images_last else {}
        self.format = SHORT.get(self.precision, torch.float32)
        self.criterion = Criterion(net, torch.float32, self.device)
        self.function = NetFunction(net, self.format, self.images_last, self.criterion)
        self.update = GraphUpdate(config, compiled, exact=self.precision == "fp32")
        self.scale = LossScale(self.device) if self.precision == "fp16" else None
        self.params = {name: self._inward(name, view) for name, view in views(net, state.params).items()}
        self.slots = {
            slot: {name: torch.zeros_like(p) for name, p in self.params.items()} for slot in config.optimizer.slots
        }
        running = buffer_views(net, state.buffers_of(net))
        self.buffers = {name: self._inward(name, view) for name, view in running.items()}
        self.keys = torch.zeros(2, dtype=torch.int64, device=self.device) if net.is_random else None
        self.set_state(state)
        self.x: torch.Tensor | None = None
        self.labels: torch.Tensor | None = None
        self.shuffle: Shuffle | None = None
        self.loss, self.correct = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
        #: By steps, samples in a batch, and True if losses are computed.
        self.programs: dict[tuple[int, int, bool], CapturedSteps] = {}
        self.pool: Any = None  # memory that all graphs of a data set share
        self.seconds: dict[str, float] = {}

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        self.close()
        start = perf_counter()
        self.samples = n = len(dataset.train_x)
        batch = self.config.batch(n)
        #: a full batch has every sample, whatever the order, unless masks go by position
        self.whole = batch == n and not self.net.is_random
        self.most = next(most for flops, most in CAPTURED if self.net.train_flops * batch <= flops)
        if not self.whole:
            self.most = max(1, min(self.most, GATHERED // (4 * batch * math.prod(self.net.in_shape))))
        self.blocks = Blocks.of(self.config, n, self.most)
        self.x = self._tensor(dataset.train_x, dataset.scale)
        self.criterion = self.criterion.of(dataset)
        self.function = replace(self.function, criterion=self.criterion)
        self.labels = self.criterion.goals(dataset)
        pinned = self.device.type == "cuda"
        self.shuffle = None if self.whole else Shuffle(n, self.device)
        self._keep(self.config.steps(n))
        self.pool = torch.cuda.graph_pool_handle() if pinned else None
        loaded = perf_counter()
        lengths = powers(self.most) if self.whole else self.blocks.lengths
        shapes = {(length, self.blocks.batch) for length in lengths} | self.blocks.whole
        with arithmetic(self.precision):
            for kind in ((True,) if self.config.loss_every == 1 else (True, False)) if self.is_ready_early else ():
                for count, size in sorted(shapes, reverse=True):
                    self._program(count, size, kind)
        self.seconds = {"load": loaded - start, "capture": perf_counter() - loaded}

    def _program(self, count: int, size: int, has_loss: bool) -> CapturedSteps:
        """Block of `count` steps of `size` samples, captured once; the state stays as it is."""
        if (count, size, has_loss) not in self.programs:
            held = [(tensor, tensor.clone()) for tensor in self._changed()]
            step = self._made(size, has_loss)
            self.programs[count, size, has_loss] = CapturedSteps(self, step, count, size, self.pool, has_loss)
            for tensor, before in held:  # undoes the warm-up steps
                tensor.copy_(before)
        return self.programs[count, size, has_loss]

    def _changed(self) -> list[torch.Tensor]:
        """Tensors that a step changes."""
        scale = [] if self.scale is None else [self.scale.scale, self.scale.steps]
        trees = self.params, self.buffers, *self.slots.values()
        return [*(tensor for tree in trees for tensor in tree.values()), *scale]

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None:
            raise not_loaded(self.net)
        check_range(self.config, order, self.samples, first, last)
        batch, has_loss = self.blocks.batch, self.config.has_loss(order.epoch)
        rows = None if self.shuffle is None else self.shuffle.rows(order)
        numbers = self._numbers(last - first)
        with arithmetic(self.precision):
            for block in self.blocks.cut(first, last):
                start = block.first * batch
                if self.keys is not None:
                    self.keys.copy_(torch.tensor([order.mask_key, start]))
                some = None if rows is None else rows[start : start + block.steps * block.size]
                program = self._program(block.steps, block.size, has_loss)
                program(some, block.first, None if numbers is None else numbers[block.first - first :])
        self.step += last - first
        size = np.minimum(batch, self.samples - np.arange(first, last) * batch)
        loss, correct = self._finished(first, last)
        return StepLog(loss, correct, size) if has_loss else StepLog.without_loss(size)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if self.x is None or not self.whole:
            return super().run_epochs(orders)
        for order in orders:
            check_range(self.config, order, self.samples, 0, 1)
        count, sent = len(orders), 0
        self._keep(count)
        numbers = self._numbers(count)
        with arithmetic(self.precision):
            for has_loss, alike in in_a_row(self.config, orders):
                end = sent + alike
                while sent < end:
                    steps = next(steps for steps in powers(self.most)[::-1] if steps <= end - sent)
                    program = self._program(steps, self.samples, has_loss)
                    program(None, sent, None if numbers is None else numbers[sent:])
                    sent += steps
        self.step += count
        return with_losses(
            self.config, orders, StepLog(*self._finished(0, count), np.full(count, self.samples)).by_step()
        )

    def _numbers(self, steps: int) -> torch.Tensor | None:
        """Numbers (steps, columns) of the next steps on the device; None if they are constant."""
        if self.update.steady:
            return None
        return torch.from_numpy(self.update.numbers(self.step, self.step + steps, self.samples)).to(self.device)

    def _keep(self, steps: int) -> None:
        """Allocate the log for at least `steps` steps."""
        pinned = self.device.type == "cuda"
        if len(self.loss) < steps:
            self.loss = torch.zeros(steps, pin_memory=pinned)
            self.correct = torch.zeros(steps, dtype=torch.int64, pin_memory=pinned)

    def _finished(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Losses (steps,) float64 and correct counts (steps,) int64 of steps first..last-1, after waiting for them."""
        if self.device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        return self.loss[first:last].numpy().astype(np.float64), self.correct[first:last].numpy().astype(np.int64)

    def _made(self, size: int, has_loss: bool) -> Step:
        return self._compiled(size, has_loss) if self.compiled else self._autograd(has_loss)

    def _autograd(self, has_loss: bool) -> Step:
        """Step by PyTorch's autograd, with one update kernel for all tensors; it returns None if not `has_loss`."""
        slots = [list(tensors.values()) for tensors in self.slots.values()]

        def step(
            x: torch.Tensor, y: torch.Tensor | None, row: torch.Tensor | None, keys: torch.Tensor | None
        ) -> Reported | None:
            leaves = {name: p.detach().requires_grad_() for name, p in self.params.items()}
            scale, batch = self.scale, TrainingBatch(keys)
            if has_loss:
                loss, output = self.function.loss(leaves | self.buffers, x, y, batch)
                found = torch.autograd.grad(loss if scale is None else loss * scale.scale, list(leaves.values()))
            else:
                output = self.function.output(leaves | self.buffers, x, batch)
                by = self.criterion.slope(output.detach(), self.function.images(x).float(), y)
                found = torch.autograd.grad(output, list(leaves.values()), by if scale is None else by * scale.scale)
            grads = list(found)
            if scale is not None:
                scale.unscale(grads)
            self.update.all(list(self.params.values()), grads, slots, row, None if scale is None else scale.bad)
            if scale is not None:
                scale.move()
            return (loss.detach(), output.detach()) if has_loss else None

        return step

    def _compiled(self, size: int, has_loss: bool) -> Step:
        """Step of `size` samples, compiled by inductor for this trainer or an earlier one with equal settings."""
        fast = compiled_step(self.function, WrittenUpdate.of(self.config), size, has_loss)

        def one(
            x: torch.Tensor, y: torch.Tensor | None, row: torch.Tensor | None, keys: torch.Tensor | None
        ) -> Reported | None:
            with torch.no_grad():
                return fast(
                    self.params, self.slots, self.buffers, x, y, row,
                    None if self.scale is None else (self.scale.scale, self.scale.steps), keys,
                )  # fmt: skip

        return one

    def state(self) -> State:
        def outward(tensors: Tensors) -> np.ndarray:
            flat = np.zeros(self.net.param_count, np.float32)
            for name, view in views(self.net, flat).items():
                view[...] = self._outward(name, tensors[name])
            return flat

        buffers = np.zeros(self.net.buffer_count, np.float32) if self.net.normalizes else None
        for name, view in () if buffers is None else buffer_views(self.net, buffers).items():
            view[...] = self._outward(name, self.buffers[name])
        slots = {slot: outward(tensors) for slot, tensors in self.slots.items()}
        return State(outward(self.params), slots, self.step, buffers)

    def set_state(self, state: State) -> None:
        self.step = state.step
        if self.scale is not None:
            self.scale.reset()
        for arrays, tensors in (
            (views(self.net, state.params), self.params),
            (buffer_views(self.net, state.buffers_of(self.net)), self.buffers),
            *((views(self.net, state.slot(slot)), tensors) for slot, tensors in self.slots.items()),
        ):
            for name, view in arrays.items():
                tensors[name].copy_(self._inward(name, view))

    def _inward(self, name: str, a: np.ndarray) -> torch.Tensor:
        """Tensor on the device, copied from `a` into this trainer's layout."""
        if name in self.flattened:
            a = channels_last(a, self.flattened[name])
        out = torch.tensor(a, dtype=torch.float32, device=self.device)
        return out.contiguous(memory_format=torch.channels_last) if self.images_last and out.ndim == 4 else out

    def _outward(self, name: str, tensor: torch.Tensor) -> np.ndarray:
        a = tensor.cpu().numpy()
        return channels_first(a, self.flattened[name]) if name in self.flattened else a

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        out = np.empty((len(x), *self.net.out_shape), np.float32)
        rows = max(1, PREDICT_FLOATS // max(map(math.prod, self.net.shapes)))
        with arithmetic(self.precision, search=False), torch.inference_mode():
            for first in range(0, len(x), rows):
                some = self._tensor(x[first : first + rows], scale)
                out[first : first + rows] = self.function.output(self.params | self.buffers, some).cpu().numpy()
        return out

    def memory(self) -> dict[str, int]:
        weights = 4 * self.net.param_count
        held = {"parameters": weights, "gradients": weights, "optimizer": weights * len(self.slots)}
        if self.x is not None:
            held["data"] = self.x.nbytes + (0 if self.labels is None else self.labels.nbytes)
        return held

    def peak(self) -> float | None:
        return driver.peak(self.precision) if self.device.type == "cuda" else None

    def spans(self) -> dict[str, float]:
        return dict(self.seconds)

    def close(self) -> None:
        self.programs = {}
        self.x = self.labels = self.shuffle = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # for other processes on this GPU

    def _tensor(self, x: np.ndarray, scale: float) -> torch.Tensor:
        """Samples (samples, *in_shape), or channels last, on the device in the format of the products' factors."""
        if self.images_last:
            x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        return torch.from_numpy(pixels(x, scale)).to(self.device).to(self.format)
