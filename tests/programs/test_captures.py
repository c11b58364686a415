"""Captures that a GPU refuses, and faults within the functions of the emulator's headers: named with the user's line."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program with each fault: the first argument of main chooses it. 6 and 7 are right.
FAULTS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdio>
#include <cstdlib>
namespace cg = cooperative_groups;
__global__ void add(int* x) { x[threadIdx.x] += 1; }
__global__ void smooth(cudaTextureObject_t t, float* y) {
    y[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.25f, 0.5f);  // 3
}
__global__ void store(cudaSurfaceObject_t s, int size) {
    surf2Dwrite(1.0f, s, threadIdx.x * size, 0);  // 4
}
__global__ void turned(const float* x, float* y) {
    __shared__ float s[32];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof s);  // 5 began
    y[threadIdx.x] = s[31 - threadIdx.x];  // 5
    cg::wait(block);
}
void ok(cudaError_t error) { if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error)); }
int main(int, char** argv) {
    int kind = atoi(argv[1]), *x, *z;
    float *floats, *y, host[32] = {};
    ok(cudaMalloc(&x, 128)), ok(cudaMalloc(&z, 128)), ok(cudaMalloc(&y, 128));
    ok(cudaMemset(x, 0, 128)), ok(cudaMemset(z, 0, 128)), ok(cudaDeviceSynchronize());
    cudaStream_t one, two;
    cudaEvent_t fork, join;
    ok(cudaStreamCreate(&one)), ok(cudaStreamCreate(&two)), ok(cudaEventCreate(&fork)), ok(cudaEventCreate(&join));
    if (kind < 3 || kind == 6) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        ok(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
        add<<<1, 32, 0, one>>>(x);
        ok(cudaEventRecord(fork, one)), ok(cudaStreamWaitEvent(two, fork, 0));
        if (kind == 0) ok(cudaEventRecord(join, two));
        add<<<1, 32, 0, two>>>(z);
        if (kind > 0) ok(cudaEventRecord(join, two));
        if (kind != 2) ok(cudaStreamWaitEvent(one, join, 0));
        cudaStream_t ends = kind == 1 ? two : one;
        cudaError_t error = cudaStreamEndCapture(ends, &graph);  // 0, 1, 2
        if (error == cudaSuccess) {
            ok(cudaGraphInstantiate(&exec, graph, 0)), ok(cudaGraphLaunch(exec, one)), ok(cudaStreamSynchronize(one));
            ok(cudaGraphExecDestroy(exec)), ok(cudaGraphDestroy(graph));
        } else printf("%d\n", error);
    }
    if (kind == 3 || kind == 4 || kind == 7) {
        cudaArray_t array;
        cudaChannelFormatDesc of = cudaCreateChannelDesc<float>();
        ok(cudaMallocArray(&array, &of, 32, 1, cudaArraySurfaceLoadStore));
        if (kind == 7) ok(cudaMemcpy2DToArray(array, 0, 0, host, 128, 128, 1, cudaMemcpyHostToDevice));
        cudaResourceDesc from = {};
        from.resType = cudaResourceTypeArray, from.res.array.array = array;
        cudaTextureDesc how = {};
        how.readMode = cudaReadModeElementType, how.filterMode = cudaFilterModeLinear;
        how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
        cudaTextureObject_t texture;
        cudaSurfaceObject_t surface;
        ok(cudaCreateTextureObject(&texture, &from, &how, nullptr)), ok(cudaCreateSurfaceObject(&surface, &from));
        if (kind != 3) store<<<1, 32>>>(surface, kind == 4 ? 1 : 4);
        if (kind != 4) smooth<<<1, 32>>>(texture, y);
        ok(cudaGetLastError()), ok(cudaMemcpy(host, y, 128, cudaMemcpyDeviceToHost));
        if (kind == 7 && host[31] != 1) printf("%g\n", host[31]);
        ok(cudaDestroyTextureObject(texture)), ok(cudaDestroySurfaceObject(surface)), ok(cudaFreeArray(array));
    }
    if (kind == 5) {
        ok(cudaMalloc(&floats, 128)), ok(cudaMemcpy(floats, host, 128, cudaMemcpyHostToDevice));
        turned<<<1, 32>>>(floats, y);
        ok(cudaGetLastError()), ok(cudaMemcpy(host, y, 128, cudaMemcpyDeviceToHost)), ok(cudaFree(floats));
    }
    int ints[32];
    ok(cudaMemcpy(ints, x, 128, cudaMemcpyDeviceToHost)), ok(cudaMemcpy(ints, z, 128, cudaMemcpyDeviceToHost));
    for (void* each : {(void*)x, (void*)z, (void*)y}) ok(cudaFree(each));
    ok(cudaStreamDestroy(one)), ok(cudaStreamDestroy(two)), ok(cudaEventDestroy(fork)), ok(cudaEventDestroy(join));
}
"""

#: Kind of the first fault, by its number.
KINDS = {0: "capture", 1: "capture", 2: "capture", 3: "uninitialised", 4: "trap"}
ERRORS = {0: "904", 1: "903", 2: "904"}


def line(mark: str) -> int:
    """Line of the program with a mark in its comment."""
    found = [at + 1 for at, text in enumerate(FAULTS.splitlines()) if mark in text.partition("// ")[2].split(", ")]
    return found[0]


@pytest.mark.parametrize("number", range(8))
def test_a_fault_is_in_the_line_of_the_call(tmp_path, number: int, capfd) -> None:
    file = tmp_path / "program.cu"
    file.write_text(FAULTS)
    outcome = run([file], ProgramOptions(find("H100"), "check"), (str(number),), limit=120)
    printed = capfd.readouterr().out.split()
    if number in (6, 7):
        assert outcome.problems == () and printed == [], outcome
        return
    if number == 5:
        lines = {at for each in outcome.problems for _, at in each.places}
        assert lines == {line("5 began"), line("5")}, outcome
        return
    problem = outcome.problems[0]
    assert (problem.kind, problem.places[0][1]) == (KINDS[number], line(str(number))), outcome
    if number in ERRORS:
        assert printed[0] == ERRORS[number]
