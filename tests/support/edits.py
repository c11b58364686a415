"""Edits of a kernel's source by text, wherever its lines are wrapped: how a test plants a fault."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from warpladder.device import source as sources


def _pattern(before: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, before.split())))


def occurrences(text: str, before: str) -> int:
    """Number of places in a source that read like `before`, line breaks and indentation aside."""
    return len(_pattern(before).findall(text))


def edited(text: str, before: str, after: str) -> str:
    """The source with `after` in the place of everything that reads like `before`."""
    return _pattern(before).sub(lambda _: after, text)


def planted(monkeypatch: pytest.MonkeyPatch, before: str, after: str, once: bool = False) -> None:
    """Edit every assembled kernel's source, which must have the text `before`: exactly once with `once`."""
    real = sources.assembled

    def assembled(path: Path, text: str) -> sources.KernelSource:
        found = real(path, text)
        places = occurrences(found.text, before)
        assert places == 1 if once else places >= 1, before
        return replace(found, text=edited(found.text, before, after))

    monkeypatch.setattr(sources, "assembled", assembled)
