"""Expressions for sizes: as in C, and nothing is executed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpladder.device.expressions import evaluate, whole
from warpladder.errors import ConfigError

VALUES = {"n": 1000, "blocks": 4, "rate": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n", 1000), ("(n + 255) / 256", 4), ("n*blocks", 4000), ("1 << 20", 1 << 20), ("-7 / 2", -3), ("-7 % 2", -1), ("7 // 2", 3),
        ("1.0 / blocks", 0.25), ("rate", 0.5), ("1e-3", 1e-3), ("0x10", 16), ("true", True), (" +n ", 1000), (17, 17), (0.5, 0.5),
        ("256 * sizeof(float)", 1024), ("sizeof( unsigned char )+sizeof(float4)", 17), ("0.5f", 0.5), ("1.f / 4.0F", 0.25), ("1e-3f", 1e-3), ("0x1f", 31),
    ],
)  # fmt: skip
def test_values(text: str | float, value: float) -> None:
    assert evaluate(text, VALUES) == value
    assert type(evaluate(text, VALUES)) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n +",
        "f(n)",
        "n.real",
        "[1]",
        "'n'",
        "n if n else 0",
        "2 ** 9",
        "1 << 64",
        "1 << -1",
        "rate % 2",
        "n == 1",
        "1j",
        "(" * 500,
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        evaluate(text, VALUES)


def test_names_are_explained() -> None:
    with pytest.raises(ConfigError, match="in 'm \\* 2': nothing says what m is; there are n, blocks, rate"):
        evaluate("m * 2", VALUES)


def test_sizes_of_types_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match=r"in 'sizeof\(Body\)': sizeof\(Body\) is the size of no built-in type"):
        evaluate("sizeof(Body)", VALUES)


@pytest.mark.parametrize("text", ["1 / 0", "1.0 / 0", "n % (blocks - 4)"])
def test_division_by_zero(text: str) -> None:
    with pytest.raises(ConfigError, match="divides by zero"):
        evaluate(text, VALUES)


def test_numbers_stay_small() -> None:
    with pytest.raises(ConfigError, match="too large"):
        evaluate("*".join(["(1 << 40)"] * 50), {})


@pytest.mark.parametrize("text", ["-1", "0.5", "true", "n - 1001", "1e400"])
def test_sizes_are_whole(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--grid wants a whole number"):
        whole(text, VALUES, "--grid")


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9).filter(bool))
def test_division_is_that_of_c(a: int, b: int) -> None:
    quotient, remainder = evaluate("a / b", {"a": a, "b": b}), evaluate("a % b", {"a": a, "b": b})
    assert quotient * b + remainder == a
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)
