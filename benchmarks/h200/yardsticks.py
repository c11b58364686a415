"""Stand-alone training programs, as short as they can be written, that the peers' times are held against (`peers.py`).

They know nothing of warpladder: one net, one batch size, one precision each, an epoch as one program, samples scaled
beforehand, the order drawn by the library's own generator, plain SGD, no last partial batch. `Style` names what the
peers do otherwise, so that each difference can be timed alone.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np


@dataclass(frozen=True)
class Task:
    """What is trained.

    widths : units of the layers of a perceptron, the inputs' number first; empty for the convolutional net.
    images : (n, 784) uint8; n is a multiple of the batch.
    labels : (n,) int32
    batch, steps : samples in a batch, steps in an epoch; where a batch is all samples, steps that are trained in a row.
    rate : of learning.
    half : products in bfloat16 instead of float32.
    """

    widths: tuple[int, ...]
    images: np.ndarray
    labels: np.ndarray
    batch: int
    steps: int
    rate: float
    half: bool

    @property
    def whole(self) -> bool:
        return self.batch == len(self.images)

    def start(self) -> list[np.ndarray]:
        """Weights (inputs, outputs) or (height, width, in, out), and biases, in turn."""
        shapes = list(zip(self.widths, self.widths[1:], strict=False)) or [(3, 3, 1, 16), (3, 3, 16, 32), (4608, 10)]
        random, out = np.random.default_rng(1), []
        for shape in shapes:
            limit = float(np.prod(shape[:-1])) ** -0.5
            out += [random.uniform(-limit, limit, size).astype(np.float32) for size in (shape, shape[-1:])]
        return out


@dataclass(frozen=True)
class Style:
    """How JAX's program is written.

    count : right samples of each batch: "none", "argmax", or "mask", compared with the largest.
    update : "constant", the rate written into p - rate * g; "sum", into p + -rate * g; "argument".
    bias : added in the "factors"' format or in "float32".
    """

    count: str = "argmax"
    update: str = "constant"
    bias: str = "factors"


def jax_program(task: Task, style: Style) -> Callable[[], float]:
    """A function that trains an epoch and gives the mean of its losses; compiled."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    dtype = jnp.bfloat16 if task.half else jnp.float32
    flops = (
        1e9
        if not task.widths
        else 6 * task.batch * sum(a * b for a, b in zip(task.widths, task.widths[1:], strict=False))
    )
    unroll = 16 if task.whole or flops < 2e8 else 4 if task.half else 1

    def biased(x: Any, bias: Any) -> Any:
        return x + bias.astype(dtype) if style.bias == "factors" else (x.astype(jnp.float32) + bias).astype(dtype)

    def output(params: list[Any], x: Any) -> Any:
        if task.widths:
            for i in range(0, len(params), 2):
                x = biased((jax.nn.relu(x) if i else x) @ params[i].astype(dtype), params[i + 1])
            return x
        x = x.reshape(-1, 28, 28, 1)
        for i in (0, 2):
            x = biased(
                lax.conv_general_dilated(
                    x, params[i].astype(dtype), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                ),
                params[i + 1],
            )
            x = jax.nn.relu(x if i == 0 else x.reshape(-1, 12, 2, 12, 2, 32).max((2, 4)))
        return biased(x.reshape(len(x), -1) @ params[4].astype(dtype), params[5])

    def loss(params: list[Any], x: Any, y: Any) -> tuple[Any, Any]:
        out = output(params, x).astype(jnp.float32)
        chosen = y[:, None] == jnp.arange(10)
        value = -jnp.where(chosen, jax.nn.log_softmax(out), 0).sum() / len(y)
        if style.count == "none":
            return value, jnp.int32(0)
        right = out.argmax(1) == y if style.count == "argmax" else (chosen & (out == out.max(1, keepdims=True))).any(1)
        return value, right.sum(dtype=jnp.int32)

    def step(params: list[Any], rate: Any, x: Any, y: Any) -> tuple[list[Any], Any]:
        reported, grads = jax.value_and_grad(loss, has_aux=True)(params, x, y)
        rate = rate if style.update == "argument" else task.rate
        if style.update == "sum":
            return [p + -rate * g for p, g in zip(params, grads, strict=True)], reported
        return [p - rate * g for p, g in zip(params, grads, strict=True)], reported

    def epoch(params: list[Any], rate: Any, key: Any, images: Any, labels: Any) -> Any:
        if task.whole:
            return lax.scan(lambda p, _: step(p, rate, images, labels), params, None, length=task.steps, unroll=unroll)
        order = jnp.argsort(jax.random.bits(key, (len(images),))).reshape(task.steps, task.batch)
        return lax.scan(lambda p, some: step(p, rate, *some), params, (images[order], labels[order]), unroll=unroll)

    params = [jnp.asarray(p) for p in task.start()]
    images, labels = (jnp.asarray(task.images).astype(jnp.float32) / 255).astype(dtype), jnp.asarray(task.labels)
    key, rate = jax.random.key(0), jnp.float32(task.rate)
    with jax.default_matmul_precision("default" if task.half else "highest"):
        train = jax.jit(epoch, donate_argnums=0).lower(params, rate, key, images, labels).compile()

    def run() -> float:
        nonlocal params, key
        params, (losses, _) = train(params, rate, key, images, labels)
        key = jax.random.fold_in(key, 1)
        return float(np.mean(np.asarray(losses)))

    return run


