"""Turns: of slow parameters that repeat a test which scripts/test runs, each change runs some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator

import pytest


def function_of(item: pytest.Item) -> str:
    """Test function of a test, without parameters."""
    return item.nodeid.partition("[")[0]


def runs_by_day(item: pytest.Item) -> bool:
    """True if scripts/test runs a test."""
    return not any(item.get_closest_marker(name) for name in ("slow", "pairs", "nightly"))


def in_turn(items: Iterable[pytest.Item], by_day: Container[str], k: int, n: int) -> Iterator[pytest.Item]:
    """Yield tests but slow parameters of the functions `by_day`, of each of which every n-th from number k on."""
    seen: Counter[str] = Counter()
    for item in items:
        function = function_of(item)
        if function not in by_day or item.get_closest_marker("slow") is None:
            yield item
            continue
        if seen[function] % n == k:
            yield item
        seen[function] += 1
