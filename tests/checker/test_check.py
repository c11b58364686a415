"""`warpladder check`: what it lists, what it asks for, what it finds and how it says so."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from warpladder.checker.faults import HINTS
from warpladder.cli import main
from warpladder.device.emulator import why_not

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
    code, out, err = run("saxpy.cu", "--list")
    assert (code, err) == (0, "")
    assert out.startswith("saxpy.cu has 1 kernel:\n\n  saxpy(const float* x, float* y, float a, int n)\n")
    assert "\nThe file launches:\n\n  saxpy<<<4, 256>>>(nullptr, nullptr, 1.f, 0)\n" in out
    assert (
        "warpladder check saxpy.cu --grid '(n + 255) / 256' --block 256 --arg x=n \\\n"
        "      --arg y=n --arg a=1 --arg n=1000\n" in out
    )
    assert max(map(len, out.splitlines())) <= 84
    assert "This folder has one" not in out
    assert out.endswith("\nTo run main() and check the launches that it makes:\n\n  warpladder check saxpy.cu\n")
    saxpy.with_suffix(".toml").touch()
    assert "This folder has one: warpladder check saxpy.toml" in run("saxpy.cu", "--list")[1]


def test_several_kernels_and_templates(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void a() { extern __shared__ int s[]; }\ntemplate <int N> __global__ void b(int n) {}\n"
    )
    code, out, err = run("k.cu")
    assert code == 2
    assert (
        err == "warpladder: k.cu: nothing was checked: a launch is missing, see above; --list alone lists the kernels\n"
    )
    assert run("k.cu", "--list") == (0, out, "")
    assert "has 2 kernels" in out
    assert "  a()\n  b<int N>, a template: --kernel 'b<...>' names an instance\n" in out
    assert "warpladder check k.cu --kernel a --grid 1 --block 256 --shared 1024\n" in out
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
    "an array that is missing": (
        ("saxpy.cu", *LAUNCH, "--arg", "x=1"),
        "kernel saxpy: nothing says what the array float* y holds",
    ),
    "an array that cannot be read": (("saxpy.cu", *LAUNCH, "--arg", "x=float["), "--arg x: cannot read 'float['"),
    "a grid that cannot be read": (("saxpy.cu", "--grid", "4;2", "--block", "1", *ARGUMENTS), "cannot read '4;2'"),
    "a header that nothing stands in for": (("cub.cu",), "cub.cu:1: <cub/cub.cuh> cannot be emulated"),
    "a missing header": (("header.cu",), 'there is no header "mine.h"'),
    "a launch said twice": (("saxpy.toml", "--grid", "4"), "saxpy.toml states what is launched: leave out --grid"),
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


# What it finds.

emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

DOT = """\
__global__ void dot(const float* a, const float* b, float* partial, int n) {
    __shared__ float cache[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cache[threadIdx.x] = a[i] * b[i];
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) cache[threadIdx.x] += cache[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = cache[0];
}
"""
FOUND = """\
1. race on cache, kernel dot
   race on shared array cache, element 32: write by block (0, 0, 0) thread (32,
   0, 0) at dot.cu:4 and read by block (0, 0, 0) thread (0, 0, 0) at dot.cu:6,
   with nothing between them that orders the threads

     dot.cu:4 | cache[threadIdx.x] = a[i] * b[i];
              | ^^^^^^^^^^^^^^^^^^
     dot.cu:6 | …threadIdx.x < s) cache[threadIdx.x] += cache[threadIdx.x + s];
              |                   ^^^^^^^^^^^^^^^^^^    ^^^^^^^^^^^^^^^^^^^^^^

   Usually: put __syncthreads() between the two lines, or make the access
   atomic; between blocks only an atomic or a second launch helps, and in code
   of one warp alone __syncwarp() is enough.
   Seen by check.

2. out of bounds on a, kernel dot
   block (3, 0, 0) thread (8, 0, 0) reads 4 bytes after the end of array a of
   200 elements, at dot.cu:4

     dot.cu:4 | cache[threadIdx.x] = a[i] * b[i];
              |                      ^^^^

   Usually: compare the index with the length before the access, if (i < n):
   the last block has threads left over, and the first ones no left neighbour.
   Seen by check and asan.

