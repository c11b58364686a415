"""Turns of slow parameters: each runs in one of N successive changes, and nothing else takes turns."""

from types import SimpleNamespace
from typing import Any

import pytest
from turns import in_turn, runs_by_day


def made(name: str, *marks: str) -> Any:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: mark if mark in marks else None)


FOUND = [
    made("test_sum[1]"), *(made(f"test_sum[{size}]", "slow") for size in range(2, 9)),
    made("test_alone", "slow"), *(made(f"test_pair[{name}]", "pairs") for name in "ab"),
]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_all_turns_together_are_every_test(n: int) -> None:
    by_day = {"test_sum"}
    seen = [item.nodeid for k in range(n) for item in in_turn(FOUND[1:], by_day, k, n)]
    assert sorted({*seen}) == sorted(item.nodeid for item in FOUND[1:])
    assert all(seen.count(f"test_sum[{size}]") == 1 for size in range(2, 9))
    assert seen.count("test_alone") == seen.count("test_pair[a]") == n


def test_what_scripts_test_runs_has_no_mark() -> None:
    assert [item.nodeid for item in FOUND if runs_by_day(item)] == ["test_sum[1]"]
