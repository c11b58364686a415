"""Loops rung: compiled loops on one CPU thread."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import TrainConfig
from ..machine.precision import named
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import FP64, Options, option
from .reasons import of_loops


@dataclass(frozen=True)
class LoopsOptions(Options):
    """Options of the loops rung.

    precision : "fp64" for float64 parameters, activations, gradients and slots; None is fp32 with float64 sums.
    """

    precision: str | None = option(*FP64)


def build(net: Net, config: TrainConfig, state: State, options: LoopsOptions = LoopsOptions()) -> Trainer:
    from ..ops.tables.loops import TABLE
    from ..trainers.layerwise import LayerwiseTrainer

    return LayerwiseTrainer(net, config, state, TABLE, dtype=named(options.precision or "fp32").element)


def vary(rung: Rung, options: LoopsOptions) -> dict[str, str]:
    """Title, idea and precision of the rung with these options, as fields of `Rung`."""
    if options.precision != "fp64":
        return {}
    idea = f"{rung.idea[:-1]}; every number in float64."
    return {"title": f"{rung.title}, in fp64", "idea": idea, "precision": "fp64"}


RUNG = Rung(
    name="loops",
    title="nested loops, compiled, one thread",
    idea="Every sum is the loop that its formula describes, compiled as it stands: no blocking, no vector "
    "instructions required, one core.",
    build=build,
    unsupported=of_loops,
    options=LoopsOptions(),
    proof_flops=1e8,
    vary=vary,
)
