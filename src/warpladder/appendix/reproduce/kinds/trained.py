"""Training runs from the initial weights to the end, one for each rung and seed, as frozen data with a JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ....results import DataFacts, History, NetFacts, Setting
from ....results.stored import ResultsFile


@dataclass(frozen=True)
class Trained:
    """One training run.

    rung : name of the rung or peer. seed : of initial weights and order.
    precision : what the rung computes products in.
    history : loss, accuracy and seconds of each epoch.
    valid_loss, valid_accuracy : of each epoch, on the validation samples; None where there are none.
    test_loss, test_accuracy : after the last epoch; accuracy is None for a net without classes.
    test_seconds : of one pass over the test samples; None where it was not timed.
    """

    rung: str
    seed: int
    precision: str
    history: History
    valid_loss: tuple[float | None, ...] | None
    valid_accuracy: tuple[float | None, ...] | None
    test_loss: float | None
    test_accuracy: float | None
    test_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Of all epochs."""
        return sum(self.history.seconds)


@dataclass(frozen=True)
class Trainings(ResultsFile):
    """Training runs of one net on one data set with the same settings but for the seed.

    config : the settings as `TrainConfig.as_dict` gives them; the seed is that of the first run.
    whole : True if every run was made that could be. reasons : why a rung has no run, by its name.
    kept : number and bytes of the files of weights of a rung's first seed, by its name.
    """

    KIND: ClassVar[str] = "a file of trainings"
    AGAIN: ClassVar[str] = "train"
    MARKS: ClassVar[tuple[str, ...]] = ("runs",)

    schema: int
    created: str
    net: NetFacts
    data: DataFacts
    config: dict[str, Setting | dict[str, Setting]]
    epochs: int
    runs: tuple[Trained, ...]
    whole: bool
    reasons: dict[str, str]
    kept: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def find(self, rung: str) -> list[Trained]:
        """The runs of one rung, by seed."""
        return sorted((run for run in self.runs if run.rung == rung), key=lambda run: run.seed)
