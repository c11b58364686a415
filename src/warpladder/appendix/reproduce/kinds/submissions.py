"""Experiments with Kaggle's files: MNIST in the format of digit-recognizer, read, trained on, and a submission
scored by the known labels.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import ClassVar

import numpy as np

from ....data import load, write_submission
from ....data.dataset import Dataset
from ....errors import ConfigError, DataError
from ....ladder import find
from ....train import train
from ..experiments import Bench, Found, TrainingTask, canonical, keep, no_measure, read_stored
from ..results import Value

#: Lines written at a time.
LINES = 2000


@dataclass(frozen=True)
class Submission(TrainingTask):
    """Experiment that trains from a CSV table and writes a submission, with the first of its rungs that can train.

    rows, tests : labelled rows of train.csv, and rows of test.csv, which has no labels; drawn with seed 0 from all
    samples of the data set.
    validation : rows of train.csv that are not trained on.
    """

    kind: ClassVar[str] = "submissions"
    rows: int = 42000
    tests: int = 28000

    def measure(self, name: str, bench: Bench) -> None:
        with TemporaryDirectory() as place:
            folder = Path(place)
            made = replace(self, validation=0).dataset(bench)
            start = perf_counter()
            labels = write_tables(made, self.rows, self.tests, folder)
            wrote = perf_counter() - start
            bench.watcher.news(
                f"train.csv with {self.rows:,} rows and test.csv with {self.tests:,}: written in {wrote:.3g} s"
            )
            sizes = [(folder / file).stat().st_size for file in ("train.csv", "test.csv")]
            start = perf_counter()
            data = load("csv", data_dir=folder, validation=self.validation, progress=False)
            seconds = perf_counter() - start
            net = bench.net(self.net, data)
            rung = next((each for each in map(find, self.rungs) if not each.unsupported(net, self.config)), None)
            if rung is None:
                raise ConfigError(f"{name}: none of {', '.join(self.rungs)} can train {net.name} here")
            run = train(net, data, self.config, rung=rung, progress=False)
            write_submission(folder / "submission.csv", run.predict(data.test_x))
            right = score(folder / "submission.csv", labels)
            last = run.history[-1]
            found = Submitted(
                canonical(rung.name), len(data.train_x) + self.validation, len(data.train_x), len(data.test_x),
                sizes[0], sizes[1], seconds,
                sum(log.seconds for log in run.history), float(last.valid_accuracy or 0.0), len(labels),
                right / len(labels),
            )  # fmt: skip
        keep(asdict(found), name, bench.folder)
        bench.watcher.news(f"{found.rung}: {right:,} of {len(labels):,} lines of the submission are right")

    def check(self, rung: str, measure: str) -> None:
        self.check_measure(measure)

    def check_measure(self, measure: str) -> None:
        if measure not in MEASURES:
            raise no_measure(measure, MEASURES)

    def found(self, name: str, folder: Path) -> Submitted | None:
        return read_stored(Submitted, name, folder)


def write_tables(data: Dataset, rows: int, tests: int, folder: Path) -> np.ndarray:
    """Write train.csv and test.csv in Kaggle's format; return the labels (tests,) of the test rows, which test.csv
    lacks.

    Raises
    ------
    DataError
        The data set has fewer samples, or no labels.
    """
    if data.train_y is None or data.test_y is None:
        raise DataError(f"{data.name} has no labels")
    x, y = np.concatenate([data.train_x, data.test_x]), np.concatenate([data.train_y, data.test_y])
    if rows + tests > len(x):
        raise DataError(f"{data.name} has {len(x):,} samples, and {rows:,} and {tests:,} are wanted")
    chosen = np.random.default_rng(0).permutation(len(x))[: rows + tests]
    flat = x[chosen].reshape(len(chosen), -1)
    pixels = [f"pixel{at}" for at in range(flat.shape[1])]
    _write(folder / "train.csv", ["label", *pixels], np.column_stack([y[chosen[:rows]].astype(np.uint8), flat[:rows]]))
    _write(folder / "test.csv", pixels, flat[rows:])
    return np.asarray(y[chosen[rows:]])


def _write(path: Path, head: list[str], cells: np.ndarray) -> None:
    """Write a table of bytes as CSV."""
    texts = [str(value) for value in range(256)]
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(",".join(head) + "\n")
        for first in range(0, len(cells), LINES):
            file.writelines(
                ",".join(map(texts.__getitem__, row.tobytes())) + "\n" for row in cells[first : first + LINES]
            )


def score(path: Path, labels: np.ndarray) -> int:
    """Number of right labels in a submission.

    Raises
    ------
    DataError
        Its first line is not ImageId,Label, or its lines are not numbered from 1 to the number of labels.
    """
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    if lines[:1] != [["ImageId", "Label"]] or [line[0] for line in lines[1:]] != [
        str(at) for at in range(1, len(labels) + 1)
    ]:
        raise DataError(f"{path}: is no submission of {len(labels):,} images")
    return sum(int(line[1]) == label for line, label in zip(lines[1:], labels, strict=True))


@dataclass(frozen=True)
class Submitted(Found):
    """Outcome of a submission: rows read, trained on and predicted; bytes of both tables; seconds to read and to train;
    shares of right answers.
    """

    rung: str
    rows: int
    trained: int
    tests: int
    train_bytes: int
    test_bytes: int
    read_seconds: float
    train_seconds: float
    valid_accuracy: float
    lines: int
    accuracy: float

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of the submission by the name of its field."""
        if measure not in MEASURES:
            raise no_measure(measure, MEASURES)
        return Value(here=float(getattr(self, measure)))

    def name_of(self, rung: str) -> str:
        return self.rung


MEASURES = tuple(each.name for each in fields(Submitted) if each.name != "rung")
