"""`Sweep`: what a climb of several tasks found, one `Results` for each, and its JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import ResultsError
from ..files.atomic import write_atomically
from . import SCHEMA, Results, check_schema, from_tree, read_file
from .reader import read_json


@dataclass(frozen=True, repr=False)
class Sweep:
    """The climbs of several tasks, by what is swept.

    headings : what each task is trained with, "batch_size=32, limit=1000", in order, also of those that were not
    reached; "" where nothing was swept.
    tasks : the climbs of the tasks that were begun: the last may have been stopped, and those behind it are missing.
    """

    schema: int
    headings: tuple[str, ...]
    tasks: tuple[Results, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.tasks) <= len(self.headings):
            raise ResultsError(
                f"a sweep wants a heading for each of its climbs, got {len(self.headings)} headings and {len(self.tasks)} climbs"
            )
        if len(set(self.headings)) != len(self.headings):
            raise ResultsError("headings: two are the same")

    def items(self) -> list[tuple[str, Results]]:
        """Heading and climb of each task that was begun."""
        return list(zip(self.headings, self.tasks, strict=False))

    @property
    def missing(self) -> tuple[str, ...]:
        """Headings of the tasks that were not reached."""
        return self.headings[len(self.tasks) :]

    def table(self) -> str:
        """The tables of the command line as text: one for each task below its heading, and one of all times."""
        from .text.sweep import as_plain

        return as_plain(self)

    def __repr__(self) -> str:
        return self.table()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file: the old one stays whole until the new one is on the disk."""
        write_atomically(path, json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def load(path: str | os.PathLike[str]) -> Sweep:
    """Read the results file of a climb with several tasks, or of one with a single task, whose heading is empty.

    Raises
    ------
    ResultsError
        As `warpladder.results.load` does.
    """
    return read_file(path, parse)


def parse(raw: bytes) -> Sweep:
    """Check the bytes of a results file and make a `Sweep` of them; `ResultsError` as in `load`."""
    tree = read_json(raw)
    check_schema(tree)
    if "tasks" not in tree:
        return Sweep(SCHEMA, ("",), (from_tree(tree),))
    if beyond := sorted(set(tree) - {"schema", "headings", "tasks"}):
        raise ResultsError(f"{beyond[0]!r:.40} is not a field of this schema")
    headings, tasks = tree.get("headings"), tree["tasks"]
    if not isinstance(headings, list) or not all(isinstance(each, str) and each.isprintable() for each in headings):
        raise ResultsError("headings wants a list of texts")
    if not isinstance(tasks, list):
        raise ResultsError("tasks wants a list")
    return Sweep(SCHEMA, tuple(headings), tuple(_task(at, each) for at, each in enumerate(tasks)))


def _task(at: int, tree: Any) -> Results:
    """One climb of the file, whose faults are told with its number."""
    try:
        check_schema(tree)
        return from_tree(tree)
    except ResultsError as error:
        raise ResultsError(f"tasks[{at}]: {error}") from None
