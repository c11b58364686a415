"""Training runs from the initial weights to the last epoch, for each rung and seed, as frozen data with a JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ....results import DataFacts, History, NetFacts, Setting
from ....results.stored import ResultsFile


@dataclass(frozen=True)
class Trained:
    """Training run of one rung with one seed.

    rung : name of the rung or peer. seed : seed of the initial weights and the order of samples.
    precision : precision of the rung's products.
    history : loss, accuracy and seconds of each epoch.
    valid_loss, valid_accuracy : figures of each epoch on the validation samples; None without validation samples.
    test_loss, test_accuracy : figures after the last epoch; accuracy is None for a net without classes.
    test_seconds : seconds of one pass over the test samples; None if not timed.
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
        """Wall time of all epochs in seconds."""
        return sum(self.history.seconds)


@dataclass(frozen=True)
class Trainings(ResultsFile):
    """Training runs of one net on one data set, with the same settings but different seeds and rungs.

    config : settings from `TrainConfig.as_dict`; the seed is the first run's.
    whole : True if every possible run was made. reasons : reasons for rungs without a run, by name.
    kept : number and bytes of the stored weight files of a rung's first seed, by name.
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
        """Runs of one rung, sorted by seed."""
        return sorted((run for run in self.runs if run.rung == rung), key=lambda run: run.seed)
