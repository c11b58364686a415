"""Turns: of tests that repeat on other parameters what `scripts/test` runs, each change runs some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from zlib import crc32

import pytest


def function_of(item: pytest.Item) -> str:
    """Test function of a test, without parameters."""
    return item.nodeid.partition("[")[0]


def runs_by_day(item: pytest.Item) -> bool:
    """True if scripts/test runs a test."""
    return not any(item.get_closest_marker(name) for name in ("slow", "pairs", "nightly"))


def takes_turns(item: pytest.Item, by_day: Container[str]) -> bool:
    """True for a pair, and for a slow test of a function in `by_day`, of which scripts/test runs other parameters."""
    if item.get_closest_marker("pairs"):
        return True
    return function_of(item) in by_day and item.get_closest_marker("slow") is not None


def in_turn(items: Iterable[pytest.Item], by_day: Container[str], k: int, n: int) -> list[pytest.Item]:
    """Tests of turn k of n: those that take no turns, and every n-th of a function that do.

    Checksums of the names order the parameters of a function, so that a turn has some of every kind, and select the
    turn of its first, so that no turn has all functions of a single slow parameter.
    """
    every = list(items)
    waiting = defaultdict(list)
    for item in every:
        if takes_turns(item, by_day):
            waiting[function_of(item)].append(item)
    late: set[str] = set()
    for function, them in waiting.items():
        them.sort(key=lambda item: crc32(item.nodeid.encode()))
        late |= {item.nodeid for number, item in enumerate(them, crc32(function.encode())) if number % n != k}
    return [item for item in every if item.nodeid not in late]
