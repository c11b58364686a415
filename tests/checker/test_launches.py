"""Descriptions of launches: what they may say, what they come to, and what each mistake is answered with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpladder.checker.description import Content, Description, LaunchRequest, content, from_table, read, sizes
from warpladder.checker.plan import CheckPlan, plan
from warpladder.device import source
from warpladder.errors import ConfigError, KernelError

SOURCE = """
struct Body { float x, y; int kind; };
__global__ void sums(const float* x, float* partial, int n, float scale) {}
__global__ void total(const float* partial, float* out, int n) {}
__global__ void label(const int* labels, float4* v, Body* bodies, unsigned char* flags) {}
__global__ void half_of(__nv_bfloat16* x, bool on) {}
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (1024, Content((1024,))), ("1024", Content(("1024",))), ("m*n", Content(("m*n",))), ("[m, n]", Content(("m", "n"))),
        ("float[1024]", Content(("1024",), "random", "float")), ("float[n]:zeros", Content(("n",), "zeros", "float")),
        ("n : iota", Content(("n",), "iota")), ("unsigned char[(n + 3) / 4]", Content(("(n + 3) / 4",), "random", "unsigned char")),
        ("labels.npy", Content((), "labels.npy")), ("[m,n]:x.npy", Content(("m", "n"), "x.npy")), ("n:random(0, c)", Content(("n",), "random(0, c)")),
        ("std::uint8_t[4]", Content(("4",), "random", "std::uint8_t")),
    ],
)  # fmt: skip
def test_content(text: Any, wanted: Content) -> None:
    assert content(text, "x") == wanted


@pytest.mark.parametrize("text", ["", ":zeros", "float[]", "float[4", "[]", 0.5, True, [4], "4:"])
def test_content_that_cannot_be_read(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"^--arg x"):
        content(text, "--arg x")


def test_sizes() -> None:
    assert sizes("4, (n + 1) / 2", "") == ("4", "(n + 1) / 2")
    assert sizes(4, "") == (4,)
    assert sizes([4, "n"], "") == (4, "n")


def described(**table: Any) -> Description:
    launch = {"kernel": "sums", "grid": "blocks", "block": 256}
    whole = {
        "values": {"n": 1000, "blocks": "(n + 255) / 256", "scale": 0.5}, "arrays": {"x": "n", "partial": "blocks: uninitialised"}, "launch": [launch],
    }  # fmt: skip
    return from_table({**whole, **table}, Path("folder/sums.toml"))


def planned(**table: Any) -> CheckPlan:
    return plan(described(**table), source.KernelSource(Path("sums.cu"), SOURCE))


