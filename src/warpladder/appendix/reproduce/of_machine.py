"""Figures of the machine that measures, in the form of an experiment's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...results import Machine
from .experiments import Found
from .results import Value

#: Name of the machine's own figures, used as the name of an experiment.
MACHINE = "machine"


@dataclass(frozen=True)
class OfMachine(Found):
    """Figures of the machine, by the names of fields of `Machine` and, with the prefix "gpu_", of `Gpu`."""

    machine: Machine

    def value(self, rung: str, measure: str) -> Value | None:
        owner: Any = self.machine.gpu if measure.startswith("gpu_") else self.machine
        found = getattr(owner, measure.removeprefix("gpu_"), None)
        return Value(here=float(found)) if isinstance(found, (int, float)) else None

    def reason(self, rung: str) -> str:
        return "no GPU is here" if self.machine.gpu is None else ""
