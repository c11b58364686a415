"""Memory that graphs allocate and free: by captured calls and by nodes, freed later, and used at the wrong time."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program with each fault: the first argument of main chooses it. 3 to 6 are right.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
__global__ void square(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];  // 2
}
void ok(cudaError_t error) {
    if (error != cudaSuccess) printf("%d\n", error);
}
int main(int, char** argv) {
    int kind = atoi(argv[1]), n = 200;
    size_t bytes = n * sizeof(float);
    float *x, *y, host[200];
    for (int i = 0; i < n; ++i) host[i] = i;
    ok(cudaMalloc(&x, bytes));
    ok(cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice));
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ok(cudaStreamCreate(&s));
    if (kind == 6) {
        ok(cudaGraphCreate(&graph, 0));
        cudaGraphNode_t made, squares, copied, freed;
        cudaMemAllocNodeParams memory = {};
        memory.poolProps.allocType = cudaMemAllocationTypePinned;
        memory.poolProps.location.type = cudaMemLocationTypeDevice;
        memory.bytesize = bytes;
        ok(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &memory));
        y = (float*)memory.dptr;
        void* arguments[] = {&x, &y, &n};
        cudaKernelNodeParams kernel = {};
        kernel.func = (void*)square, kernel.gridDim = dim3(1), kernel.blockDim = dim3(256);
        kernel.kernelParams = arguments;
        ok(cudaGraphAddKernelNode(&squares, graph, &made, 1, &kernel));
        ok(cudaGraphAddMemcpyNode1D(&copied, graph, &squares, 1, host, y, bytes, cudaMemcpyDeviceToHost));
        ok(cudaGraphAddMemFreeNode(&freed, graph, &copied, 1, y));
        cudaGraphNodeType type;
        void* pointer;
        ok(cudaGraphNodeGetType(freed, &type)), ok(cudaGraphMemFreeNodeGetParams(freed, &pointer));
        if (type != cudaGraphNodeTypeMemFree || pointer != y) printf("wrong\n");
    } else {
        ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        ok(cudaMallocAsync(&y, bytes, s));
        square<<<1, 256, 0, s>>>(x, y, n);
        if (kind == 0) ok(cudaFreeAsync(y, s));
        ok(cudaMemcpyAsync(host, y, bytes, cudaMemcpyDeviceToHost, s));  // 0
        if (kind == 2 || kind == 3) ok(cudaFreeAsync(y, s));
        ok(cudaStreamEndCapture(s, &graph));
    }
    ok(cudaGraphInstantiate(&exec, graph, kind == 4 ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0));
    if (kind == 2) {
        square<<<1, 256, 0, s>>>(x, y, n);
        ok(cudaGetLastError());
    }
    for (int turn = 0; turn < 2; ++turn) {
        ok(cudaGraphLaunch(exec, s));  // 1
        if (kind == 5) ok(cudaFreeAsync(y, s));
    }
    ok(cudaStreamSynchronize(s));
    if (kind == 1 || kind == 4) ok(cudaFreeAsync(y, s));
    if (kind > 2) printf("%g\n", host[199]);
    ok(cudaGraphExecDestroy(exec)), ok(cudaGraphDestroy(graph)), ok(cudaStreamDestroy(s)), ok(cudaFree(x));
}
"""

#: Kind of each fault, by its number.
KINDS = {0: "copy", 1: "launch", 2: "out of bounds"}


@pytest.mark.parametrize("number", range(7))
def test_memory_of_a_graph_is_there_between_its_nodes(tmp_path, number: int, capfd) -> None:
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    outcome = run([file], ProgramOptions(find("H100"), "check"), (str(number),), limit=120)
    printed = capfd.readouterr().out
    found = {(problem.kind, problem.places[0][1]) for problem in outcome.problems}
    lines = [at + 1 for at, line in enumerate(PROGRAM.splitlines()) if line.endswith(f"// {number}")]
    assert found == {(KINDS[number], line) for line in lines}, outcome
    assert number < 3 or printed == "39601\n"
