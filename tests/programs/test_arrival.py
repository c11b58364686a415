"""Results that host code reads before they have arrived, or that no thread has written, in checked programs."""

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
constexpr int N = 1000;
__global__ void fill(float* x, float value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) x[i] = value;
}
__global__ void inner(float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < N - 1) x[i] = 1;
}
__global__ void endless(float* x) {
    for (int k = 1; k >= 0; k /= 2) x[threadIdx.x] += k;
}
__global__ void together(int* x) { atomicAdd_system(x, 1); }
int main(int, char** argv) {
    int what = atoi(argv[1]);
    float *m, *h, *d, out[N];
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaStreamCreate(&s), cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking), cudaEventCreate(&e);
    cudaMallocManaged(&m, sizeof out), cudaMallocHost(&h, sizeof out), cudaMalloc(&d, sizeof out);
    switch (what) {
        case 0: case 1: case 2:
            fill<<<4, 256>>>(m, 1);
            if (what == 1) cudaDeviceSynchronize();
            if (what == 2) cudaMemset(d, 0, sizeof out), cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost);
            out[0] = m[0];
            break;
        case 3: case 4: case 5: case 6: case 7:
            fill<<<4, 256, 0, s>>>(d, 2);
            cudaMemcpyAsync(h, d, sizeof out, cudaMemcpyDeviceToHost, s);
            cudaEventRecord(e, s);
            if (what == 4) cudaStreamSynchronize(s);
            if (what == 5) cudaStreamSynchronize(t);
            if (what == 6) cudaEventSynchronize(e);
            if (what == 7) cudaStreamWaitEvent(t, e), cudaStreamSynchronize(t);
            out[0] = h[0];
            break;
        case 8: {
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
            fill<<<4, 256, 0, s>>>(m, 3);
            cudaStreamEndCapture(s, &graph);
            cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0);
            cudaGraphLaunch(exec, t);
            cudaStreamSynchronize(t);
            out[0] = m[0];
            break;
        }
        case 9: case 10:
            if (what == 9) fill<<<N / 256, 256>>>(d, 4);
            else inner<<<4, 256>>>(d);
            cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost);
            break;
        case 11:
            cudaFree(d);
            fill<<<4, 256>>>(d, 5);
            break;
        case 12: endless<<<1, 32>>>(m); break;
        case 13:
            together<<<1, 32>>>((int*)m);
            __sync_fetch_and_add((int*)m, 1);
    }
    cudaGetLastError();
    return 7 * (out[0] == -1);
}
"""

#: Kind and words of the fault by the program's argument; "" for a correct program.
EXPECTED = {
    0: ("not arrived", "at program.cu:28: kernel fill, launched at program.cu:25, changes managed memory m"),
    1: ("", ""),
    2: ("", ""),
    3: ("not arrived", "at program.cu:38: cudaMemcpyAsync at program.cu:32 changes page-locked host memory h"),
    4: ("", ""),
    5: ("not arrived", "nothing has waited for it"),
    6: ("", ""),
    7: ("", ""),
    8: ("", ""),
    9: ("unwritten", "232 of 1000 elements of device memory d of 4000 bytes (allocated at program.cu:22) that nothing "
        "has written, the first of them number 768: kernel fill at program.cu:53 has 768 threads"),
    10: ("", ""),
    11: ("out of bounds", "the memory was freed at program.cu:58"),
    12: ("time limit", "is at program.cu:13"),
    13: ("", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("arrival") / "program.cu"
    path.write_text(PROGRAM.lstrip())
    run([path], ProgramOptions(find("T4"), "check"), ("99",))
    return path


@pytest.mark.parametrize("number", EXPECTED)
def test_the_host_waits_for_results_that_are_written(file, number):
    outcome = run([file], ProgramOptions(find("T4"), "check"), (str(number),), limit=4 if number == 12 else 120)
    kind, words = EXPECTED[number]
    assert [problem.kind for problem in outcome.problems] == [kind] * bool(kind)
    assert all(words in problem.message for problem in outcome.problems), outcome.problems
    assert outcome.is_late == (number == 12)
    unwritten = [remark.message for remark in outcome.remarks if remark.kind == "unwritten"]
    assert unwritten == [] if number != 10 else "2 of 1000 elements" in unwritten[0]
