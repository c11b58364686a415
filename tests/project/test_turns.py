"""Turns of slow parameters and pairs: each runs in one of N successive changes, and nothing else takes turns."""

from types import SimpleNamespace
from typing import Any

import pytest
from turns import in_turn, runs_by_day


def made(name: str, *marks: str) -> Any:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: mark if mark in marks else None)


FOUND = [
    made("test_sum[1]"), *(made(f"test_sum[{size}]", "slow") for size in range(2, 9)),
    made("test_alone", "slow"), made("test_compiles", "nvrtc"),
    *(made(f"test_pair[{name}-{setting}]", "pairs") for name in "abcdefgh" for setting in range(8)),
]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_all_turns_together_are_every_test(n: int) -> None:
    by_day = {"test_sum"}
    seen = [item.nodeid for k in range(n) for item in in_turn(FOUND[1:], by_day, k, n)]
    assert sorted({*seen}) == sorted(item.nodeid for item in FOUND[1:])
    assert all(seen.count(f"test_sum[{size}]") == 1 for size in range(2, 9))
    assert seen.count("test_pair[a-0]") == seen.count("test_pair[h-7]") == 1
    assert seen.count("test_alone") == seen.count("test_compiles") == n


def test_a_turn_has_pairs_of_most_kinds() -> None:
    """Every eighth test in their order would have one setting alone."""
    for k in range(8):
        names = [item.nodeid for item in in_turn(FOUND, {"test_sum"}, k, 8) if "pair" in item.nodeid]
        assert len(names) == 8
        assert min(len({name[at] for name in names}) for at in (10, 12)) >= 4


def test_single_slow_parameters_are_spread_over_the_turns() -> None:
    single = [made(f"test_{number}[1]", "slow") for number in range(80)]
    by_day = {f"test_{number}" for number in range(80)}
    assert all(3 <= len(in_turn(single, by_day, k, 8)) <= 20 for k in range(8))


def test_what_scripts_test_runs_has_no_mark() -> None:
    assert [item.nodeid for item in FOUND if runs_by_day(item)] == ["test_sum[1]", "test_compiles"]
