"""Edits of a kernel's source by text, wherever its lines are wrapped: how a test plants a fault."""

from __future__ import annotations

import re


def _pattern(before: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, before.split())))


def occurrences(text: str, before: str) -> int:
    """Number of places in a source that read like `before`, line breaks and indentation aside."""
    return len(_pattern(before).findall(text))


def edited(text: str, before: str, after: str) -> str:
    """The source with `after` in the place of everything that reads like `before`."""
    return _pattern(before).sub(lambda _: after, text)
