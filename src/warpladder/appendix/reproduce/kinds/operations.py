"""Experiments that time single operations of a perceptron's training step, each as one array expression, in NumPy and
CuPy.

A rung fuses neighbouring operations, for example a product and its bias. Here each operation runs alone, as a report
lists it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from ..experiments import Bench, Experiment, Found, keep, no_measure, read_stored
from ..results import Value

#: Array libraries: NumPy on one core, NumPy on every core, and CuPy on the GPU.
LIBRARIES = ("numpy:threads=1", "numpy", "cupy")

RATE = np.float32(1e-6)  # rate of the update: small, so that weights stay finite after many repetitions

ROUNDS, LEAST = 9, 2e-2  # number of measurements, and seconds of each: other programs disturb shorter ones


@dataclass(frozen=True)
class Operations(Experiment):
    """Experiment that times the operations of a training step of a perceptron with one hidden layer.

    batch, inputs, hidden, classes : samples, and widths of the layers. libraries : array libraries, of `LIBRARIES`.
    """

    kind: ClassVar[str] = "operations"
    batch: int
    inputs: int
    hidden: int
    classes: int
    libraries: tuple[str, ...] = LIBRARIES

    def measure(self, name: str, bench: Bench) -> None:
        from ....trainers.kernelwise.where import why_not_cupy

        seconds: dict[str, dict[str, float]] = {}
        reasons: dict[str, str] = {}
        for library in self.libraries:
            if library == "cupy" and (reason := why_not_cupy()):
                reasons[library] = reason
                bench.watcher.news(f"{library}: not here: {reason}")
                continue
            seconds[library] = self._timed(library)
            bench.watcher.news(
                f"{library}: {', '.join(f'{what} {1e6 * time:.3g} us' for what, time in seconds[library].items())}"
            )
        keep({"seconds": seconds, "reasons": reasons}, name, bench.folder)

    def _timed(self, library: str) -> dict[str, float]:
        if library == "cupy":
            import cupy as xp

            return {
                what: clocked(work, xp.cuda.get_current_stream().synchronize)
                for what, work in self.works(xp, self.tensors(xp)).items()
            }
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        with threadpool_limits(1, user_api="blas") if library.endswith("threads=1") else nullcontext():
            return {what: clocked(work, lambda: None) for what, work in self.works(np, self.tensors(np)).items()}

    def tensors(self, xp: Any) -> dict[str, Any]:
        """Arrays of a step, by their names in the report's equations."""
        rng = np.random.default_rng(0)
        batch, inputs, hidden, classes = self.batch, self.inputs, self.hidden, self.classes
        shapes = {
            "x": (batch, inputs), "w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, classes), "z": (batch,
            hidden), "h": (batch, hidden),
            "dh": (batch, hidden), "out": (batch, classes), "p": (batch, classes), "dz": (batch, classes),
            "top": (batch, 1),
            "dw1": (inputs, hidden), "dw2": (hidden, classes), "db1": (hidden,), "step": (inputs, hidden),
        }  # fmt: skip
        made = {name: xp.asarray(rng.random(shape, np.float32) - np.float32(0.5)) for name, shape in shapes.items()}
        big = xp.zeros(STRIDE * COPIED, np.float32)
        views = {"dense": big[:COPIED], "strided": big[::STRIDE], "copy": xp.zeros(COPIED, np.float32)}
        return made | {"mask": xp.zeros((batch, hidden), bool)} | views

    def works(self, xp: Any, t: dict[str, Any]) -> dict[str, Callable[[], object]]:
        """Functions that compute each operation, by its name; their results are written into existing arrays."""
        x, w1, b1, w2, z, h, dh, out, p, dz, top, dw1, dw2, db1, step, mask, dense, strided, copy = t.values()

        def multiply() -> None:
            xp.matmul(x, w1, out=z)
            xp.matmul(h, w2, out=out)
            xp.matmul(h.T, dz, out=dw2)
            xp.matmul(dz, w2.T, out=dh)
            xp.matmul(x.T, dh, out=dw1)

        def relu_mask() -> None:
            xp.greater(z, 0, out=mask)
            xp.multiply(dh, mask, out=dh)

        def softmax() -> None:
            xp.max(out, axis=1, keepdims=True, out=top)
            xp.subtract(out, top, out=p)
            xp.exp(p, out=p)
            xp.sum(p, axis=1, keepdims=True, out=top)
            xp.divide(p, top, out=p)

        def update() -> None:
            xp.multiply(dw1, RATE, out=step)
            xp.subtract(w1, step, out=w1)

        return {
            "matmul": multiply,
            "bias": lambda: xp.add(z, b1, out=z),
            "relu": lambda: xp.maximum(z, np.float32(0), out=h),
            "relu_backward": relu_mask,
            "softmax": softmax,
            "bias_gradient": lambda: xp.sum(dh, axis=0, out=db1),
            "update": update,
            "copy": lambda: xp.copyto(copy, dense),
            "strided_copy": lambda: xp.copyto(copy, strided),
        }

    def found(self, name: str, folder: Path) -> OperationsFound | None:
        return read_stored(OperationsFound, name, folder)

    def check(self, rung: str, measure: str) -> None:
        if measure not in NAMES or rung not in self.libraries:
            raise no_measure(f"{rung} {measure}", (*NAMES, "of", *self.libraries))


#: Numbers to copy, and the stride of the strided copy: 64 bytes, a cache line.
COPIED, STRIDE = 2**22, 16

NAMES = (
    "matmul", "bias", "relu", "relu_backward", "softmax", "bias_gradient", "update", "copy", "strided_copy",
)  # fmt: skip


def clocked(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of an operation, called repeatedly without waiting for each result: the median of several
    measurements.
    """

    def measured(repeats: int) -> float:
        wait()
        start = perf_counter()
        for _ in range(repeats):
            work()
        wait()
        return (perf_counter() - start) / repeats

    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        measured(2)
        repeats = max(1, round(LEAST / max(measured(2), 1e-8)))
        return statistics.median(measured(repeats) for _ in range(ROUNDS))


@dataclass(frozen=True)
class OperationsFound(Found):
    """Seconds of each operation by library, and reasons for libraries without times."""

    seconds: dict[str, dict[str, float]]
    reasons: dict[str, str]

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of a library: seconds of an operation, one of `NAMES`."""
        if measure not in NAMES:
            raise no_measure(measure, NAMES)
        found = self.seconds.get(rung, {}).get(measure)
        return None if found is None else Value(here=found)

    def is_time(self, measure: str) -> bool:
        return True

    def reason(self, rung: str) -> str:
        return self.reasons.get(rung, "")
