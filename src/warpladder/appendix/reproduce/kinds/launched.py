"""Launches of the kernels of a training step by several rungs, as frozen data with a JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....results.profiled import LaunchShape
from ....results.stored import ResultsFile


@dataclass(frozen=True)
class Launched:
    """Launch or library call of a training step.

    phase : "feed", "forward", "loss", "backward", "update", or "step" for the whole step.
    kernel : name of the kernel, or of the library call.
    shape : grid, block and resources; None for a library call, which does not report them.
    """

    phase: str
    kernel: str
    shape: LaunchShape | None


@dataclass(frozen=True)
class Launches(ResultsFile):
    """Launches of a training step of a full batch, by rung.

    device : GPU for which the kernels are compiled. here : True if this machine has the GPU; if not, nothing ran,
    and the shapes are from the compiler.
    rungs : launches in order, by the rung's name. reasons : reasons for rungs without launches, by name.
    """

    KIND: ClassVar[str] = "a file of launches"
    AGAIN: ClassVar[str] = "look at the launches"
    MARKS: ClassVar[tuple[str, ...]] = ("rungs", "here")

    schema: int
    device: str
    here: bool
    rungs: dict[str, tuple[Launched, ...]]
    reasons: dict[str, str]