def test_a_table() -> None:
    found = described(expect={"partial": "p.npy"})
    assert found.source == Path("folder/sums.cu")
    assert found.launches == (LaunchRequest("sums", ("blocks",), (256,)),)
    assert found.expect == {"partial": Path("folder/p.npy")}
    assert described(source="../other.cu").source == Path("folder/../other.cu")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown entry": ({"arays": {}}, "unknown entry 'arays'; there are source, values, arrays, launch, expect"),
    "no launch": ({"launch": []}, "describes no launch"),
    "a launch without a grid": ({"launch": [{"kernel": "sums", "block": 1}]}, "launch 1 has no grid"),
    "an unknown entry of a launch": (
        {"launch": [{"kernel": "sums", "grid": 1, "block": 1, "args": {}}]},
        "unknown entry 'args'",
    ),
    "a name for two things": ({"values": {"x": 1}}, "x is both a value and an array"),
    "a value that is a list": ({"values": {"n": [1]}}, "value n wants a number"),
    "expect of no array": ({"expect": {"y": "y.npy"}}, "expect wants"),
    "expect of no file": ({"expect": {"x": "zeros"}}, "expect wants"),
    "a launch that is no table": ({"launch": [1]}, "launch 1 wants to be a table"),
    "a size that is a fraction": (
        {"launch": [{"kernel": "sums", "grid": 0.5, "block": 1}]},
        "grid wants a number or text or a list",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_tables_that_are_wrong(what: str) -> None:
    table, message = WRONG[what]
    with pytest.raises(ConfigError, match=r"^sums\.toml") as error:
        described(**table)
    assert message in str(error.value)


def test_files_that_are_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("x = ")
    with pytest.raises(ConfigError, match="is no TOML"):
        read(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not a text file"):
        read(file)


def test_sizes_are_worked_out() -> None:
    found = planned()
    (launch,) = found.launches
    assert (launch.grid, launch.block, launch.shared) == ((4,), (256,), 0)
    assert launch.arguments == ("x", "partial", 1000, 0.5)
    assert found.shapes == {"x": ((1000,), np.dtype("f4")), "partial": ((4,), np.dtype("f4"))}
    assert found.arrays["partial"] is None
    x = found.arrays["x"]
    assert x is not None
    assert abs(x.mean()) < 0.2
    assert 0.8 < x.std() < 1.2


def test_several_launches_share_arrays() -> None:
    second = {"kernel": "total", "grid": 1, "block": 32, "arguments": {"n": "blocks", "out": "sum"}}
    found = planned(
        arrays={"x": "n", "partial": "blocks", "sum": 1},
        launch=[{"kernel": "sums", "grid": "blocks", "block": 256}, second],
    )
    assert found.launches[1].arguments == ("partial", "sum", 4)


def label(arrays: dict[str, Any], **values: Any) -> CheckPlan:
    return planned(values=values, arrays=arrays, launch=[{"kernel": "label", "grid": 1, "block": 1}])


ARRAYS = {"labels": "100:random(0, classes)", "v": "5:ones", "bodies": "7:iota", "flags": "300:random"}


def test_fills() -> None:
    found = label(ARRAYS, classes=3)
    labels, v, bodies, flags = (found.arrays[name] for name in ARRAYS)
    assert labels is not None and v is not None and bodies is not None and flags is not None
    assert sorted(set(labels.tolist())) == [0, 1, 2]
    assert v.tolist() == [[1.0] * 4] * 5
    assert bodies["kind"].tolist() == bodies["x"].tolist() == list(range(7))
    assert set(flags.tolist()) == set(range(10))
    again = label(ARRAYS, classes=3).arrays
    assert all(
        a is not None and b is not None and a.tobytes() == b.tobytes()
        for a, b in zip(found.arrays.values(), again.values(), strict=True)
    )


def test_bfloat16_and_bool() -> None:
    found = planned(
        values={"on": "true"}, arrays={"x": "4:ones"}, launch=[{"kernel": "half_of", "grid": 1, "block": 1}]
    )
    assert found.arrays["x"] is not None
    assert found.arrays["x"].tolist() == [0x3F80] * 4
    assert found.launches[0].arguments == ("x", True)


def test_null_pointers() -> None:
    found = planned(
        arrays={"x": "n"}, launch=[{"kernel": "sums", "grid": 1, "block": 1, "arguments": {"partial": "null"}}]
    )
    assert found.launches[0].arguments[1] is None


def test_arrays_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=np.float32))
    found = planned(arrays={"x": str(tmp_path / "x.npy"), "partial": 4}, expect={"x": str(tmp_path / "x.npy")})
    assert found.arrays["x"] is not None
    assert found.arrays["x"][999] == found.expect["x"][999] == 999


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "an array that is missing": (
        {"arrays": {"x": "n"}},
        "kernel sums: nothing says what the array float* partial holds",
    ),
    "a number that is missing": (
        {"values": {"n": 1, "blocks": 1}},
        "kernel sums: nothing says what the number float scale is",
    ),
    "an array that nothing takes": (
        {"arrays": {"x": "n", "partial": 4, "y": 3}},
        "no kernel that is launched takes the array y",
    ),
    "an unknown parameter": (
        {"launch": [{"kernel": "sums", "grid": 1, "block": 1, "arguments": {"y": "x"}}]},
        "has no parameter y; it is sums(const float* x, float* partial, int n, float scale)",
    ),
    "an argument that is no array": (
        {"launch": [{"kernel": "sums", "grid": 1, "block": 1, "arguments": {"x": "z"}}]},
        "const float* x is given 'z', which is no array; there are x, partial",
    ),
    "an unknown name": ({"values": {"n": "m"}}, "nothing says what m is"),
    "an empty array": ({"arrays": {"x": "n - 1000", "partial": 4}}, "array x is empty"),
    "another type": (
        {"arrays": {"x": "double[n]", "partial": 4}},
        "array x is said to be double, and the kernel takes const float* x",
    ),
    "an unknown type": ({"arrays": {"x": "real[n]", "partial": 4}}, "'real' is no type"),
    "an unknown fill": (
        {"arrays": {"x": "n:ramdom", "partial": 4}},
        "is filled with random, random(low, high), zeros, ones, iota, uninitialised",
    ),
    "an empty range": ({"arrays": {"x": "n:random(1, 1)", "partial": 4}}, "wants its low end below its high end"),
    "a missing file": ({"arrays": {"x": "nowhere.npy", "partial": 4}}, "there is no file"),
    "no kernel named": (
        {"launch": [{"grid": 1, "block": 1}]},
        "has 4 kernels: sums, total, label, half_of; name the one to launch",
    ),
    "a kernel that is not there": ({"launch": [{"kernel": "sum", "grid": 1, "block": 1}]}, "has no kernel 'sum'"),
    "a grid that is no size": (
        {"launch": [{"kernel": "sums", "grid": "scale", "block": 1}]},
        "grid of kernel sums wants a whole number, got scale = 0.5",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_descriptions_that_do_not_fit(what: str) -> None:
    table, message = FAULTS[what]
    with pytest.raises((ConfigError, KernelError)) as error:
        planned(**table)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_same_array_as_two_types() -> None:
    launches = [
        {"kernel": "sums", "grid": 1, "block": 1},
        {"kernel": "label", "grid": 1, "block": 1, "arguments": {"labels": "x"}},
    ]
    with pytest.raises(
        ConfigError, match="array x is float for launch 1, kernel sums, and int for launch 2, kernel label"
    ):
        planned(arrays={"x": "n", "partial": 4, "v": 1, "bodies": 1, "flags": 1}, launch=launches)


def test_files_of_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    for held, message in (
        (np.zeros(4), "4 numbers of float64, the kernel takes float32"),
        (np.zeros(0, np.float32), "0 numbers"),
    ):
        np.save(file, held)
        with pytest.raises(ConfigError, match=message):
            planned(arrays={"x": str(file), "partial": 4})
    for broken in (b"", b"\x93NUMPY", b"PK\x03\x04", b"x" * 100):
        file.write_bytes(broken)
        with pytest.raises(ConfigError, match="cannot be read"):
            planned(arrays={"x": str(file), "partial": 4})
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)  # would run what it contains
    with pytest.raises(ConfigError, match="cannot be read"):
        planned(arrays={"x": str(file), "partial": 4})


def test_numbers_that_a_type_cannot_hold() -> None:
    with pytest.raises(ConfigError, match="0 to 299, which uint8 cannot hold"):
        label({**ARRAYS, "flags": "300:iota"}, classes=3)
