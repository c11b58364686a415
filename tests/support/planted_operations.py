"""Planted operations: faults within an operation of array code, of loops and of CUDA kernels, and honest variants.

A fault in array code and loops is a class whose method is mixed into an operation of either form. A fault in a kernel is
an edit of its source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from edits import edited, occurrences
from liars import Wrapper

import warpladder
from warpladder.config import TrainConfig
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice
from warpladder.nets import CrossEntropyLoss, Linear, MaxPool2d, MSELoss, Net, ReLU
from warpladder.ops.tables.array import TABLE as ARRAY
from warpladder.ops.tables.loops import TABLE as LOOPS
from warpladder.ops.tables.naive import TABLE as NAIVE
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.layerwise import LayerwiseTrainer

Build = Callable[[Net, TrainConfig, State], Trainer]
TABLES = {"numpy": ARRAY, "loops": LOOPS}


def mixed(kind: type, fault: type, form: str) -> Build:
    """A trainer of array code or of loops one of whose operations has a method of `fault` mixed in."""
    table = TABLES[form]
    part = "losses" if kind in table.losses else "layers"
    op = type(fault.__name__, (fault, getattr(table, part)[kind]), {})
    changes: dict[str, Any] = {part: {**getattr(table, part), kind: op}}
    changed = replace(table, **changes)

    class Mixed(Wrapper):
        def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
            super().__init__(net, config, state)
            self.inner = LayerwiseTrainer(net, config, state, changed)

    return Mixed


class EditedKernels(EmulatedDevice):
    """The emulator, where a text of one kernel's file, or of its headers, reads otherwise."""

    edit: tuple[str, str] = ("", "")

    def kernel(self, path: Any, name: str) -> Any:
        source = sources.read(path)
        before, after = self.edit
        if occurrences(source.text, before):
            source = replace(source, text=edited(source.text, before, after))
        return super().kernel(source, name)


def edited_kernel(before: str, after: str) -> Build:
    """A trainer of naive kernels, in which a text reads otherwise."""

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        device = type("EditedHere", (EditedKernels,), {"edit": (before, after)})()
        return KernelTrainer(net, config, state, device, NAIVE, "resident", 32)

    return build


# Faults of a loss


class DropsSmallGradients:
    """Takes a difference p - label below 10^-4 for zero."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        dx[np.abs(dx) < 1e-4 / n] = 0


class ClipsGradientsOfProbabilities:
    """Clips p to 10^-3 to 1 - 10^-3 before it subtracts the label."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        dx[...] = np.where((np.abs(dx) < 1e-3 / n), np.sign(dx) * dx.dtype.type(1e-3 / n), dx)


class SmoothsConfidentLabels:
    """Moves a hundredth of the label to the other classes where the loss is small."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        label = np.arange(n), self.target[:n]
        sure = -dx[label] * n < 0.05
        dx[label] += np.where(sure, dx.dtype.type(0.01 / n), 0)


class CutsLargeLosses:
    """Logs at most a loss of 15 a batch."""

    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        if has_loss and self.loss[0] > 15:
            self.loss[0] = 15


class LogsZeroForSmallLosses:
    def forward(self: Any, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)  # type: ignore[misc]
        if has_loss and self.loss[0] < 1e-4:
            self.loss[0] = 0


class RoundsGradientsToHalf:
    """Holds the gradient of the outputs in half precision, where small numbers have fewer digits."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        dx[...] = (dx * 1024).astype(np.float16).astype(dx.dtype) / 1024


class FlushesTinyErrors:
    """Takes gradients of outputs below 10^-9 for zero."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        dx[np.abs(dx * dx.size / 2) < 1e-5] = 0


class HasHubersGradient:
    """Takes the gradient of a large error for that of an absolute value."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        dx = self.dx[:n]
        most = dx.dtype.type(2 * 5 / dx.size)
        np.clip(dx, -most, most, out=dx)


# Faults of layers


