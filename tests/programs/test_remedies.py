"""Faults whose usual remedy depends on what the program meant: the report names what to change, and right uses stay
silent.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.faults import hint
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome, run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

PROGRAM = r"""
#include <cuda/atomic>
#include <cstdio>
#include <cstdlib>
constexpr int N = 4096;
struct Body { float x, v; };
__global__ void twice(const float* x, float* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = 2 * x[i]; }
__global__ void mark(char* v, int rows, int row, int width) { v[row * width + rows] = 1; }
__global__ void turned(double* x, int n) {
    extern __shared__ double s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[n - 1 - threadIdx.x];
}
__global__ void places(const Body* b, float* y) {
    extern __shared__ char room[];
    Body* near = reinterpret_cast<Body*>(room);
    near[threadIdx.x] = b[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < blockDim.x; ++i) sum += near[i].x;
    y[threadIdx.x] = sum;
}
__global__ void half(const float* x, float* y) {
    extern __shared__ char room[];
    float* s = reinterpret_cast<float*>(room);
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 47) y[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 48];
}
__global__ void counted(float* y, bool is_late) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> places, rest;
    if (threadIdx.x == 0) {
        places = 0;
        if (!is_late) rest.store(5, cuda::memory_order_relaxed);
    }
    __syncthreads();
    y[threadIdx.x] = places.fetch_add(1) + rest.load();
    if (is_late) rest = 5;
}
int main(int, char** argv) {
    static float host[N];
    float *x, *y, *pinned, sum = 0;
    for (float& each : host) each = 3;
    cudaMalloc(&x, sizeof host), cudaMalloc(&y, sizeof host), cudaMallocHost(&pinned, sizeof host);
    cudaMemset(y, 0, sizeof host);
    cudaStream_t s;
    cudaStreamCreate(&s);
    switch (atoi(argv[1])) {
        case 1:
            cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);  // 1
            twice<<<N / 256, 256>>>(x, y);
            break;
        case 2:  // a copy is timed before there is anything to copy
            cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
            cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
            twice<<<N / 256, 256>>>(x, y);
            break;
        case 3:
        case 4: {
            char* v;
            cudaMalloc(&v, size_t(3) << 30);
            mark<<<1, 1>>>(v, 5, atoi(argv[1]) == 3 ? 2500000 : -1000000, 1024);  // 3 4
            cudaDeviceSynchronize();
            break;
        }
        case 5:
            turned<<<1, 256, 256 * sizeof(float)>>>((double*)y, 256);
            break;
        case 6:
            for (int i = 0; i < N; ++i) pinned[i] = i;
            cudaMemcpyAsync(x, pinned, sizeof host, cudaMemcpyHostToDevice, s);
            twice<<<N / 256, 256, 0, s>>>(x, y);
            cudaMemcpyAsync(pinned, y, sizeof host, cudaMemcpyDeviceToHost, s);  // arrives
            sum = pinned[7];  // 6
            break;
        case 7:
        case 8:
            cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
            if (atoi(argv[1]) == 7) places<<<1, 96, 96 * sizeof(Body)>>>((Body*)x, y);
            else half<<<1, 96, 96 * sizeof(float)>>>(x, y);
            break;
        case 9:
            twice<<<256, N>>>(x, y);  // 9
            break;
        case 10:
            twice<<<N / 256, 256>>>(x, nullptr);
            break;
        case 11:
        case 12: counted<<<1, 64>>>(y, argv[1][1] == '2');
    }
    if (cudaGetLastError() == cudaSuccess) cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g\n", sum + host[0]);
    cudaFree(x), cudaFree(y), cudaFreeHost(pinned);
}
"""
SILENT = ((), ())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("remedies") / "program.cu"
    file.write_text(PROGRAM)
    return file


def checked(program: Path, case: int) -> ProgramOutcome:
    return run([program], ProgramOptions(find("H100"), "check"), [str(case)], limit=120)


def line_of(mark: str) -> int:
    lines = enumerate(PROGRAM.splitlines(), 1)
    return next(number for number, text in lines if mark in text.partition("//")[2].split())


@pytest.mark.parametrize(
    ("case", "kind", "array", "words", "remedy"),
    [
        (1, "copy", "x", "target and source are swapped", "the target stands first"),
        (3, "out of bounds", "", "an index that has exceeded an int, 2,147,483,647, in device memory v", "in 64 bits"),
        (4, "out of bounds", "", "belongs to no memory of the device", "a pointer in a struct"),
        (5, "out of bounds", "s", "the 1024 bytes that the launch gives", "third number of <<< >>>"),
        (10, "out of bounds", "", "at address 0: a null pointer", "cudaMalloc before the launch"),
        (12, "uninitialised", "rest", "nothing was ever written there", "write the element"),
        (9, "launch", "", "4096 threads a block", "the second the threads of each"),
    ],
)
def test_a_report_names_what_to_change(
    program: Path, case: int, kind: str, array: str, words: str, remedy: str
) -> None:
    first = checked(program, case).problems[0]
    assert (first.kind, first.array) == (kind, array)
    assert words in first.message
    assert remedy in hint(first)
    if case in (1, 9):
        assert first.places[0][1] == line_of(str(case))


def test_a_read_of_what_is_copied_both_ways_names_the_copy_that_changes_it(program: Path) -> None:
    (problem,) = checked(program, 6).problems
    assert (problem.kind, problem.places[0][1]) == ("not arrived", line_of("6"))
    assert f"program.cu:{line_of('arrives')} changes page-locked host memory pinned" in problem.message


def test_a_copy_before_the_array_is_filled_may_be_timed(program: Path) -> None:
    outcome = checked(program, 2)
    assert outcome.problems == ()
    assert {remark.kind for remark in outcome.remarks} <= {"unwritten"}


def test_members_that_nothing_needs_are_no_lost_elements_and_lost_elements_are_remarked(program: Path) -> None:
    members, elements = checked(program, 7), checked(program, 8)
    assert (members.problems, members.remarks) == SILENT
    assert [remark.kind for remark in elements.remarks] == ["never read"]


def test_a_store_to_an_atomic_object_reads_nothing(program: Path) -> None:
    outcome = checked(program, 11)
    assert (outcome.problems, outcome.remarks) == SILENT
