"""Order of work: nodes of a graph without a dependency, and what a stream's function of the host makes known."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.faults import hint
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome, run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: The first argument of main chooses the kind, the second whether it is right.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>

const int N = 4096;
__global__ void scale(float* x, float by) { x[threadIdx.x + blockIdx.x * blockDim.x] *= by; }
__global__ void add(float* z, const float* x, const float* y) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    z[i] = x[i] + y[i];
}
void told(void* data) { *(FLAG int*)data = 1; }
int main(int, char** argv) {
    const int kind = atoi(argv[1]), right = atoi(argv[2]);
    float *x, *y, *z, *host;
    FLAG int called = 0;
    cudaMalloc(&x, 4 * N), cudaMalloc(&y, 4 * N), cudaMalloc(&z, 4 * N), cudaMallocHost(&host, 4 * N);
    cudaMemset(x, 0, 4 * N), cudaMemset(y, 0, 4 * N);
    cudaStream_t one, two;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    cudaEvent_t fork, join, between;
    cudaEventCreate(&fork), cudaEventCreate(&join), cudaEventCreate(&between);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec;
    if (kind == 0) {
        cudaGraphCreate(&graph, 0);
        cudaMemsetParams fill = {};
        fill.dst = y, fill.elementSize = 4, fill.width = N, fill.height = 1;
        float by = 2;
        void *scaled[] = {&x, &by}, *added[] = {&z, &x, &y};
        cudaKernelNodeParams first = {}, second = {};
        first.func = (void*)scale, first.gridDim = N / 256, first.blockDim = 256, first.kernelParams = scaled;
        second = first, second.func = (void*)add, second.kernelParams = added;
        cudaGraphNode_t before[2], last;
        cudaGraphAddKernelNode(&before[0], graph, nullptr, 0, &first);
        cudaGraphAddMemsetNode(&before[1], graph, nullptr, 0, &fill);
        cudaGraphAddKernelNode(&last, graph, before, 1 + right, &second);  // 0
    }
    if (kind == 1) {
        cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
        cudaEventRecord(fork, one), cudaStreamWaitEvent(two, fork, 0);
        scale<<<N / 256, 256, 0, one>>>(x, 2);
        if (right) cudaEventRecord(between, one), cudaStreamWaitEvent(two, between, 0);
        add<<<N / 256, 256, 0, two>>>(z, x, y);  // 1
        cudaEventRecord(join, two), cudaStreamWaitEvent(one, join, 0);
        cudaStreamEndCapture(one, &graph);
    }
    if (graph) {
        cudaGraphInstantiate(&exec, graph, 0);
        for (int i = 0; i < 2; ++i) cudaGraphLaunch(exec, kind == 0 ? 0 : two);
        cudaDeviceSynchronize();
        cudaMemcpy(host, z, 4 * N, cudaMemcpyDeviceToHost);
        cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
    } else {
        scale<<<N / 256, 256, 0, one>>>(x, 2);
        cudaMemcpyAsync(host, x, 4 * N, cudaMemcpyDeviceToHost, one);
        cudaLaunchHostFunc(one, told, (void*)&called);
        if (right && kind == 2) cudaStreamSynchronize(one);
        if (right && kind == 4) while (!called) {}
        if (kind == 3) {
            if (right) cudaEventRecord(join, one), cudaStreamWaitEvent(two, join, 0);
            scale<<<N / 256, 256, 0, two>>>(x, 2);  // 3
        } else printf("%g\n", host[7]);  // 2
    }
    cudaDeviceSynchronize();
    cudaFree(x), cudaFree(y), cudaFree(z), cudaFreeHost(host);
    return cudaGetLastError() != cudaSuccess;
}
"""


def outcome(tmp_path: Path, kind: int, right: int) -> ProgramOutcome:
    text = PROGRAM.replace("FLAG", "volatile" if kind == 4 else "")
    file = tmp_path / "program.cu"
    file.write_text(text)
    return run([file], ProgramOptions(find("H100"), "check"), [str(kind), str(right)])


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        (0, "streams", "in another node of the graph, and no dependency orders the two"),
        (1, "streams", "in another node of the graph, and no dependency orders the two"),
        (2, "not arrived", "is still on its way"),
        (3, "streams", "in another stream, and no event and no wait orders the two"),
    ],
)
def test_work_without_an_order_is_reported(tmp_path: Path, case: int, kind: str, words: str) -> None:
    problem = outcome(tmp_path, case, 0).problems[0]
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"// {case}"))
    assert (problem.kind, problem.places[0][1]) == (kind, line)
    assert words in problem.message
    assert hint(problem)


@pytest.mark.parametrize("case", range(5))
def test_work_with_an_order_is_silent(tmp_path: Path, case: int) -> None:
    found = outcome(tmp_path, case, 1)
    assert (found.code, found.problems) == (0, ())


#: A number that one block hands to another by a flag, both volatile, with fences or without.
HANDED_OVER = r"""
#include <cstdio>
#include <cstdlib>
__constant__ struct { float taps[9]; int count; } filter;
__global__ void pass(volatile int* data, volatile int* flag, int* out, int fenced) {
    if (blockIdx.x == 0) {
        data[0] = 42;  // stored
        if (fenced) __threadfence();
        flag[0] = 1;
    } else {
        while (flag[0] == 0) {}
        if (fenced) __threadfence();
        out[0] = data[0];  // read
    }
}
__global__ void counted(int* out) { *out = filter.count; }  // rest
int main(int, char** argv) {
    const int kind = atoi(argv[1]);
    int *x, from[10] = {};
    cudaMallocManaged(&x, 12);
    x[0] = x[1] = x[2] = 0;
    if (kind < 2) pass<<<2, 1>>>(x, x + 1, x + 2, kind);
    else {
        cudaMemcpyToSymbol(filter, from, kind == 2 ? sizeof(int*) : sizeof filter);  // filled
        counted<<<1, 1>>>(x);
    }
    return cudaDeviceSynchronize() != cudaSuccess || cudaFree(x) != cudaSuccess;
}
"""


@pytest.mark.parametrize(
    ("case", "kind", "line", "words"),
    [
        (0, "race", "read", "with no __threadfence() between the two stores"),
        (2, "unfilled", "filled", "fills 8 of the 40 bytes of a variable"),
    ],
)
def test_what_a_fence_or_a_size_leaves_out_is_reported(
    tmp_path: Path, case: int, kind: str, line: str, words: str
) -> None:
    file = tmp_path / "program.cu"
    file.write_text(HANDED_OVER)
    (problem,) = run([file], ProgramOptions(find("H100"), "check"), [str(case)]).problems
    number = next(i for i, text in enumerate(HANDED_OVER.splitlines(), 1) if text.endswith(f"// {line}"))
    assert (problem.kind, problem.places[0][1]) == (kind, number)
    assert words in problem.message
    right = run([file], ProgramOptions(find("H100"), "check"), [str(case + 1)])
    assert (right.code, right.problems, right.remarks) == (0, (), ())
