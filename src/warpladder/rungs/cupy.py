"""Cupy rung: array expressions of NumPy's form on the GPU, by CuPy."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .reasons import of_layers


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    import cupy

    from ..ops.tables.array import TABLE
    from ..trainers.layerwise import LayerwiseTrainer

    return LayerwiseTrainer(net, config, state, TABLE, xp=cupy)


def unsupported(net: Net, config: TrainConfig) -> str | None:
    """Reason why the cupy rung cannot train, such as a missing CuPy or GPU; None if it can."""
    from ..trainers.kernelwise.where import why_not_cupy

    return of_layers(net, "array.py") or config.optimizer.lacks("array.py") or why_not_cupy()


RUNG = Rung(
    name="cupy",
    title="the array expressions, on the GPU",
    idea="The numpy rung's code as it stands, with CuPy's arrays: every expression is a kernel, products "
    "go to cuBLAS, the data set is on the GPU.",
    build=build,
    unsupported=unsupported,
)
