"""`warpladder check`: what it lists, what it asks for, what it finds and how it says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from warpladder.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in a folder of its own and give its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["check", *arguments])
        return (code, *capsys.readouterr())

    return call


SAXPY = """\
#include <cuda_runtime.h>
__global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
int main() { saxpy<<<4, 256>>>(nullptr, nullptr, 1.f, 0); }
"""


@pytest.fixture
def saxpy(tmp_path: Path) -> Path:
    file = tmp_path / "saxpy.cu"
    file.write_text(SAXPY)
    return file


# Listing.


def test_the_kernels_of_a_file_are_listed_with_a_command_to_begin_with(run: Run, saxpy: Path) -> None:
    code, out, err = run("saxpy.cu")
    assert (code, err) == (0, "")
    assert out.startswith("saxpy.cu has 1 kernel:\n\n  saxpy(const float* x, float* y, float a, int n)\n")
    assert "warpladder check saxpy.cu --grid 4 --block 256 --arg x=1000 --arg y=1000 \\\n      --arg a=1 --arg n=1000\n" in out
    assert max(map(len, out.splitlines())) <= 84
    assert ".toml" not in out
    saxpy.with_suffix(".toml").touch()
    assert "There is one beside it: warpladder check saxpy.toml" in run("saxpy.cu")[1]


def test_several_kernels_and_templates(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void a() { extern __shared__ int s[]; }\ntemplate <int N> __global__ void b(int n) {}\n")
    code, out, _ = run("k.cu")
    assert code == 0
    assert "has 2 kernels" in out
    assert "  a()\n  b<int N>, a template: --kernel 'b<...>' names an instance\n" in out
    assert "warpladder check k.cu --kernel a --grid 4 --block 256 --shared 1024\n" in out
    found = json.loads(run("k.cu", "--json")[1])
    assert found == {"kernels": [{"name": "a", "parameters": []}], "templates": {"b": "int N"}}


# What it cannot make sense of: one line, and the code 2.

LAUNCH = ("--grid", "4", "--block", "256")
ARGUMENTS = ("--arg", "x=1000", "--arg", "y=1000", "--arg", "a=0.5", "--arg", "n=1000")
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (("nothing.cu",), "nothing.cu: No such file or directory"),
    "no such description": (("nothing.toml",), "nothing.toml: No such file or directory"),
    "no kernels": (("empty.cu",), "empty.cu has no kernels: no function in it is __global__"),
    "no grid": (("saxpy.cu", "--block", "256"), "--grid is missing"),
    "no block": (("saxpy.cu", "--grid", "4"), "--block is missing"),
    "no such kernel": (("saxpy.cu", "--kernel", "axpy", *LAUNCH), "has no kernel 'axpy'; it has saxpy"),
    "an argument without a value": (("saxpy.cu", *LAUNCH, "--arg", "x"), "--arg wants NAME=WHAT, got 'x'"),
    "an argument twice": (("saxpy.cu", *LAUNCH, "--arg", "x=1", "--arg", "x=2"), "--arg x is given twice"),
    "an array that is missing": (("saxpy.cu", *LAUNCH, "--arg", "x=1"), "kernel saxpy: nothing says what the array float* y holds"),
    "an array that cannot be read": (("saxpy.cu", *LAUNCH, "--arg", "x=float["), "--arg x: cannot read 'float['"),
    "a grid that cannot be read": (("saxpy.cu", "--grid", "4;2", "--block", "1", *ARGUMENTS), "cannot read '4;2'"),
    "a header that nothing stands in for": (("cub.cu",), "cub.cu:1: <cub/cub.cuh> cannot be emulated"),
    "a missing header": (("header.cu",), 'there is no header "mine.h"'),
    "a launch said twice": (("saxpy.toml", "--grid", "4"), "saxpy.toml says what is launched: --grid would say it twice"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_it_cannot_make_sense_of(run: Run, saxpy: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "empty.cu").write_text("int x;\n")
    (tmp_path / "cub.cu").write_text("#include <cub/cub.cuh>\n")
    (tmp_path / "header.cu").write_text('#include "mine.h"\n')
    (tmp_path / "saxpy.toml").write_text("")
    arguments, message = WRONG[what]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
