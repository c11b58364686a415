"""Trainings from the initial weights to their end, one for each rung and seed, as frozen data, and their JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ResultsError
from ...files.atomic import write_atomically
from ...results import DataFacts, NetFacts, Setting, read_file
from ...results.reader import read, read_json, short
from ...results.timing import History

#: Grows whenever a field is removed or changes its meaning.
TRAINED_SCHEMA = 1


@dataclass(frozen=True)
class Trained:
    """One training run.

    rung : name of the rung or peer. seed : of initial weights and order.
    precision : what the rung computes products in.
    history : loss, accuracy and seconds of each epoch.
    valid_loss, valid_accuracy : of each epoch, on the validation samples; None where there are none.
    test_loss, test_accuracy : after the last epoch; accuracy is None for a net without classes.
    """

    rung: str
    seed: int
    precision: str
    history: History
    valid_loss: tuple[float | None, ...] | None
    valid_accuracy: tuple[float | None, ...] | None
    test_loss: float | None
    test_accuracy: float | None

    @property
    def seconds(self) -> float:
        """Of all epochs."""
        return sum(self.history.seconds)


@dataclass(frozen=True)
class Trainings:
    """Training runs of one net on one data set with the same settings but for the seed.

    config : the settings as `TrainConfig.as_dict` gives them; the seed is that of the first run.
    whole : whether every run was made that could be. reasons : why a rung has no run, by its name.
    """

    schema: int
    created: str
    net: NetFacts
    data: DataFacts
    config: dict[str, Setting | dict[str, Setting]]
    epochs: int
    runs: tuple[Trained, ...]
    whole: bool
    reasons: dict[str, str]

    def find(self, rung: str) -> list[Trained]:
        """The runs of one rung, by seed."""
        return sorted((run for run in self.runs if run.rung == rung), key=lambda run: run.seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file: the old one stays whole until the new one is on the disk."""
        write_atomically(path, json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load_trainings(path: str | os.PathLike[str]) -> Trainings:
    """Read what `Trainings.save` wrote; `ResultsError` in one line that names the file."""
    return read_file(path, _parse)


def _parse(raw: bytes) -> Trainings:
    tree: Any = read_json(raw)
    if not isinstance(tree, dict) or tree.get("schema") != TRAINED_SCHEMA or "runs" not in tree:
        raise ResultsError(
            f"is no file of trainings of schema {TRAINED_SCHEMA}, its schema is {short(isinstance(tree, dict) and tree.get('schema'))}"
        )
    found: Trainings = read(Trainings, tree, "")
    return found
