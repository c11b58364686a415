"""Work of several streams on the same memory, and results that nothing reads, in checked programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.errors import KernelError
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <vector>
int min(int a, int b);
constexpr int N = 1000;
__constant__ float taps[5];
__global__ void fill(float* x, int first, int last) {
    int i = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < min(last, N)) x[i] = i;
}
__global__ void twice(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * x[i];
}
__global__ void count(int* total) { atomicAdd(total, 1); }
__global__ void triple(float* x) { x[threadIdx.x] *= 3; }
__global__ void sleep_then_set(int* flag) {
    for (int i = 0; i < 2000; ++i) __nanosleep(1000);
    *flag = 1;
}
int main(int, char** argv) {
    float *d, *y, *h;
    std::vector<float> x(N);
    float* all = x.data();
    cudaStream_t s, t, own;
    cudaEvent_t e;
    cudaStreamCreate(&s), cudaStreamCreate(&t), cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    cudaEventCreate(&e);
    cudaMalloc(&d, N * sizeof(float)), cudaMalloc(&y, N * sizeof(float)), cudaMallocHost(&h, N * sizeof(float));
    switch (atoi(argv[1])) {
        case 0:
            fill<<<4, 256, 0, s>>>(d, 0, N);
            twice<<<4, 256, 0, t>>>(d, y);
            break;
        case 1:
            fill<<<4, 256, 0, s>>>(d, 0, N);
            cudaEventRecord(e, s), cudaStreamWaitEvent(t, e);
            twice<<<4, 256, 0, t>>>(d, y);
            break;
        case 2:  // parts of one array
            fill<<<2, 256, 0, s>>>(d, 0, 499);
            fill<<<2, 256, 0, t>>>(d, 499, N);
            cudaDeviceSynchronize();
            twice<<<4, 256>>>(d, y);
            break;
        case 3:  // the default stream waits for the blocking ones, and they for it
            fill<<<4, 256, 0, s>>>(d, 0, N);
            twice<<<4, 256>>>(d, y);
            cudaMemsetAsync(d, 0, N * sizeof(float), t);
            break;
        case 4:
            fill<<<4, 256, 0, own>>>(d, 0, N);
            cudaMemcpy(x.data(), d, N * sizeof(float), cudaMemcpyDeviceToHost);
            break;
        case 5:
            cudaMemset(y, 0, 4), cudaDeviceSynchronize();
            count<<<2, 32, 0, s>>>((int*)y), count<<<2, 32, 0, t>>>((int*)y);
            break;
        case 6:
            cudaMemsetAsync(d, 0, N * sizeof(float), s);
            cudaMemcpyAsync(h, d, N * sizeof(float), cudaMemcpyDeviceToHost, t);
            break;
        case 7: fill<<<4, 256>>>(d, 0, N); break;
        case 8:
            cudaMemcpy(d, h, N * sizeof(float), cudaMemcpyHostToDevice);
            triple<<<1, 256>>>(d);
            break;
        case 9: cudaMemcpy(d, all, sizeof(all), cudaMemcpyHostToDevice); break;
        case 10: sleep_then_set<<<1, 64>>>((int*)d); break;
        case 12: cudaMemcpyToSymbol(taps, all, 5); break;
        case 11: {
            float* m;
            cudaMallocManaged(&m, 100 * sizeof(float));
            m[1100] = 1;
        }
    }
    cudaDeviceSynchronize();
    if (atoi(argv[1]) < 7) cudaMemcpy(x.data(), y, N * sizeof(float), cudaMemcpyDeviceToHost);
    return cudaGetLastError() != cudaSuccess;
}
"""

#: Kind and words of the fault or the remark by the program's argument; "" for none.
EXPECTED = {
    0: ("streams", "kernel twice, launched at program.cu:33, reads device memory d of 4000 bytes (allocated at "
        "program.cu:29), from byte 0 on, which kernel fill, launched at program.cu:32, writes in another stream"),
    1: ("", ""),
    2: ("", ""),
    3: ("", ""),
    4: ("streams", "cudaMemcpy at program.cu:53 reads device memory d"),
    5: ("", ""),
    6: ("streams", "which cudaMemsetAsync at program.cu:60 writes in another stream"),
    7: ("unread result", "what kernel fill, launched at program.cu:63, stores in device memory d"),
    8: ("unread result", "nothing that a kernel stores ever comes to the host; the last is kernel triple"),
    9: ("bytes", "cudaMemcpy at program.cu:68 takes sizeof of a pointer, 8 bytes, and not the array's"),
    10: ("unread result", "what kernel sleep_then_set"),
    11: ("out of bounds", "host code reads or writes outside of an allocation at program.cu:74: 4000 bytes after"),
    12: ("bytes", "cudaMemcpyToSymbol at program.cu:70 takes 5 of the variable's 20 bytes: a number of elements"),
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "program.cu"
    path.write_text(PROGRAM.lstrip())
    run([path], ProgramOptions(find("T4"), "check"), ("99",))
    return path


@pytest.mark.parametrize("number", EXPECTED)
def test_streams_are_ordered_and_results_are_read(file, number):
    outcome = run([file], ProgramOptions(find("T4"), "check"), (str(number),), limit=120)
    kind, words = EXPECTED[number]
    found = [*outcome.problems, *(remark for remark in outcome.remarks if remark.kind == "unread result")]
    assert [each.kind for each in found] == [kind] * bool(kind), found
    assert all(words in each.message for each in found), found


def test_two_programs_are_not_one(tmp_path):
    files = [tmp_path / "a.cu", tmp_path / "b.cu"]
    files[0].write_text("void helper() {}\nint main() { helper(); }\n")
    files[1].write_text("\nvoid helper() {}\n")
    with pytest.raises(KernelError, match=r"^the program defines helper\(\) twice, at \S*b.cu:2 and \S*a.cu:1: name"):
        run(files, ProgramOptions(find("T4")))
