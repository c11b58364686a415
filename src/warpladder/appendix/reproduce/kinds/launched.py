"""Launches of a training step's kernels on each of several rungs, as frozen data with a JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....results.profiled import LaunchShape
from ....results.stored import ResultsFile


@dataclass(frozen=True)
class Launched:
    """One call of a step.

    phase : "feed", "forward", "loss", "backward", "update", or "step" for all of it.
    kernel : name of the kernel, or of a library's call.
    shape : grid, block and resources; None for a library's call, which does not report them.
    """

    phase: str
    kernel: str
    shape: LaunchShape | None


@dataclass(frozen=True)
class Launches(ResultsFile):
    """Calls of a full batch's step, rung by rung.

    device : GPU that the kernels are compiled for. here : True if it is the GPU of this machine; if not, nothing ran,
    and the compiler states the shapes.
    rungs : calls in order, by the rung's name. reasons : why a rung has none, by its name.
    """

    KIND: ClassVar[str] = "a file of launches"
    AGAIN: ClassVar[str] = "look at the launches"
    MARKS: ClassVar[tuple[str, ...]] = ("rungs", "here")

    schema: int
    device: str
    here: bool
    rungs: dict[str, tuple[Launched, ...]]
    reasons: dict[str, str]
