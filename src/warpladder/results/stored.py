"""`ResultsFile`: the JSON file of a frozen dataclass, written atomically and checked when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from ..errors import ResultsError
from ..files.atomic import write_atomically
from ..files.whole import read_whole
from .reader import DIRECTION, read, read_json, short


class ResultsFile:
    """Base class of results with a JSON file: an object with the dataclass's fields and a schema.

    SCHEMA : number, increased when a field is removed, changes its meaning, or is added without a default.
    KIND : name of the file in messages. AGAIN : action that replaces a file of another schema.
    MARKS : fields that identify a file of this kind.
    """

    SCHEMA: ClassVar[int] = 1
    KIND: ClassVar[str]
    AGAIN: ClassVar[str]
    MARKS: ClassVar[tuple[str, ...]] = ("schema",)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file atomically: an old file is replaced only by a complete new one."""
        write_atomically(path, json.dumps(self.to_tree(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the file that `save` wrote.

        Raises
        ------
        ResultsError
            One line with the file and its first fault.
        """
        with reading(path) as tree:
            return cls.from_tree(tree)

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Results from the bytes of a file. Raises `ResultsError` with the first fault."""
        return cls.from_tree(read_json(raw))

    @classmethod
    def is_kind(cls, tree: Any) -> bool:
        """True if a JSON tree has the marks of this kind of file."""
        return isinstance(tree, dict) and all(name in tree for name in cls.MARKS)

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Results from a JSON tree. Raises `ResultsError` with the first fault."""
        if not cls.is_kind(tree):
            raise ResultsError(f"is not {cls.KIND}")
        schema = tree.get("schema")
        if schema != cls.SCHEMA or isinstance(schema, (bool, float)):
            raise ResultsError(f"has schema {short(schema)}, this warpladder reads {cls.SCHEMA}: {cls.AGAIN} again")
        if "schema" not in {field.name for field in fields(cls)}:  # type: ignore[arg-type]
            tree = {name: value for name, value in tree.items() if name != "schema"}
        return read(cls, tree, "")

    def to_tree(self) -> dict[str, Any]:
        """JSON tree of all fields."""
        return {"schema": self.SCHEMA, **to_tree(self)}


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Context with the JSON tree of a file; errors in it name the file."""
    try:
        yield read_json(read_whole(path))
    except OSError as error:
        inner = Path(path) / "results.json"
        hint = f": name the results in it, {inner}" if inner.is_file() else ""
        raise ResultsError(f"{os.fspath(path)}: {error.strerror or error}{hint}") from None
    except ResultsError as error:
        raise ResultsError(f"{os.fspath(path)}: {error}") from None


def to_tree(value: Any) -> Any:
    """JSON tree of a dataclass, without the fields that only direct how it is made (`DIRECTION`)."""
    if is_dataclass(value):
        return {
            field.name: to_tree(getattr(value, field.name))
            for field in fields(value)
            if field.metadata.get("only") != DIRECTION
        }
    if isinstance(value, dict):
        return {key: to_tree(each) for key, each in value.items()}
    return [to_tree(each) for each in value] if isinstance(value, (tuple, list)) else value