class HearsNoNaN:
    """Gives zero for an output that is NaN."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        y = self.buffers.y[:n]
        y[np.isnan(y)] = 0


class SaturatesOutputs:
    """Cuts outputs at 6, as ReLU6 does."""

    def forward(self: Any, n: int) -> None:
        super().forward(n)  # type: ignore[misc]
        y = self.buffers.y[:n]
        np.clip(y, -30, 30, out=y)


class DropsNaNGradients:
    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        for a in (self.buffers.dw, self.buffers.db):
            a[...] = np.nan_to_num(a, nan=0, posinf=0, neginf=0)


class SkipsTheLastOfManySamples:
    """Leaves the last sample out of the weights' gradient where a batch has more than four."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        if n > 4:
            t = self.buffers
            x, dy = t.x[n - 1].reshape(-1), t.dy[n - 1].reshape(-1)
            t.dw[...] -= np.outer(dy, x).reshape(t.dw.shape).astype(t.dw.dtype)


@dataclass(frozen=True)
class Planted:
    """A fault of an operation.

    lie, twin : builds with the fault, and of the same form without it.
    loss : loss of the nets to which it makes a difference; None for both.
    layer : layer that such a net has; None for any.
    settings : settings that the fault needs.
    """

    name: str
    lie: Build
    twin: Build
    loss: type | None = None
    layer: type | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def applies(self, net: Net) -> bool:
        """True if a net has the operation."""
        has_layer = self.layer is None or any(isinstance(layer, self.layer) for layer in net.layers)
        return has_layer and self.loss in (None, type(net.loss))


class Nothing:
    """No fault."""


def of_operation(kind: type, fault: type, loss: type | None = None) -> list[Planted]:
    """A fault of a layer or a loss, in array code and in loops."""
    layer = None if kind in ARRAY.losses else kind
    return [
        Planted(f"{fault.__name__}-{form}", mixed(kind, fault, form), mixed(kind, Nothing, form), loss, layer)
        for form in TABLES
    ]


_SAME = edited_kernel("// no such text", "")


@cache
def _kernel_texts() -> tuple[str, ...]:
    """Texts of all files that kernels are made of; the persistent kernel is assembled by Python."""
    root = Path(warpladder.__file__).parent
    return tuple(
        path.read_text() for kind in ("*.cu", "*.cuh", "trainers/persistent/**/*.py") for path in root.rglob(kind)
    )


def stands(text: str) -> str:
    """A text to be edited. A kernel must have it: a fault that changes nothing would seem to pass the proof."""
    assert any(occurrences(each, text) for each in _kernel_texts()), f"no kernel has the text {text!r}"
    return text


def of_kernel(
    name: str, before: str, after: str, loss: type | None = None, layer: type | None = None, **settings: Any
) -> Planted:
    """A fault of a naive kernel."""
    return Planted(f"{name}-cuda", edited_kernel(stands(before), after), _SAME, loss, layer, settings)


OPERATIONS = (
    *(
        each
        for fault in (
            DropsSmallGradients, ClipsGradientsOfProbabilities, SmoothsConfidentLabels, CutsLargeLosses,
            LogsZeroForSmallLosses, RoundsGradientsToHalf,
        )
        for each in of_operation(CrossEntropyLoss, fault, CrossEntropyLoss)
    ),
    *of_operation(MSELoss, FlushesTinyErrors, MSELoss),
    *of_operation(MSELoss, HasHubersGradient, MSELoss),
    *of_operation(ReLU, HearsNoNaN, CrossEntropyLoss),
    *of_operation(Linear, SaturatesOutputs, CrossEntropyLoss),
    *of_operation(Linear, DropsNaNGradients, CrossEntropyLoss),
    *of_operation(Linear, SkipsTheLastOfManySamples, CrossEntropyLoss),
    *of_operation(MaxPool2d, HearsNoNaN, MSELoss),
    of_kernel("HearsNoNaN", "return x < 0.0f ? 0.0f : x;", "return fmaxf(x, 0.0f);", layer=ReLU),
    of_kernel("HasNoRowMaximum", "Softmax s = {x[0], 0.0f, 0};", "Softmax s = {0.0f, 0.0f, 0};", CrossEntropyLoss),
    of_kernel("DropsSmallGradients", "p[i] = (p[i] - wanted) / batch;",
            "p[i] = fabsf(p[i] - wanted) < 1e-4f ? 0.0f : (p[i] - wanted) / batch;", CrossEntropyLoss),
    of_kernel("ClipsProbabilities", "return logf(s.total) - (x - s.largest);",
            "return fminf(logf(s.total) - (x - s.largest), 16.0f);", CrossEntropyLoss),
    of_kernel("CountsEveryTie", "hits[sample] = s.best == label[sample];",
            "hits[sample] = logits[label[sample]] == s.largest;", CrossEntropyLoss),
    of_kernel("OpensAtZero", "dx[i] = y[i] > 0.0f ? gradient : 0.0f;", "dx[i] = y[i] >= 0.0f ? gradient : 0.0f;",
              layer=ReLU),
)  # fmt: skip


