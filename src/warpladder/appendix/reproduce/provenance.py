"""How experiments were made: how long they took, when, with which commit, how busy other processes were, and on which
data.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
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

#: Names of the files, in the folder of what is measured.
MADE, DATA = "made.json", "data.json"


class Provenance:
    """The record of a folder, read when it is made and written after each change.

    experiments : by name. data : SHA-256 of the arrays of each data set, by name.
    """

    def __init__(self, folder: Path, commit: str | None) -> None:
        self.folder, self.commit = folder, commit
        self.experiments: dict[str, Made] = _stored(folder / MADE, dict[str, Made])
        self.data: dict[str, str] = _stored(folder / DATA, dict[str, str])

    @contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Context of one measurement of an experiment: its time is added to that of earlier runs."""
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
            self._write(MADE, {each: asdict(made) for each, made in self.experiments.items()})

    def note(self, name: str, **changes: object) -> None:
        """Change what is known of an experiment."""
        if name in self.experiments:
            self.experiments[name] = replace(self.experiments[name], **changes)  # type: ignore[arg-type]
            self._write(MADE, {each: asdict(made) for each, made in self.experiments.items()})

    def note_data(self, name: str, data: Dataset) -> None:
        """Keep the checksum of a data set that was loaded whole."""
        if name not in self.data:
            self.data[name] = checksum(data)
            self._write(DATA, self.data)

    def forget(self, name: str) -> None:
        """Drop what is known of an experiment that is begun anew."""
        if self.experiments.pop(name, None) is not None:
            self._write(MADE, {each: asdict(made) for each, made in self.experiments.items()})

    def _write(self, name: str, tree: object) -> None:
        write_atomically(self.folder / name, json.dumps(tree, indent=1) + "\n")


def checksum(data: Dataset) -> str:
    """SHA-256 of a data set's arrays, training samples first, then their labels, then those of the test."""
    digest = hashlib.sha256()
    for array in (data.train_x, data.train_y, data.test_x, data.test_y):
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _stored(path: Path, kind: type) -> dict:
    """A dictionary from its file; empty where there is none, or a damaged one, which says nothing of the figures."""
    if not path.exists():
        return {}
    try:
        with reading(path) as tree:
            return read(kind, tree, "")  # type: ignore[no-any-return]
    except ResultsError:
        return {}
