"""Kernels that launch kernels: what the parent accesses after a launch, the child may access at the same time."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program: the first argument of main chooses the fault; 4 and 5 are right.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
__global__ void square(int* x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = i * i;  // child
}
__global__ void copies(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }  // reader
__global__ void total(const int* x, int* sum, int n) {
    int all = 0;
    for (int i = 0; i < n; ++i) all += x[i];
    *sum = all;
}
__global__ void adds(int* x, int* sum, int n) {
    square<<<1, 64>>>(x, n);
    int all = 0;
    for (int i = 0; i < n; ++i) all += x[i];  // 0
    *sum = all;
}
__global__ void meets(int* x, int* sum) {
    if (threadIdx.x == 0) square<<<1, 64>>>(x, 64);
    __syncthreads();
    if (threadIdx.x == 40) *sum = x[5];  // 1
}
__global__ void clears(int* x, int* y) {
    copies<<<1, 64>>>(x, y);
    x[7] = 0;  // 2
}
__global__ void waits(int* x) {
    square<<<1, 64>>>(x, 64);
    cudaDeviceSynchronize();  // 3
}
__global__ void prepares(int* x, int* sum) {
    x[threadIdx.x] = x[threadIdx.x] + 1;
    __syncthreads();
    if (threadIdx.x) return;
    square<<<1, 64, 0, cudaStreamFireAndForget>>>(x, 64);
    total<<<1, 1, 0, cudaStreamTailLaunch>>>(x, sum, 64);
}
__global__ void halves(int* x, int low, int high) {
    if (high - low < 2) return;
    int last = low;
    for (int i = low + 1; i < high; ++i)
        if (x[i] < x[low]) { int t = x[i]; x[i] = x[++last]; x[last] = t; }
    int t = x[low]; x[low] = x[last]; x[last] = t;
    halves<<<1, 1>>>(x, low, last);
    halves<<<1, 1>>>(x, last + 1, high);
}
int main(int, char** argv) {
    int kind = atoi(argv[1]), *x, *y, host[64], got;
    for (int i = 0; i < 64; ++i) host[i] = i * 29 % 64;
    cudaMalloc(&x, sizeof host), cudaMalloc(&y, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    if (kind == 0) adds<<<1, 1>>>(x, y, 64);
    if (kind == 1) meets<<<1, 64>>>(x, y);
    if (kind == 2) clears<<<1, 1>>>(x, y);
    if (kind == 3) waits<<<1, 1>>>(x);
    if (kind == 4) prepares<<<1, 64>>>(x, y);
    if (kind == 5) halves<<<1, 1>>>(x, 0, 64);
    cudaMemcpy(&got, kind == 3 || kind == 5 ? x + 9 : y, sizeof got, cudaMemcpyDeviceToHost);
    if (kind > 3) printf("%d\n", got);
    cudaFree(x), cudaFree(y);
    return cudaGetLastError();
}
"""
CASES = {0: ["child", "0"], 1: ["child", "1"], 2: ["reader", "2"], 3: ["3"], 4: [], 5: []}


@pytest.mark.parametrize("number", CASES)
def test_a_parent_that_does_not_leave_its_child_alone_is_named(tmp_path, capfd, number: int) -> None:
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    outcome = run([file], ProgramOptions(find("H100"), "check"), (str(number),), limit=120)
    lines = {line.rpartition("// ")[2]: at + 1 for at, line in enumerate(PROGRAM.splitlines()) if "// " in line}
    found = [(problem.kind, [line for _, line in problem.places]) for problem in outcome.problems]
    assert found == ([("child kernel", [lines[each] for each in CASES[number]])] if CASES[number] else []), outcome
    assert outcome.code == 0
    assert capfd.readouterr().out == {4: "85344\n", 5: "9\n"}.get(number, "")
