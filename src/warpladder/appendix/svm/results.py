"""What a support vector machine on features was found to do, as frozen data, and its JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...errors import ResultsError
from ...files.atomic import write_atomically
from ...results import Machine
from ...results.classes import ClassScores
from ...results.reader import LATER, read, read_json

#: Grows whenever a field is removed or changes its meaning.
SVM_SCHEMA = 1


@dataclass(frozen=True)
class SvmResults:
    """A support vector machine with an RBF kernel, fitted and scored.

    command : repeats it; empty where it was called from Python.
    machine : what it ran on.
    train, test : where the features come from.
    train_samples, test_samples, width, classes : sizes; width is the number of features of a sample.
    C, gamma, gamma_setting : what a sample on the wrong side costs, the kernel's gamma, and how that was asked for.
    method : "sklearn" or "blocks". precision : of the products that the kernel is made of. device : what computed the
    kernel.
    threads : CPU threads. workers : pairs of classes fitted at a time.
    support_vectors : training samples that are some.
    train_accuracy, test_accuracy : shares from 0 to 1.
    scores : of each class, on the test samples.
    seconds : wall time by stage, "read", "scale", "gram", "fit" and "predict".
    predicted_bytes : memory that was predicted for the arrays before any was taken. peak_bytes : the process's largest
    resident set.
    scaling : what was done to the features first, "standard" or "none".
    """

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
    scaling: str = field(default="standard", metadata=LATER)

    def __post_init__(self) -> None:
        if not (0 <= self.train_accuracy <= 1 and 0 <= self.test_accuracy <= 1):
            raise ResultsError("accuracies are shares from 0 to 1")
        if min(self.train_samples, self.test_samples, self.width, self.threads, self.workers) < 1 or self.classes < 2:
            raise ResultsError("a support vector machine wants samples, features, a thread, and two classes at least")

    @property
    def total_seconds(self) -> float:
        """All stages."""
        return sum(self.seconds.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file, whole or not at all; `OSError` names it."""
        write_atomically(path, json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")


def load_svm(path: str | os.PathLike[str]) -> SvmResults:
    """Read what `SvmResults.save` wrote.

    Raises
    ------
    ResultsError
        The file is missing, damaged or of another version.
    """
    try:
        tree = read_json(Path(path).read_bytes())
        if isinstance(tree, dict) and tree.get("schema") != SVM_SCHEMA:
            raise ResultsError(f"is of version {tree.get('schema')!r:.20} where {SVM_SCHEMA} is wanted")
        return read(SvmResults, tree, "")
    except OSError as error:
        raise ResultsError(f"{os.fspath(path)!r} cannot be read: {error.strerror or error}") from None
    except ResultsError as error:
        raise ResultsError(f"{os.fspath(path)!r}: {error}") from None
