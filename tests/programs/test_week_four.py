"""Faults of streams, captures, bounds and symbols in checked programs, each beside the same program without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
constexpr int N = 2048;
__constant__ float taps[4];
__global__ void add(const float* x, float* sum) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    sum[i] += x[i] + taps[3];
}
template <class T, int THREADS> __global__ void __launch_bounds__(THREADS) twice(T* x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
}
int main(int, char** argv) {
    const int kind = atoi(argv[1]);
    const bool is_right = !strcmp(argv[2], "right");
    float *host, *managed, *x, *sum, ms = 0, values[4] = {1, 1, 1, 1}, *four = values;
    cudaStream_t s;
    cudaEvent_t a, b;
    cudaGraph_t graph;
    cudaStreamCreate(&s), cudaEventCreate(&a), cudaEventCreate(&b);
    cudaMallocHost(&host, N * sizeof(float)), cudaMallocManaged(&managed, N * sizeof(float));
    cudaMalloc(&x, N * sizeof(float)), cudaMalloc(&sum, N * sizeof(float));
    cudaMemset(x, 0, N * sizeof(float)), cudaMemset(sum, 0, N * sizeof(float));
    for (int i = 0; i < N; ++i) host[i] = managed[i] = i;
    if (kind == 0) {
        cudaMemcpyAsync(x, host, N * sizeof(float), cudaMemcpyHostToDevice, s);
        if (is_right) cudaStreamSynchronize(s);
        host[1000] = 1;  // 0
    }
    if (kind == 1) {
        add<<<4, N / 8, 0, s>>>(managed, sum);
        if (is_right) cudaStreamSynchronize(s);
        managed[500] = 1;  // 1
        managed[N - 1] = 1;
    }
    if (kind == 2) {
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        add<<<8, N / 8, 0, s>>>(x, sum);
        add<<<8, N / 8, 0, is_right ? s : 0>>>(x, sum);  // 2
        cudaStreamEndCapture(s, &graph);
        if (graph) cudaGraphDestroy(graph);
    }
    if (kind == 3) {
        if (is_right) twice<float, 512><<<4, 512>>>(x);
        else twice<float, 256><<<4, 512>>>(x);  // 3
    }
    if (kind == 4 && is_right) cudaMemcpyToSymbol(taps, four, 4 * sizeof(*four));
    if (kind == 4 && !is_right) cudaMemcpyToSymbol(taps, four, sizeof(four));  // 4
    if (kind == 5) {
        cudaEventRecord(a, s);
        add<<<8, N / 8, 0, s>>>(x, sum);
        cudaEventRecord(b, s);
        if (is_right) cudaEventSynchronize(b);
        cudaEventElapsedTime(&ms, a, b);  // 5
    }
    if (cudaGetLastError() != cudaSuccess) return 1;
    cudaDeviceSynchronize();
    cudaMemcpy(host, sum, N * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(host, x, N * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFreeHost(host), cudaFree(managed), cudaFree(x), cudaFree(sum);
}
"""

#: Kind and words of each fault; its line ends with its number.
EXPECTED = [
    ("not arrived", "reads page-locked host memory host"),
    ("not arrived", "reads managed memory managed"),
    ("capture", "of the default stream while another one is captured"),
    ("launch", "512 threads a block, and its __launch_bounds__ allow 256"),
    ("bytes", "takes sizeof of a pointer, 8 bytes, and not the variable's 16"),
    ("not arrived", "gets an event that nothing has waited for"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("week_four") / "program.cu"
    path.write_text(PROGRAM.lstrip())
    return path


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_a_fault_is_named_and_its_right_twin_is_silent(file, number):
    options = ProgramOptions(find("T4"), "check")
    assert run([file], options, (str(number), "right"), limit=120).problems == ()
    (problem,) = run([file], options, (str(number), "wrong"), limit=120).problems
    kind, words = EXPECTED[number]
    line = next(at for at, text in enumerate(PROGRAM.lstrip().splitlines(), 1) if text.endswith(f"// {number}"))
    assert problem.kind == kind
    assert words in problem.message
    assert (str(file), line) in problem.places
