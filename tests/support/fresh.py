"""A pytest plugin that hides what a fresh machine does not have: only what `pip install .[test]` brings can be
imported.

PYTHONPATH=tests python -m pytest -p fresh
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wanted(lines: Sequence[str], extra: str = "") -> Iterator[tuple[str, str]]:
    """Distributions that these requirements name on this machine, each with an extra of it, "" for the distribution
    alone.
    """
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield from ((canonicalize_name(requirement.name), each) for each in ("", *requirement.extras))


def brought() -> set[str]:
    """Distributions that come with warpladder and what its tests need, and with pip itself."""
    found: set[tuple[str, str]] = set()
    left = {("pip", ""), *wanted([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]])}
    while left:
        name, extra = here = left.pop()
        found.add(here)
        with suppress(metadata.PackageNotFoundError):
            left |= set(wanted(metadata.requires(name) or (), extra)) - found
    return {name for name, _ in found} | {canonicalize_name(PROJECT["name"])}


def hidden() -> set[str]:
    """Modules at the top that are installed here and would not be on a fresh machine."""
    kept = brought()
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if kept.isdisjoint(map(canonicalize_name, owners))
    }


HIDDEN = hidden()
_find_spec = PathFinder.find_spec


def find_spec(cls: type[PathFinder], name: str, *where: Any) -> ModuleSpec | None:
    return None if name.partition(".")[0] in HIDDEN else _find_spec(name, *where)


setattr(PathFinder, "find_spec", classmethod(find_spec))  # noqa: B010 - mypy lets nobody assign to a method
