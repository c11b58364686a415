"""Numpy rung: array expressions on BLAS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..config import TrainConfig
from ..machine.precision import named
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import FP64, SUMS, THREADS, Options, option
from .reasons import of_arrays

if TYPE_CHECKING:
    from ..ops.engine.base import OpTable


@dataclass(frozen=True)
class NumpyOptions(Options):
    """Options of the numpy rung.

    threads : CPU threads of BLAS, 1 to the number of cores; None takes every core that this process may use.
    precision : "fp64" for float64 parameters, activations, gradients and slots; None is fp32.
    sums : "fp64" adds the gradients of a batch's samples in float64 and rounds them once; None adds in `precision`.
    """

    threads: int | None = option(*THREADS)
    precision: str | None = option(*FP64)
    sums: str | None = option(*SUMS)


def build(
    net: Net, config: TrainConfig, state: State, options: NumpyOptions = NumpyOptions(), table: OpTable | None = None
) -> Trainer:
    """Trainer of the numpy rung; `table` has the implementation of each operation, by default the rung's own."""
    from ..ops.tables.array import TABLE
    from ..trainers.layerwise import LayerwiseTrainer

    limit: Callable[[], AbstractContextManager] = nullcontext
    if options.threads is not None:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        limit = partial(ThreadpoolController().limit, limits=options.threads, user_api="blas")
    sums = None if options.sums is None else named(options.sums).element
    return LayerwiseTrainer(
        net, config, state, table or TABLE, around=limit, dtype=named(options.precision or "fp32").element, sums=sums
    )


def unsupported(net: Net, config: TrainConfig, options: NumpyOptions = NumpyOptions()) -> str | None:
    """Reason why the numpy rung cannot train with these options; None if it can."""
    if options.precision == "fp64" and options.sums == "fp32":
        return "precision=fp64 adds in fp64: leave sums out"
    return of_arrays(net, config, options)


def vary(rung: Rung, options: NumpyOptions) -> dict[str, str]:
    """Title, idea, precision and sums of the rung with these options, as fields of `Rung`."""
    title, idea, sums = rung.title, rung.idea[:-1], options.sums or "fp32"
    if options.precision == "fp64":
        idea = f"{idea}; every number in float64."
        return {"title": f"{title}, in fp64", "idea": idea, "precision": "fp64", "sums": sums}
    if sums == "fp64":
        idea = f"{idea}; gradients are added over the batch in float64 and rounded once."
        return {"title": f"{title}, gradients summed in fp64", "idea": idea, "sums": sums}
    return {"sums": sums}


RUNG = Rung(
    name="numpy",
    title="array expressions on BLAS",
    idea="The same sums as whole-array expressions: matrix products go to BLAS, convolutions become matrix products.",
    build=build,
    unsupported=unsupported,
    options=NumpyOptions(),
    vary=vary,
)
