"""What runs on the host goes, what runs on the device stays, and every line keeps its number."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpladder.device.emulator.hostcode import absent, device_code, without
from warpladder.device.emulator.symbols import refused
from warpladder.device.emulator.toolchain import why_not
from warpladder.device.source import KernelSource, read
from warpladder.errors import KernelError

PROGRAM = r"""
#include <cuda_runtime.h>
#include <cstdio>
#include "helper_cuda.h"
#define CHECK(call) do { cudaError_t e = (call); \
    if (e) { printf("%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define TILE 16
#define HD __host__ __device__

namespace mine { // { not a brace
const int WIDTH = 4; const char brace = '{'; const char* text = "} \" {"; const char* raw = R"x(}})")x";
enum class Kind { A, B };
struct Point { float x; HD float doubled() { return 2 * x; } };
__constant__ float weights[3] = {1.f, 2.f, 3.f};
template <typename T, int N = (1 + 2)>
HD T square(T x) { return x * x; }
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

__global__ void __launch_bounds__(256, 2) add(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] += square(x[i]) * weights[i % 3]; }
}
}  // namespace mine

struct Timer {
    cudaEvent_t start, stop;
    Timer() { cudaEventCreate(&start); }
};
struct Net { Net(); int a, b; };
Net::Net() : a{1}, b{2} {
#define INSIDE 7
    CHECK(cudaMalloc(&d, 4));
}
cudaStream_t stream;
extern "C" { __device__ float half_of(float x) { return x / 2; } }
extern "C" void launch(float* x, int n) { mine::add<<<n, 256>>>(x, x, n); }
auto host = [](int n) { return n; };
static float on_host[3] = {1, 2, 3};

static Mat* made = make(3);
static const int COUNT = make_count(1), SIZE = 4;
const int TILES = ceil_div(100, TILE);
static int on_host_only = 3;
int make_count(int x) { return x; }

int main(int argc, char** argv)
{
    dim3 grid(4);
    if (argc > 1) { printf("}"); }
    mine::add<<<grid, 256>>>(nullptr, nullptr, 0);
    return 0;
}
__device__ int after;
"""


def test_the_device_code_stays_and_the_host_code_goes() -> None:
    left = without(PROGRAM, "program.cu")
    lines = [" ".join(line.split()) for line in left.splitlines()]
    for kept in (
        "#include <cstdio>", "#define TILE 16", "#define INSIDE 7", "enum class Kind { A, B };",
        "struct Point { float x; HD float doubled() { return 2 * x; } };",
        "__constant__ float weights[3] = {1.f, 2.f, 3.f};", "HD T square(T x) { return x * x; }",
        "constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }", "const int TILES = ceil_div(100, TILE);", "struct Net { Net(); int a, b; };",
        "__global__ void __launch_bounds__(256, 2) add(const float* x, float* y, int n)", "} // namespace mine", "__device__ int after;",
        'extern "C" { __device__ float half_of(float x) { return x / 2; } }',
    ):  # fmt: skip
        assert kept in lines
    for gone in (
        "<<<",
        "main",
        "Timer",
        "cudaEvent_t",
        "cudaStream_t",
        "launch(",
        "Net::Net",
        "cudaMalloc",
        "device_launch_parameters",
        "argc",
        "host =",
    ):
        assert gone not in left


def test_every_line_keeps_its_place() -> None:
    left, lines = without(PROGRAM, "program.cu").splitlines(), PROGRAM.splitlines()
    assert len(left) == len(lines)
    assert all(new in (old, "") or not new.strip() or new.strip() in old for old, new in zip(lines, left, strict=True))


def test_kernels_alone_are_left_as_they_are() -> None:
    text = '#include <math.h>\n#line 1 "a.cuh"\nextern "C" __global__ void k(float* x) { x[0] = 1; }\n'
    assert without(text, "k.cu") == text


@pytest.mark.parametrize("header", ["<cute/tensor.hpp>", '"cub/cub.cuh"', "<cuda/semaphore>", "<cuda_fp8.h>"])
def test_headers_that_nothing_stands_in_for(header: str) -> None:
    with pytest.raises(KernelError, match=r"k\.cu:2: <.*> cannot be emulated; put"):
        without(f"// first\n#include {header}\n", "k.cu")


@pytest.mark.parametrize("text", ["", "{", "}", "}}", "void f() {", "/* open", '"open', "#define X \\", "namespace {"])
def test_broken_text_ends(text: str) -> None:
    assert without(text, "k.cu").count("\n") == text.count("\n")


def test_a_header_is_placed_where_it_is_included() -> None:
    text = '#line 1 "/a/k.cu"\n//\n#line 1 "/a/x.cuh"\n//\n#include <cuda_fp8.h>\n#line 3 "/a/k.cu"\n'
    with pytest.raises(KernelError, match=r"^x\.cuh:2: "):
        without(text, "k.cu")
    with pytest.raises(KernelError, match=r"^k\.cu:4: "):
        without(text.replace("<cuda_fp8.h>", "<math.h>") + "\n#include <cuda_fp8.h>\n", "k.cu")


def test_headers_that_nobody_finds_are_left_out() -> None:
    text = "#include <gputk_that_is_nowhere.h>\n#include <cmath>\n__device__ int x;\n"
    assert (
        without(text, "k.cu")
        == ("\n" if why_not() is None else "#include <gputk_that_is_nowhere.h>\n")
        + "#include <cmath>\n__device__ int x;\n"
    )


PIECES = st.sampled_from([
    "{", "}", ";", "(", ")", '"', "'", "//", "/*", "*/", "\n", "#define M \\\n", "#if 1\n", "\n#endif\n", "namespace n ", 'extern "C" ', "struct S ", "int f() ",
    "__global__ void k(int n) ", "__device__ ", "const int x = f()", "template <int N> ", "= ", "<<<1, 2>>>", 'R"(', "operator()", ": a{1}, b{2} ",
])  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_keeps_its_lines(text: str) -> None:
    left = without(text, "k.cu")
    assert all(new in (old, " ") for old, new in zip(text, left, strict=True))


def test_names_of_namespaces_stay() -> None:
    text = "namespace cg = cooperative_groups;\n__global__ void k(float* x) { x[0] = 1; }\n"
    assert without(text, "k.cu") == text


@pytest.mark.skipif(why_not() is not None, reason="a compiler finds headers")
def test_headers_in_quotes_are_those_of_the_compiler_or_left_out(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_bytes('// größe\n#include "stdio.h"\n#include "mine.h"\n__global__ void k() { }\n'.encode("latin-1"))
    source = read(file)
    assert [line.split("//")[0].strip() for line in device_code(file).text.splitlines()[2:4]] == [
        "#include <stdio.h>",
        "",
    ]
    assert absent(source.text, "k.cu") == ['k.cu:3: there is no header "mine.h" next to the file']


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "template <class T> __global__ void k(T* x) { }\ntemplate <class T> __global__ void k(T x) { }",
            "there are several templates with other parameters",
        ),
        ("__global__ void j() { }\n__global__ void k() { j<<<1, 1>>>(); }", "launches a kernel itself"),
    ],
)
def test_kernels_that_a_single_launch_cannot_run(text: str, reason: str) -> None:
    assert reason in refused(KernelSource(Path("k.cu"), text))["k"]