def torch_program(task: Task) -> Callable[[], float]:
    """The same with PyTorch's autograd in a CUDA graph of an epoch, or of sixteen steps for the convolutional net."""
    import torch
    from torch.nn import functional

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    dtype = torch.bfloat16 if task.half else torch.float32
    last = torch.channels_last if task.half else torch.contiguous_format
    axes = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}
    params = [torch.tensor(p.transpose(axes[p.ndim])).cuda() for p in task.start()]
    params = [(p.contiguous(memory_format=last) if p.ndim == 4 else p.contiguous()).requires_grad_() for p in params]
    images, labels = (
        (torch.tensor(task.images).cuda().float() / 255).to(dtype),
        torch.tensor(task.labels, dtype=torch.int64).cuda(),
    )
    held = task.steps if task.widths and not task.whole else 50 if task.whole else 16
    rows = torch.zeros(held * task.batch, dtype=torch.int64, device="cuda")
    xs, ys = (
        (images, labels)
        if task.whole
        else (torch.empty_like(images[: len(rows)]), torch.empty_like(labels[: len(rows)]))
    )
    losses, right = torch.zeros(held, device="cuda"), torch.zeros(held, dtype=torch.int64, device="cuda")

    def output(p: list[Any], x: Any) -> Any:
        if task.widths:
            for i in range(0, len(p), 2):
                x = functional.linear(functional.relu(x) if i else x, p[i], p[i + 1])
            return x
        x = functional.relu(functional.conv2d(x.view(-1, 1, 28, 28).contiguous(memory_format=last), p[0], p[1]))
        x = functional.relu(functional.max_pool2d(functional.conv2d(x, p[2], p[3]), 2))
        return functional.linear(x.permute(0, 2, 3, 1).flatten(1) if task.half else x.flatten(1), p[4], p[5])

    def body(count: int) -> None:
        x, y = images, labels
        if not task.whole:
            some = rows[: count * task.batch]
            x, y = (
                torch.index_select(images, 0, some, out=xs[: len(some)]),
                torch.index_select(labels, 0, some, out=ys[: len(some)]),
            )
        for number in range(count):
            part = slice(None) if task.whole else slice(number * task.batch, (number + 1) * task.batch)
            out = output([p.to(dtype) for p in params] if task.half else params, x[part]).float()
            value = functional.cross_entropy(out, y[part])
            grads = torch.autograd.grad(value, params)
            with torch.no_grad():
                torch._foreach_add_(params, grads, alpha=-task.rate)
                losses[number].copy_(value)
                right[number].copy_((out.argmax(1) == y[part]).sum())

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body(2)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graphs = {}
    for count in {held, task.steps % held} - {0}:
        graphs[count] = torch.cuda.CUDAGraph()
        gc.collect()
        gc.disable()  # nothing may be freed meanwhile
        with torch.cuda.graph(graphs[count], capture_error_mode="thread_local"):
            body(count)
        gc.enable()

    held_alive = params, labels, xs, ys, right  # a graph knows addresses, and keeps nothing

    def run() -> float:
        assert held_alive
        order = None if task.whole else torch.randperm(len(images), device="cuda")
        total = torch.zeros((), device="cuda")
        for first in range(0, task.steps, held):
            count = min(held, task.steps - first)
            if order is not None:
                rows[: count * task.batch].copy_(order[first * task.batch : (first + count) * task.batch])
            graphs[count].replay()
            total += losses[:count].sum()
        return float(total) / task.steps

    return run