2 problems in 1 launch: check + asan
"""
DOT_LAUNCH = (
    "dot.cu",
    "--grid",
    "4",
    "--block",
    "64",
    "--arg",
    "a=n",
    "--arg",
    "b=n",
    "--arg",
    "partial=4:uninitialised",
    "--arg",
    "n=200",
)


@pytest.mark.slow
@emulated
def test_faults_are_shown_with_their_lines_and_causes_before_consequences(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dot.cu").write_text(DOT)
    outs = [run(*DOT_LAUNCH, "--mode", mode) for mode in ("check", "all")]
    assert [code for code, _, _ in outs] == [1, 1]
    assert outs[0][1] == FOUND.replace("check and asan", "check").replace("check + asan", "check")
    assert outs[1][1].startswith(FOUND.partition("2 problems")[0])
    assert outs[1][1].endswith("2 problems in 1 launch: check + asan + 3 orders\n")


@emulated
def test_nothing_to_find(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dot.cu").write_text(DOT.replace("a[i] * b[i];", "i < n ? a[i] * b[i] : 0.0f;\n    __syncthreads();"))
    assert run(*DOT_LAUNCH) == (0, "no problem found: 1 launch, check + asan + 3 orders\n", "")


@emulated
def test_faults_for_machines(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dot.cu").write_text(DOT)
    code, out, _ = run(*DOT_LAUNCH, "--mode", "check", "--json")
    found = json.loads(out)
    assert code == 1
    assert [problem["kind"] for problem in found["problems"]] == ["race", "out of bounds"]
    race = found["problems"][0]
    assert (race["array"], race["kernel"], race["launch"], race["seen"], race["count"]) == (
        "cache",
        "dot",
        1,
        ["check"],
        1,
    )
    assert race["places"] == [[str(tmp_path / "dot.cu"), 4], [str(tmp_path / "dot.cu"), 6]]


#: A kernel's body, what is launched, what the first problem is, and words of its message.
SMALL: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "too many threads": ("x[0] = 1;", ("--block", "16,16,16"), "launch", "4,096 threads a block, and a GPU takes 1,024"),
    "a misaligned float4": ("((float4*)(x + 1))->x = 1;", ("--block", "1", "--mode", "check"), "misaligned on x", "multiple of 16"),
    "numbers never written": ("x[0] = x[1];", ("--block", "1", "--mode", "check"), "uninitialised on x", "element 1"),
    "a barrier that some miss": ("if (threadIdx.x < 8) __syncthreads(); x[threadIdx.x] = 1;", ("--block", "32", "--mode", "check"), "barrier", "24 threads"),
    "a lane that stays away": (
        "if (threadIdx.x) x[threadIdx.x] = __shfl_sync(0xffffffff, 1.f, 0);", ("--block", "32", "--mode", "check"), "warp mask", "lane 31, reads lane 0",
    ),
    "the sanitizer alone": ("x[100] = 1;", ("--block", "1", "--mode", "asan"), "out of bounds", "writes 4 bytes just after an array of 400 bytes"),
    "undefined arithmetic": ("x[0] = 1 << n;", ("--block", "1", "--mode", "asan"), "undefined behaviour", "shift exponent 100"),
    "a wild pointer": ("*(int*)16 = n;", ("--block", "1", "--mode", "fast"), "out of bounds", "thread (0, 0, 0) reads or writes outside of all arrays at k.cu:1"),
    "an order that shows": ("atomicExch((int*)x, int(threadIdx.x));", ("--block", "40", "--mode", "fast"), "order on x", "in reverse order"),
}  # fmt: skip


@emulated
@pytest.mark.parametrize("what", SMALL)
@pytest.mark.by_day("threads", "float4", "numbers", "arithmetic", "pointer", "sanitizer")
def test_small_faults(run: Run, tmp_path: Path, what: str) -> None:
    body, options, heading, message = SMALL[what]
    (tmp_path / "k.cu").write_text(f"__global__ void k(float* x, int n) {{ {body} }}\n")
    code, out, err = run("k.cu", "--grid", "1", "--arg", "x=n:uninitialised", "--arg", "n=100", *options)
    assert (code, err) == (1, "")
    assert out.startswith(f"1. {heading}, kernel k\n")
    assert message in " ".join(out.split())
    assert "Usually: " in out or heading in ("crash", "undefined behaviour")
    assert out.splitlines()[-1].startswith("1 problem in 1 launch: ")
    assert all(line == line.rstrip() and len(line) <= 80 for line in out.splitlines())


@emulated
def test_races_are_found_next_to_an_access_out_of_bounds(run: Run, tmp_path: Path) -> None:
    """A thread ends at such an access; what others lack from it, here at the barrier, is no second fault."""
    (tmp_path / "k.cu").write_text(
        "__global__ void k(float* x, float* sum, int n) {\n"
        "    if (threadIdx.x == 0) x[n] = 1;\n"
        "    __syncthreads();\n"
        "    *sum += x[threadIdx.x];\n"
        "}\n"
    )
    arguments = ("--arg", "x=n", "--arg", "sum=1", "--arg", "n=64")
    code, out, _ = run("k.cu", "--grid", "1", "--block", "64", *arguments, "--mode", "check", "--json")
    assert code == 1
    assert [(each["kind"], each["array"]) for each in json.loads(out)["problems"]] == [
        ("out of bounds", "x"),
        ("race", "sum"),
    ]


def test_every_kind_of_report_has_a_hint() -> None:
    kinds = {
        "race",
        "out of bounds",
        "uninitialised",
        "misaligned",
        "barrier",
        "warp mask",
        "deadlock",
        "launch",
        "order",
        "wrong result",
    }
    kinds |= {
        "unfilled",
        "streams",
        "unwritten",
        "nothing written",
        "time limit",
        "uninitialised local",
        "trap",
        "unfinished copy",
        "same bytes",
        "temporary memory",
    }
    kinds |= {"phase", "warpgroup", "wgmma fence", "proxy fence", "unfinished product", "division by zero"}
    kinds |= {"argument", "bytes", "capture", "copy", "free", "handle", "host function", "host pointer"}  # of host code
    kinds |= {"unread error"}
    kinds |= {
        "not arrived",
        "child kernel",
        "crash",
        "device memory",
        "device variable",
        "shared memory",
        "stack overflow",
        "later block",
    }
    assert set(HINTS) == kinds


@emulated
def test_sums_that_differ_by_rounding_are_a_remark(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void k(const float* x, float* sum) { atomicAdd(sum, x[threadIdx.x]); }\n"
    )
    code, out, _ = run(
        "k.cu", "--grid", "1", "--block", "1000", "--arg", "x=1000", "--arg", "sum=1:zeros", "--mode", "fast"
    )
    assert code == 0
    assert out.startswith("Remark: sum[0] is ")
    assert "by no more than rounding explains." in " ".join(out.split())
    assert out.endswith("no problem found: 1 launch, 3 orders\n")


@emulated
@pytest.mark.slow
def test_what_kernels_print_is_shown_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('__global__ void k() { printf("thread %d\\n", int(threadIdx.x)); }\n')
    for mode in ("all", "fast"):
        code, out, _ = run("k.cu", "--grid", "1", "--block", "22", "--mode", mode)
        assert code == 0
        assert out.startswith("Printed by the kernels:\nthread 0\nthread 1\n")
        assert "thread 19\n... and 2 more lines\n\nno problem found" in out


CHAIN = """\
__global__ void halves(const float* x, float* y, int n) { int i = blockIdx.x * 32 + threadIdx.x; if (i < n) y[i] = x[i] / 2; }
__global__ void total(const float* y, float* sum, int n) { float s = 0; for (int i = 0; i < n; ++i) s += y[i]; *sum = s; }
"""
CHAIN_TOML = """\
source = "chain.cu"
values = { n = 100 }
arrays = { x = "n: ones", y = "n: uninitialised", sum = "1: uninitialised" }
expect = { sum = "sum.npy" }

