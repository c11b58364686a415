"""Copies that an array of the host is too short for, by where it lies; variables and addresses of the device in host
code; and right programs with arrays of every kind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.faults import hint
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run
from warpladder.programs.symbols import touched

needs_gcc = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: Each fault by the first argument of main; 0 is right.
PROGRAM = r"""
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>
static float outside[100];
struct { int id; float x[50], y[50]; } body;
__device__ int* kept;
__global__ void keep(int** all) { int local[4] = {1, 2, 3, int(threadIdx.x)}; all[threadIdx.x] = local; kept = local; }
__global__ void follow(int** all, int* out) { out[threadIdx.x] = all[threadIdx.x][3]; }  // 7
__global__ void sum(volatile float* x, float* out) {
    __shared__ float s[64];
    volatile float* v = s;
    int t = threadIdx.x;
    v[t] = x[t];
    __syncthreads();
    if (t < 32) {
        v[t] += v[t + 32];  // 8
        v[t] += v[t + 16];
        v[t] += v[t + 8];
    }
    if (t == 0) *out = v[0];
}
float* device;
void both(float* h, size_t n) {
    cudaMemcpy(device, h, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(h, device, n * sizeof(float), cudaMemcpyDeviceToHost);
}
void right(int n) {
    float rows[4][8] = {}, vla[n] = {};
    cudaMemcpy(device, &vla, sizeof vla, cudaMemcpyHostToDevice);
    cudaMemcpyAsync(&vla, device, sizeof vla, cudaMemcpyDeviceToHost);
    both(vla, n), both(&rows[2][0], 16), both(outside, 100), both(outside + 40, 60);
    both(body.x, 100), both(body.y, 50);
    std::vector<float> v(1000), grown, spare;
    for (int i = 0; i < 1000; i++) grown.push_back(1);
    spare.reserve(64);
    both(v.data(), 1000), both(&v[900], 100), both(grown.data(), 1000), both(spare.data(), 64);
    float* h = (float*)calloc(10, sizeof(float));
    h = (float*)realloc(h, 4000), both(h, 1000), free(h);
    float* a = (float*)aligned_alloc(4096, 8192);
    both(a, 2048), free(a);
    auto u = std::make_unique<float[]>(200);
    std::string s(4096, 'a');
    both(u.get(), 200), both((float*)&s[0], 1024);
    std::thread([] { std::array<float, 500> mine{}; both(mine.data(), 500); }).join();
}
int main(int, char** argv) {
    cudaMalloc(&device, 1 << 20), cudaMemset(device, 0, 1 << 20);
    int kind = atoi(argv[1]);
    if (kind == 0) right(100), right(3000);
    if (kind == 1) {
        float* h = (float*)malloc(1000);  // 1 from
        cudaMemcpy(h, device, 4000, cudaMemcpyDeviceToHost);  // 1
        free(h);
    }
    if (kind == 2) {
        std::vector<float> h(500);
        cudaMemcpy(h.data() + 100, device, 2000, cudaMemcpyDeviceToHost);  // 2
    }
    if (kind == 3) cudaMemcpy(outside, device, 404, cudaMemcpyDeviceToHost);  // 3
    if (kind == 4) {
        float h[100];
        cudaMemcpy(h, device, 40000, cudaMemcpyDeviceToHost);  // 4
        printf("%g\n", h[5]);
    }
    if (kind == 5) {
        int* h = new int[100];
        cudaMemcpy(device, h, 404, cudaMemcpyHostToDevice);  // 5
        delete[] h;
    }
    if (kind == 6) free(device);  // 6
    if (kind == 7) {
        int** all;
        cudaMalloc(&all, 32 * sizeof(int*));
        keep<<<1, 32>>>(all), follow<<<1, 32>>>(all, (int*)device);
        cudaDeviceSynchronize();
    }
    if (kind == 8) {
        float total;
        sum<<<1, 64>>>(device, device + 64);
        cudaMemcpy(&total, device + 64, sizeof total, cudaMemcpyDeviceToHost);
    }
    if (kind != 6) cudaFree(device);
    return 0;
}
"""

#: Kind of each fault, a part of its message, and one of its remedy.
EXPECTED = {
    1: ("copy", "4000 bytes are more than the target has: an array of the host of 1000 bytes (allocated at", "sizes"),
    2: ("copy", "2000 bytes from byte 400 on are more than the target has: an array of the host of 2000", "sizes"),
    3: ("copy", "404 bytes are more than the target has: the variable outside of 400 bytes", "sizes"),
    4: ("copy", "40000 bytes are more than the target has: a local variable of host code of at most", "sizes"),
    5: ("copy", "404 bytes are more than the source has: an array of the host of 400 bytes (allocated at", "sizes"),
    6: ("free", "gives free() or delete what cudaFree is for: device memory device", "cudaFree"),
    7: ("out of bounds", "of a local variable that is no more: its thread or its function has ended", "others read"),
    8: ("race", "orders these lanes of one warp: volatile does not", "__syncwarp()"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("program") / "arrays.cu"
    file.write_text(PROGRAM)
    return file


def line_of(mark: str) -> int:
    """Line of a comment in the program, from 1."""
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith(f"// {mark}"))


MODES = ["fast", pytest.param("check", marks=pytest.mark.slow)]


@needs_gcc
@pytest.mark.parametrize("mode", MODES)
def test_arrays_of_every_kind_may_be_copied_whole(program: Path, mode: str) -> None:
    outcome = run([program], ProgramOptions(find("H100"), mode), ["0"])
    assert (outcome.code, outcome.problems) == (0, ())


@needs_gcc
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(1, 7))
def test_a_copy_beyond_an_array_of_the_host_names_both_lengths(program: Path, number: int, mode: str) -> None:
    outcome = run([program], ProgramOptions(find("H100"), mode), [str(number)])
    assert len(outcome.problems) == 1, outcome.problems
    (problem,) = outcome.problems
    kind, message, remedy = EXPECTED[number]
    assert (problem.kind, problem.places[0][1]) == (kind, line_of(str(number)))
    assert message in problem.message and remedy in hint(problem)
    if number == 1:
        assert problem.places[1][1] == line_of("1 from")
    assert outcome.code == 0  # it goes on, as on a GPU


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("number", [7, 8])
def test_a_check_finds_dead_local_variables_and_tells_a_sum_of_lanes_once(program: Path, number: int) -> None:
    outcome = run([program], ProgramOptions(find("H100"), "check"), [str(number)])
    kind, message, remedy = EXPECTED[number]
    (problem,) = (each for each in outcome.problems if each.kind != "unread error")
    assert problem.kind == kind and line_of(str(number)) in {line for _, line in problem.places}
    assert message in problem.message and remedy in hint(problem)


SYMBOLS = r"""
__device__ int counter;
__device__ int table[32];
__constant__ float taps[4];
__device__ unsigned total = 0;
__device__ __managed__ int shown;
__device__ const int LIMIT = 5;
__global__ void k(int* t) { t[threadIdx.x] = taps[0] + table[0] + LIMIT; atomicAdd(&total, 1); shown = 1; }
template <class T> void copy(T& to);
void local() { int total = 3, table[2] = {1, 2}; printf("%d %d", total, table[1]); }
void given(float* taps) { taps[0] = 1; }
void right() {
    cudaMemcpyToSymbol(taps, x, sizeof(taps));
    CHECK(cudaMemcpyFromSymbol(&host, total, sizeof(total)));
    copy(total);
    printf("%d %d %d", shown, LIMIT, data.total);
    each(x, [=] __device__(int i) { return taps[i]; });
}
struct Tap {
    int k;
    __host__ __device__ Tap(int k) : k(k) {}
    __device__ int operator()(int i) const { return taps[i] * k; }
};
"""


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('printf("%u", total);', "total"),
        ('std::cout << total << "\\n";', "total"),
        ("for (int i = 0; i < 4; i++) taps[i] = i;", "taps"),
        ("k<<<1, 32>>>(table);", "table"),
        ("total = 0;", "total"),
    ],
)
def test_a_variable_of_the_device_in_host_code_is_named(line: str, name: str) -> None:
    assert touched(SYMBOLS) == []
    assert touched(f"{SYMBOLS}int main() {{\n    {line}\n}}\n") == [(name, SYMBOLS.count("\n") + 2)]


MANAGED = r"""
#include <cstdio>
__managed__ double sums[4];
static __device__ __managed__ int count = 5;
__managed__ struct P { int a; float b; } pair{3, 4};
__device__ int plain[4];
namespace n { int __managed__ late; }
__global__ void k() {
    atomicAdd(&sums[threadIdx.x], 1.0);
    if (threadIdx.x == 0) count += pair.a, n::late = 9;
}
int main(int argc, char**) {
    double got[4];
    cudaError_t error = cudaMemset(sums, 0, sizeof sums);
    k<<<1, 4>>>();
    error = error ? error : cudaDeviceSynchronize();
    error = error ? error : cudaMemcpy(got, sums, sizeof sums, cudaMemcpyDeviceToHost);
    printf("%g %g %d %d %s\n", got[3], sums[0], count, n::late, cudaGetErrorString(error));
    if (argc > 1) printf("%s\n", cudaGetErrorString(cudaMemset(plain, 0, sizeof plain)));  // wrong
}
"""


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "check"])
def test_a_managed_variable_is_the_device_s_by_its_address_too(tmp_path, capfd, mode):
    path = tmp_path / "managed.cu"
    path.write_text(MANAGED)
    outcome = run([path], ProgramOptions(find("H100"), mode))
    assert (outcome.problems, capfd.readouterr().out) == ((), "1 1 8 9 no error\n")
    (problem,) = run([path], ProgramOptions(find("H100"), mode), ["wrong"]).problems
    assert problem.kind == "copy" and "is a variable of the program" in problem.message
    assert [line for _, line in problem.places] == [MANAGED[: MANAGED.index("// wrong")].count("\n") + 1]


@needs_gcc
@pytest.mark.slow
def test_an_array_of_no_bytes_is_too_short(tmp_path: Path) -> None:
    """A size that does not fit its type, 1024 * 1024 as an unsigned char, is 0."""
    path = tmp_path / "a.cu"
    path.write_text(
        "#include <cstdlib>\nint main() {\n    unsigned char size = 1024 * 1024 % 256;\n"
        "    char *x, *h = (char*)malloc(size), *g = new char[size];\n    cudaMalloc(&x, 1024);\n"
        "    if (cudaMemcpy(h, x, size, cudaMemcpyDeviceToHost)) return 1;\n"
        "    int error = cudaMemcpy(x, h, 1024, cudaMemcpyHostToDevice);\n"
        "    cudaFree(x), free(h), delete[] g;\n    return error == 0;\n}\n"
    )
    outcome = run([path], ProgramOptions(find("H100")))
    assert [(p.kind, p.places[0]) for p in outcome.problems] == [("copy", (str(path), 7))]
    assert "an array of the host of 0 bytes (allocated at" in outcome.problems[0].message
