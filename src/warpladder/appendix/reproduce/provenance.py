"""Records of experiments: their time, date and commit, the load of other processes, and the data sets."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from ...data.dataset import Dataset
from ...errors import ResultsError
from ...files.atomic import write_atomically
from ...machine.facts import busy_seconds, own_seconds
from ...results.reader import read
from ...results.stored import reading
from .claims import Made

#: Name of the file of records in the folder of a reproduction.
RECORD = "provenance.json"


@dataclass(frozen=True)
class Record:
    """Records of experiments by name, and the SHA-256 of the arrays of each data set."""

    experiments: dict[str, Made]
    data: dict[str, str]


class Provenance:
    """Records in a reproduction's folder, read at creation and written after each change; a damaged file is replaced.

    experiments, data : see `Record`.
    """

    def __init__(self, folder: Path, commit: str | None) -> None:
        self.path, self.commit = folder / RECORD, commit
        self.experiments: dict[str, Made] = {}
        self.data: dict[str, str] = {}
        if self.path.exists():
            with suppress(ResultsError), reading(self.path) as tree:
                stored: Record = read(Record, tree, "")
                self.experiments, self.data = dict(stored.experiments), dict(stored.data)

    @contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Context that times one measurement of an experiment and adds the seconds to those of earlier runs."""
        before, start = (busy_seconds(), own_seconds()), perf_counter()
        try:
            yield
        finally:
            seconds, busy, others = perf_counter() - start, busy_seconds(), None
            if busy is not None and before[0] is not None and seconds > 0:
                others = max(0.0, busy - before[0] - (own_seconds() - before[1])) / seconds
            earlier = self.experiments.get(name)
            created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self.experiments[name] = Made(
                seconds + (earlier.seconds if earlier else 0.0), created, self.commit, others,
                1 + (earlier.times if earlier else 0), disturbed=False,
            )  # fmt: skip
            self._write()

    def note(self, name: str, **changes: object) -> None:
        """Change fields of an experiment's record."""
        if name in self.experiments:
            self.experiments[name] = replace(self.experiments[name], **changes)  # type: ignore[arg-type]
            self._write()

    def note_data(self, name: str, data: Dataset) -> None:
        """Store the checksum of a data set that was loaded whole."""
        if name not in self.data:
            self.data[name] = checksum(data)
            self._write()

    def forget(self, name: str) -> None:
        """Remove the record of an experiment that begins anew."""
        if self.experiments.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        write_atomically(self.path, json.dumps(asdict(Record(self.experiments, self.data)), indent=1) + "\n")


def checksum(data: Dataset) -> str:
    """SHA-256 of a data set's arrays: training samples, training labels, test samples, test labels."""
    digest = hashlib.sha256()
    for array in (data.train_x, data.train_y, data.test_x, data.test_y):
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