[[launch]]
kernel = "halves"
grid = "(n + 31) / 32"
block = 32

[[launch]]
kernel = "total"
grid = 1
block = 1
"""


@emulated
def test_launches_in_a_row_and_what_they_should_give(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chain.cu").write_text(CHAIN)
    (tmp_path / "launches.toml").write_text(CHAIN_TOML)
    np.save(tmp_path / "sum.npy", np.array([50], np.float32))
    assert run("launches.toml") == (0, "no problem found: 2 launches, check + asan + 3 orders\n", "")
    np.save(tmp_path / "sum.npy", np.array([51], np.float32))
    code, out, _ = run("launches.toml", "--mode", "fast")
    assert code == 1
    assert out.startswith(
        "1. wrong result on sum, kernel total\n   sum[0] is 50 and should be 51; 1 of 1 numbers differ\n"
    )
    (tmp_path / "launches.toml").write_text(CHAIN_TOML.replace('"(n + 31) / 32"', "3"))  # 4 numbers are never written
    code, out, _ = run("launches.toml", "--mode", "check")
    assert code == 1
    assert out.startswith("1. uninitialised on y, kernel total\n")


@emulated
def test_structs_files_and_templates(run: Run, tmp_path: Path) -> None:
    source = "struct P { float x; int k; };\ntemplate <int N> __global__ void k(P* p, const double* d) { p[threadIdx.x].x = d[N * threadIdx.x]; }\n"
    (tmp_path / "k.cu").write_text(source)
    np.save(tmp_path / "d.npy", np.arange(8.0))
    options = ("--grid", "1", "--block", "4", "--arg", "p=4", "--arg", "d=d.npy", "--mode", "check")
    assert run("k.cu", "--kernel", "k<2>", *options)[0] == 0
    code, out, _ = run("k.cu", "--kernel", "k<3>", *options)
    assert code == 1
    assert out.startswith("1. out of bounds on d, kernel k<3>\n")


@emulated
def test_what_does_not_compile(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "float two(float x) { return 2 * x; }\n__global__ void k(float* x) { *x = two(*x); }\n"
    )
    launch = ("k.cu", "--grid", "1", "--block", "1", "--arg", "x=1", "--mode", "fast")
    code, out, err = run(*launch)
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'k.cu'}:2: " in err
    assert "was not declared in this scope; two stands there without __device__, as a function of the host\n" in err
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) {\n*x = y; }\n")
    code, _, err = run(*launch)
    assert code == 2
    assert "k.cu:2: " in err and "__device__" not in err


@emulated
def test_ctrl_c_ends_a_kernel_that_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        '__global__ void k(volatile int* x) { printf("started"); while (*x >= 0) *x = (*x + 1) & 1023; }\n'
    )
    command = [sys.executable, "-c", "import sys; from warpladder.cli import main; sys.exit(main())", "check", "k.cu"]
    command += ["--grid", "1", "--block", "1", "--arg", "x=1:zeros", "--mode", "fast"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (
        found := [int(child) for child in _children(process.pid) if "warpladder.checker.run" in _command(child)]
    ):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1].strip() == "warpladder: interrupted"
    assert process.returncode == 130
    assert not any(Path(f"/proc/{child}").exists() for child in found)


def _children(process: int) -> list[str]:
    return [
        child for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def _command(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


# The tutorial.

PAGE = Path(__file__).parents[2] / "docs" / "check.md"


@emulated
@pytest.mark.slow
def test_the_tutorial_shows_what_is_printed(run: Run, tmp_path: Path) -> None:
    sources, outputs = (
        re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for kind in ("cuda", "text")
    )
    launch = next(
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("warpladder check reduce.cu --grid")
    )
    file = tmp_path / "reduce.cu"
    file.write_text(sources[0])
    assert f"$ warpladder check --list reduce.cu\n{run('--list', 'reduce.cu')[1]}" == outputs[0]
    outs = []
    barrier = sources[0].replace("            __syncthreads();\n        }\n", "        }\n        __syncthreads();\n")
    race = barrier.replace("    for (int stride", "    __syncthreads();\n    for (int stride")
    head, loop = sources[0].index("    if (i < n)"), sources[0].index("    if (threadIdx.x == 0)")
    mended = sources[0][:head] + sources[1] + sources[0][loop:]
    for text in (sources[0], barrier, race, mended):
        file.write_text(text)
        outs.append(run(*shlex.split(launch)[2:])[1])
    assert outs[0] == outputs[1]
    assert outs[1].endswith(outputs[2])
    assert outs[2] == outputs[3]
    assert outs[3] == outputs[4]
