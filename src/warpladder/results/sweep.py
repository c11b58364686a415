"""`Sweep`: results of a climb of several tasks, a `Results` for each, with a JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ..errors import ResultsError
from .climb import Results
from .stored import ResultsFile


@dataclass(frozen=True, repr=False)
class Sweep(ResultsFile):
    """Results of climbs of several tasks, one for each value of a setting.

    headings : settings of each task, "batch_size=32, limit=1000", in order, with those of tasks not begun; "" without a
    sweep.
    tasks : climbs of the tasks that were begun. The last may be incomplete; later ones are missing.
    """

    KIND: ClassVar[str] = "a results file of a climb: it has no schema"
    AGAIN: ClassVar[str] = "run the climb"

    schema: int
    headings: tuple[str, ...]
    tasks: tuple[Results, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.tasks) <= len(self.headings):
            raise ResultsError(
                "a sweep wants a heading for each of its climbs, "
                f"got {len(self.headings)} headings and {len(self.tasks)} climbs"
            )
        if len(set(self.headings)) != len(self.headings):
            raise ResultsError("headings: two are the same")
        for at, task in enumerate(self.tasks):
            if task.schema != Results.SCHEMA:
                raise ResultsError(f"tasks[{at}]: has schema {task.schema}, this warpladder reads {Results.SCHEMA}")

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Sweep from a JSON tree; a climb of a single task has an empty heading."""
        if isinstance(tree, dict) and "tasks" not in tree:
            return cls(cls.SCHEMA, ("",), (Results.from_tree(tree),))
        return super().from_tree(tree)

    def items(self) -> list[tuple[str, Results]]:
        """Heading and climb of each task that was begun."""
        return list(zip(self.headings, self.tasks, strict=False))

    @property
    def missing(self) -> tuple[str, ...]:
        """Headings of the tasks that were not begun."""
        return self.headings[len(self.tasks) :]

    def table(self) -> str:
        """Tables as text: one for each task below its heading, and one of all times."""
        from .text.sweep import as_plain

        return as_plain(self)

    def __repr__(self) -> str:
        return self.table()