# Honest variants of a linear layer, by the order of their sums


def _chunks(n: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def _kahan(terms: np.ndarray) -> np.ndarray:
    total, lost = np.zeros_like(terms[0]), np.zeros_like(terms[0])
    for term in terms:
        more = term - lost
        new = total + more
        lost = (new - total) - more
        total = new
    return total


def _one_by_one(terms: np.ndarray) -> np.ndarray:
    total = np.zeros_like(terms[0])
    for term in terms:
        total = total + term
    return total


#: Sums over the first axis of terms, in other orders.
SUMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one by one": _one_by_one,
    "from the last": lambda terms: _one_by_one(terms[::-1]),
    "Kahan": _kahan,
    "in float64": lambda terms: terms.sum(axis=0, dtype=np.float64).astype(terms.dtype),
    "in chunks of three": lambda terms: _one_by_one(np.stack([terms[c].sum(axis=0) for c in _chunks(len(terms), 3)])),
    "even, then odd": lambda terms: _one_by_one(terms[::2]) + (_one_by_one(terms[1::2]) if len(terms) > 1 else 0),
}


def summed(order: str, where: str) -> Build:
    """A trainer whose linear layers add the terms of a gradient or of an output in another order."""
    add = SUMS[order]

    class Summed:
        def forward(self: Any, n: int) -> None:
            super().forward(n)  # type: ignore[misc]
            if where == "outputs":
                t = self.buffers
                t.y[:n] = add(np.stack([t.x[:n, i, None] * t.w[None, :, i] for i in range(t.w.shape[1])])) + t.b

        def backward(self: Any, n: int) -> None:
            super().backward(n)  # type: ignore[misc]
            t = self.buffers
            if where == "gradients":
                t.dw[...] = add(t.dy[:n, :, None] * t.x[:n, None, :])
                t.db[...] = add(t.dy[:n])
            if where == "inputs" and t.dx is not None:
                t.dx[:n] = add(np.stack([t.dy[:n, o, None] * t.w[None, o] for o in range(t.w.shape[0])]))

    return mixed(Linear, Summed, "numpy")


class LogSoftmax:
    """Softmax as exp(x - log(sum(exp(x))))."""

    def backward(self: Any, n: int) -> None:
        super().backward(n)  # type: ignore[misc]
        x, dx = self.x[:n], self.dx[:n]
        with np.errstate(all="ignore"):
            top = x.max(axis=1, keepdims=True)
            shifted = x - top
            dx[...] = np.exp(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
        dx[np.arange(n), self.target[:n]] -= 1
        dx /= dx.dtype.type(n)


class MultipliesByAMask:
    """ReLU's gradient as a product with 0 or 1."""

    def backward(self: Any, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            np.multiply(t.dy[:n], t.y[:n] > 0, out=t.dx[:n])


#: Honest trainers by name, and the loss of the nets that they apply to.
HONEST_OPERATIONS: dict[str, tuple[Build, type | None]] = {
    **{
        f"{where} summed {order}": (summed(order, where), None)
        for where in ("outputs", "gradients", "inputs")
        for order in SUMS
    },
    "log-softmax": (mixed(CrossEntropyLoss, LogSoftmax, "numpy"), CrossEntropyLoss),
    "ReLU by a mask": (mixed(ReLU, MultipliesByAMask, "numpy"), None),
    "numpy again": (mixed(ReLU, Nothing, "numpy"), None),
    "loops again": (mixed(ReLU, Nothing, "loops"), None),
    "kernels again": (_SAME, None),
}
