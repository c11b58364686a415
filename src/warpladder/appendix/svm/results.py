"""Results of a support vector machine on features, as frozen data with a JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...errors import ResultsError
from ...results import Machine
from ...results.classes import ClassScores
from ...results.stored import ResultsFile


@dataclass(frozen=True)
class SvmResults(ResultsFile):
    """Results of a fitted and scored support vector machine with an RBF kernel.

    command : command that repeats it; empty if it was called from Python.
    machine : machine on which it ran.
    train, test : sources of the features.
    train_samples, test_samples, width, classes : sizes; width is the number of features of a sample.
    C, gamma, gamma_setting : cost of a sample on the wrong side, the kernel's gamma, and its setting.
    method : "sklearn" or "blocks". precision : precision of the kernel's products. device : device of the products.
    threads : CPU threads. workers : pairs of classes fitted concurrently.
    support_vectors : number of training samples that are support vectors.
    train_accuracy, test_accuracy : shares from 0 to 1.
    scores : scores of each class, on the test samples.
    seconds : wall time by stage, "read", "scale", "gram", "fit" and "predict".
    predicted_bytes : predicted memory of the arrays. peak_bytes : largest resident set of the process.
    scaling : scaling of the features, "standard" or "none".
    """

    KIND: ClassVar[str] = "a results file of a support vector machine"
    AGAIN: ClassVar[str] = "fit the machine"
    MARKS: ClassVar[tuple[str, ...]] = ("support_vectors",)

    schema: int
    created: str
    command: str
    machine: Machine
    train: str
    test: str
    train_samples: int
    test_samples: int
    width: int
    classes: int
    C: float
    gamma: float
    gamma_setting: str
    method: str
    precision: str
    device: str
    threads: int
    workers: int
    support_vectors: int
    train_accuracy: float
    test_accuracy: float
    scores: ClassScores
    seconds: dict[str, float]
    predicted_bytes: int
    peak_bytes: int
    scaling: str = "standard"

    def __post_init__(self) -> None:
        if not (0 <= self.train_accuracy <= 1 and 0 <= self.test_accuracy <= 1):
            raise ResultsError("accuracies are shares from 0 to 1")
        if min(self.train_samples, self.test_samples, self.width, self.threads, self.workers) < 1 or self.classes < 2:
            raise ResultsError("a support vector machine wants samples, features, a thread, and two classes at least")

    @property
    def total_seconds(self) -> float:
        """Wall time of all stages in seconds."""
        return sum(self.seconds.values())
