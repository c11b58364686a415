"""Remarks on values, conversions as PTX has them, endless recursion, and arguments of launches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from warpladder.cli import main
from warpladder.device.emulator import why_not
from warpladder.device.emulator.conversions import saturating

KERNELS = Path(__file__).parent / "verdicts" / "remarks.cu"
emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
Run = Callable[..., tuple[int, dict]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Exit code and outcome of a launch in one block, in the check mode."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(KERNELS, tmp_path)

    def call(kernel: str, block: int, *words: str, grid: int = 1, mode: str = "check") -> tuple[int, dict]:
        given = [part for word in words for part in (["--arg", word] if not word.startswith("--") else [word])]
        launch = ["--kernel", kernel, "--grid", str(grid), "--block", str(block), "--mode", mode, "--json"]
        code = main(["check", "remarks.cu", *launch, *given])
        return code, json.loads(capsys.readouterr().out)

    return call


def line(mark: str) -> int:
    return next(i for i, text in enumerate(KERNELS.read_text().splitlines(), 1) if f"// <- {mark}" in text)


@emulated
def test_values_in_shared_memory_that_no_thread_reads(run: Run) -> None:
    code, found = run("halved", 96, "x=96", "out=1:uninitialised", "n=96")
    assert (code, len(found["remarks"])) == (0, 1)
    assert found["remarks"][0].startswith(
        "1 of the 128 elements of shared array s holds a value that no thread reads, element 2, stored at "
        f"remarks.cu:{line('lost')}:"
    )
    for block in (64, 128):
        assert run("halved", block, "x=128", "out=1:uninitialised", "n=50")[1]["remarks"] == []
    assert run("unrolled", 64, "x=64", "out=1:uninitialised")[1]["remarks"] == []
    assert run("tiled", 32, "x=100", "y=100:uninitialised", "n=100", grid=4)[1]["remarks"] == []


@emulated
@pytest.mark.parametrize(("kernel", "outputs"), [("in_registers", 1), ("ranks", 50), ("running", 50)])
def test_values_that_a_thread_keeps_elsewhere_or_beyond_the_data_are_not_lost(
    run: Run, kernel: str, outputs: int
) -> None:
    name = "out" if outputs == 1 else "y"
    code, found = run(kernel, 64, "x=50", f"{name}={outputs}:uninitialised", "n=50")
    assert (code, found["problems"], found["remarks"]) == (0, [], [])


@emulated
def test_nan_that_no_input_brought(run: Run, tmp_path: Path) -> None:
    code, found = run("rooted", 32, "x=32:random(-2,-1)", "y=32:uninitialised", "least=0")
    assert code == 0
    assert found["remarks"] == [
        "32 of the 32 numbers of array y are NaN, and no input of the launch holds NaN or infinity: number 0, stored "
        f"at remarks.cu:{line('nan')} by block (0, 0, 0) thread (0, 0, 0)"
    ]
    assert run("rooted", 32, "x=32:random(1,2)", "y=32:uninitialised", "least=0")[1]["remarks"] == []
    np.save(tmp_path / "x.npy", np.array([np.nan] * 32, np.float32))
    assert run("rooted", 32, "x=x.npy", "y=32:uninitialised", "least=0")[1]["remarks"] == []


@emulated
def test_stores_of_one_value_are_no_race(run: Run) -> None:
    code, found = run("any", 64, "x=64", "flag=1:zeros", "n=64")
    assert (code, found["problems"], len(found["remarks"])) == (0, [], 1)
    at = f"remarks.cu:{line('same')}"
    assert found["remarks"][0].startswith(f"Threads store the same value to array flag, element 0, at {at} and {at}")
    code, found = run("last", 64, "flag=1:zeros")  # the same within a warp, and another one in the next
    assert (code, [problem["kind"] for problem in found["problems"]], found["remarks"]) == (1, ["race"], [])


NUMBERS = np.array([np.nan, 1e20, -1e20, -1, 300, 3e9, 1.9], np.float32)


@emulated
def test_conversions_saturate_and_parameters_may_have_pythons_words(run: Run, tmp_path: Path) -> None:
    high, wide = 2**31 - 1, 2**63 - 1
    np.save(tmp_path / "in.npy", NUMBERS)
    np.save(tmp_path / "is.npy", np.array([0, high, -high - 1, -1, 300, high, 1], np.int32))
    np.save(tmp_path / "lambda.npy", np.array([0, 2**32 - 1, 0, 0, 300, 3000000000, 1], np.uint32))
    np.save(tmp_path / "from.npy", np.array([-wide - 1, wide, -wide - 1, -1, 300, 3000000000, 1], np.int64))
    np.save(tmp_path / "as.npy", np.array([0, 255, 0, 0, 44, 0, 1], np.uint8))
    names = ("is", "lambda", "from", "as")
    expected = [f"--expect={name}={name}.npy" for name in names]
    given = ["in=in.npy", *(f"{name}=n:uninitialised" for name in names), "n=7", *expected]
    code, found = run("converted", 8, *given, mode="fast")
    assert (code, found["problems"], found["remarks"]) == (0, [], [])
    np.save(tmp_path / "is.npy", np.zeros(7, np.int32))
    code, found = run("converted", 8, *given, mode="fast")
    assert (code, [problem["kind"] for problem in found["problems"]]) == (1, ["wrong result"])
    code, found = run("quiet", 7, "x=in.npy", "y=7:uninitialised")
    assert (code, len(found["remarks"])) == (0, 1)
    assert f"is converted from float to int at remarks.cu:{line('quiet')}" in found["remarks"][0]


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("a = (int)x * 2;", "a = (int)(emu::To<int>)x * 2;"),
        ("f((float)(unsigned int)-x)", "f((float)(unsigned int)(emu::To<unsigned int>)-x)"),
        ("return int(x) + int8_t(y);", "return emu::converted_to<int>(x) + emu::converted_to<int8_t>(y);"),
        ("a[static_cast<size_t>(x)]", "a[emu::converted_to<size_t>(x)]"),
        ("template <typename T> T f(float x) { return (T)x; }",
         "template <typename T> T f(float x) { return (T)(emu::To<T>)x; }"),
        *(2 * (text,) for text in (
            "sizeof(int) * n", "void f(int);", "void f(int) const { }", "auto g = [](int) -> int { return 1; };",
            "std::function<int(int)> f;", "int (*f)(int) = g;", "g<int>(x)", "// (int)x", 'printf("(int)x");', "int();",
            "operator int() const;", "int x(3), y;", "(a) & b",
        )),
    ],
)  # fmt: skip
def test_which_conversions_are_rewritten(text: str, now: str) -> None:
    assert saturating(text) == now


@emulated
def test_endless_recursion_is_a_line(run: Run) -> None:
    code, found = run("recursive", 4, "out=4:uninitialised", mode="all")
    assert (code, [problem["kind"] for problem in found["problems"]]) == (1, ["stack overflow"])
    assert "has filled its stack" in found["problems"][0]["message"]
    assert run("ended", 4, "out=4:uninitialised", mode="all")[:1] == (0,)


@emulated
def test_pointers_into_arrays(run: Run) -> None:
    out = "out=64:uninitialised"
    assert run("shifted", 64, "in=70", "in=in+3", out)[0] == 0
    assert run("shifted", 64, "buffer=[r + 70]", "in=&buffer[r]", "r=3", out)[0] == 0
    code, found = run("shifted", 64, "in=69", "in=in+3", out)
    assert (code, [problem["kind"] for problem in found["problems"]]) == (1, ["out of bounds"])
    assert "reads 4 bytes after the end of array in of 69 elements" in found["problems"][0]["message"]


@emulated
def test_json_of_what_is_refused(run: Run) -> None:
    code, found = run("shifted", 64, "in=70")
    assert code == 2
    assert found["error"] == "kernel shifted: nothing says what the array float* out holds; what is given is in"
    assert (found["problems"], found["refused"]) == ([], [])
