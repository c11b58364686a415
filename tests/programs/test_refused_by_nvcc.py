"""What nvcc refuses and a C++ compiler takes is one line with its place; what nvcc takes is not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.declarations import unreadable
from warpladder.device.emulator import constant_sizes, of_host
from warpladder.device.emulator.messages import first_error as first_error_of_kernels
from warpladder.device.emulator.module import errors_of
from warpladder.device.emulator.toolchain import why_not
from warpladder.device.source import assembled
from warpladder.errors import KernelError
from warpladder.programs.build import ProgramOptions, compile_alone
from warpladder.programs.gpus import find
from warpladder.programs.reasons import first_error
from warpladder.programs.run import run
from warpladder.programs.sources import collected

needs_compiler = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: Programs that nvcc 13.0 refuses, with the line and words of the reason.
REFUSED = {
    "__constant__ float t[16385];": "1: with t of 65540 bytes",
    "__constant__ float t[16000];\nnamespace n { static __constant__ const double u[] = {1, 2}; }\n"
    "float __constant__ v[380], w[3];": "3: with w of 12 bytes",
    "struct S { char c[32760]; };\n__global__ void k(S s, int* p) {}\nint main() { S s; k<<<1, 1>>>(s, nullptr); }":
        "3: the kernel's parameters take 32768 bytes",
    "__global__ void k(float* y, int n) {\n  float s[n];\n  y[0] = s[0];\n}": "2: s[n] has no constant length",
    "template <class T> __device__ T d(T x, const int n) {\n  T a = x;\n  int s[n];\n  s[0] = a;\n  return s[0];\n}\n"
    "__global__ void k(float* y) { *y = d(1.0f, 2); }": "3: s[n] has no constant length",
    "int f(int n) { return n; }\n__global__ void k(int* y) {\n  *y = f(3);\n}": "3: device code calls f,",
    "struct P { int x; };\nstatic P* origin(P p);\n__device__ void d(P p) {\n  origin(p);\n}\n"
    "static P* origin(P p) { return nullptr; }": "4: device code calls origin,",
    "__global__ void k(int* y) { *y = rand(); }": "1: device code calls rand,",
    "int g = 3, h;\nfloat scale[4];\n__global__ void k(float* y) {\n  y[0] = scale[1];\n}": "4: device code uses scale,",
    "__global__ void k(int* y) {\n  try { *y = 1; } catch (...) {}\n}": "2: try and catch",
    "struct A { __device__ void f(int* y) { if (!y) { throw 1; } } };": "1: throw is not",
    "int f(int n) { return n; }\ntemplate <typename T, int N = 4> __global__ void k(T* y) {\n  *y = f(N);\n}\n"
    "void g(int* y) { k<int, 3><<<1, 1>>>(y); }": "3: device code calls f,",
    "float scale = 2;\ntemplate <int N> __device__ float d(float x) {\n  return scale * x;\n}\n"
    "__global__ void k(float* y) { *y = d<3>(1); }": "3: device code uses scale,",
    "template <class... T> __device__ void d(T... x) {\n  throw 1;\n}\n__global__ void k() { d(1, 2); }":
        "2: throw is not",
    "__global__ int k(int* y) { return 1; }": "1: a kernel returns void, and this one int",
}  # fmt: skip

#: A program that nvcc 13.0 takes: host names that device code may have, and lengths that are constants.
TAKEN = r"""
#include <cmath>
#include <stdexcept>
#define SIZE 4
#define HD __host__ __device__
constexpr int LENGTH = 8;
const int count = 3;
const float ratio = 2.5f;
int global = 3, hidden = 1, same = 2, table[4];
int guarded(int n) { return n; }
int shadowed(int n) { return n; }
int forward(int n);
__device__ int forward(int n) { return n; }
__device__ int declared(int n);
int declared(int n) { return n; }
HD int both(int n) { return n; }
int local(int n) { return n; }
static inline int member(int n) { return n; }
template <class T> T unused(T x) { return x; }
struct P {
    int hidden;
    HD int member(int n) const { return n + hidden; }
    __device__ int twice(int n) const { return member(n) * 2; }
};
HD void checked(const int* x) {
    if (!x) {
#ifndef __CUDA_ARCH__
        throw std::runtime_error("null");
#endif
    }
}
template <class T> __global__ void never(T* y, int n) { T s[n]; y[0] = unused(s[0]) + global + guarded(n); }
template <int N> __global__ void neither(int* y) { if (N) throw N; y[0] = global + rand(); }
template <bool HAS> __device__ int chosen(int n) { if constexpr (HAS) return guarded(n); else return n; }
template <class T> __device__ T own(T shadowed) { return shadowed + both(shadowed); }
template <class T> __device__ void varies(T* y, int n) { int s[n]; y[0] = s[0]; }
__device__ int inner(int n) { { const int n = 4; int s[n]; s[0] = 1; return s[0]; } }
__device__ int other(int n) { int m = n, n2 = 3; const int a = 4; float s[a]; s[n2 & 3] = m; return s[3]; }
template <int ROWS, int N> __device__ int rows(int n) { int s[ROWS], t[N]; s[0] = t[0] = n; return s[0] + t[0]; }
template <> __device__ float own<float>(float x) { return x + 1; }
__constant__ float filled[16384];
extern __constant__ float filled[16384];
__global__ void k(int* y, int same, P p) {
    auto local = [](int n) { return n + 1; };
    float a[SIZE], b[LENGTH], c[count * 2], d[sizeof(table) / sizeof(table[0])], e[int(std::ceil(7 / 2.0))];
    int hidden = 2;
    checked(y);
    a[0] = b[0] = c[0] = d[0] = e[0] = ratio;
    y[0] = chosen<false>(own(0)) + rows<2, 3>(4) + forward(1) + declared(2) + both(3) + local(4) + p.twice(5) + same + hidden + int(a[0] + b[0] + c[0] + e[0]);
    y[1] = int(d[0] + filled[y[0] & 3]);
#ifndef __CUDA_ARCH__
    y[2] = guarded(1);
#endif
}
int main() {
    int n = global + guarded(table[0]), lengths[n];
    try { lengths[0] = same; } catch (...) { throw; }
    int* y;
    cudaMalloc(&y, 16);
    k<<<1, 1>>>(y, lengths[0], P{1});
    int error = cudaDeviceSynchronize();
    cudaFree(y);
    return error + member(0) + hidden - 1;
}
"""


def compiled(folder: Path, text: str) -> None:
    path = folder / "a.cu"
    path.write_text(text)
    compile_alone(collected((path,), ()), ProgramOptions(find("H100")))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("text", REFUSED)
def test_what_nvcc_refuses_is_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(KernelError) as caught:
        compiled(tmp_path, text)
    assert f"a.cu:{REFUSED[text]}" in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_compiler
@pytest.mark.slow
def test_what_nvcc_takes_runs(tmp_path: Path) -> None:
    path = tmp_path / "a.cu"
    path.write_text(TAKEN)
    outcome = run([path], ProgramOptions(find("H100")))
    assert (outcome.code, outcome.problems) == (0, ())


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "check"])
def test_shared_memory_of_functions_counts(mode: str, tmp_path: Path) -> None:
    """A kernel's arrays and those of the functions that it comes to are one sum; a function that it leaves out is not
    in it.
    """
    path = tmp_path / "a.cu"
    path.write_text(
        "__device__ float f(float x) { __shared__ float a[8000]; a[threadIdx.x] = x; return a[threadIdx.x]; }\n"
        "__global__ void k(float* y) { __shared__ float b[8000]; b[0] = 1; y[0] = f(b[0]); }\n"
        "__global__ void small(float* y) { __shared__ float b[4000]; b[0] = 1; y[0] = f(b[0]); }\n"
        "__global__ void none(float* y) { __shared__ float b[8000]; b[0] = 1; y[0] = b[0]; }\n"
        "int main() { float* y; cudaMalloc(&y, 4);\n"
        "small<<<1, 1>>>(y); none<<<1, 1>>>(y);\nk<<<1, 1>>>(y);\nsmall<<<1, 1>>>(y);\n"
        "int error = cudaDeviceSynchronize(); cudaFree(y); return error; }\n"
    )
    (problem,) = run([path], ProgramOptions(find("H100"), mode)).problems
    assert (problem.kind, problem.places) == ("shared memory", ((str(path), 7),))
    assert "64000 bytes" in problem.message


@pytest.mark.parametrize("text", [t for t in REFUSED if "device code" in REFUSED[t] or "void" in REFUSED[t]])
def test_text_is_marked(text: str) -> None:
    assert "emu_" in of_host.marked(text, [text])


def test_other_text_stays() -> None:
    others = "\n".join(line for line in TAKEN.splitlines() if not line.startswith("template"))
    assert "emu_" not in of_host.marked(others.replace("throw std", "std").replace("y[2] = guarded", ""), [TAKEN])
    assert of_host.marked(TAKEN, [TAKEN]).count(">::emu_") == 7
    assert of_host.marked("int f() { return 1; }", []) == "int f() { return 1; }"


def test_constant_records_keep_lines() -> None:
    text = "__constant__ int a[] = {1,\n2}, *b;\nextern __constant__ int c;\nvoid f() { __constant__ int d; }\n"
    out = constant_sizes.counted(text, "a.cu")
    assert out.count("\n") == text.count("\n")
    assert [name for name in "abcd" if f', {name}, "a.cu:1")' in out] == ["a", "b"]
    assert out.count("EMU_CONSTANT_BYTES") == 2


def test_a_kernel_without_main_is_refused_for_what_it_returns() -> None:
    source = assembled(Path("a.cu"), "__global__ int k(int* y) { return 1; }")
    assert list(unreadable(source)) == ["k"]
    assert unreadable(source)["k"].endswith("a kernel returns void")


@needs_compiler
@pytest.mark.slow
def test_a_kernel_without_main_is_refused_for_an_array_of_variable_length() -> None:
    source = assembled(Path("a.cu"), "__global__ void k(float* y, int n) {\n  float s[n];\n  y[0] = s[0];\n}\n")
    assert errors_of(source)["k"].startswith("a.cu:2: s[n] has no constant length")


@needs_compiler
@pytest.mark.slow
def test_a_kernel_without_main_is_refused_for_its_parameters() -> None:
    source = assembled(Path("a.cu"), "struct S { char c[32768]; };\n__global__ void k(S s) {}\n")
    assert errors_of(source)["k"].startswith("a.cu: the kernel's parameters take 32768 bytes")


def test_an_error_in_a_macro_has_the_line_of_its_use() -> None:
    """#define N 16, and a function with a parameter N."""
    said = (
        "a.cu:7:11: error: expected ',' or '...' before numeric constant\n    7 | #define N 16\n      |           ^~\n"
        "a.cu:84:19: note: in expansion of macro 'N'\n   84 | int f(int *a, int N)\n      |                   ^\n"
        "a.cu:9:27: error: 'x' was not declared\na.cu:90:11: note: in expansion of macro 'CHECK'\n"
    )
    reason = "expected ',' or '...' before numeric constant"
    assert first_error(said, Path("a.cu")) == f"a.cu:84: {reason}; N is a macro"
    assert first_error(said.partition("a.cu:84")[0], Path("a.cu")) == f"a.cu:7: {reason}"


def test_a_line_of_a_notebook_is_named() -> None:
    said = (
        "a.cu:1:1: error: expected unqualified-id before '%' token\n    1 | %%cu\n      | ^\n"
        "a.cu:4:8: error: expected unqualified-id before '%' token\n    4 | int a; %x\n"
    )
    named = "%%cu is a command of a notebook and no C++: take the line out"
    assert first_error(said, Path("a.cu")) == f"a.cu:1: {named}"
    assert first_error_of_kernels(said, "a.cu") == f"a.cu:1: {named}"
    other = said.partition("a.cu:4")[2]
    assert first_error("a.cu:4" + other, Path("a.cu")).endswith("before '%' token")


@needs_compiler
@pytest.mark.slow
def test_a_program_runs_up_to_its_first_call_of_opengl(tmp_path: Path) -> None:
    path = tmp_path / "a.cu"
    path.write_text(
        "#include <GL/glut.h>\nint main(int n, char**) {\n    if (n > 5) {\n"
        "        glColorMaterial(GL_FRONT, GL_AMBIENT_AND_DIFFUSE), glAccum(1, 2), glColor3ub(1, 2, 3);\n    }\n"
        "    return 7;\n}\n"
    )
    assert run([path], ProgramOptions(find("H100"))).code == 7
