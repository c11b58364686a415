"""Functions of the host that a stream calls, which must not call CUDA, and rows of memory that lie apart."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program with each fault: the first argument of main chooses it. 4 to 6 are right.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <thread>
void ok(cudaError_t error) { if (error != cudaSuccess) printf("%d\n", error); }
__global__ void add(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
float host[4][100], *x;
int kind;
void CUDART_CB called(void*) {
    if (kind == 0) ok(cudaMemcpy(host, x, 400, cudaMemcpyDeviceToHost));  // 0
    if (kind == 1) add<<<1, 128>>>(x, 100);  // 1
    if (kind == 4) std::thread([] { ok(cudaMemcpy(host, x, 400, cudaMemcpyDeviceToHost)); }).join();
}
void CUDART_CB finished(cudaStream_t stream, cudaError_t, void*) {
    if (kind == 2) ok(cudaStreamSynchronize(stream));  // 2
}
int main(int, char** argv) {
    kind = atoi(argv[1]);
    size_t pitch;
    cudaStream_t stream;
    ok(cudaStreamCreate(&stream)), ok(cudaMallocPitch(&x, &pitch, kind == 6 ? 512 : 400, 4));
    ok(cudaMemset2D(x, pitch, 0, 400, 4));
    ok(cudaLaunchHostFunc(stream, called, nullptr)), ok(cudaStreamAddCallback(stream, finished, nullptr, 0));
    add<<<1, 128, 0, stream>>>(x, 100);
    ok(cudaGetLastError()), ok(cudaStreamSynchronize(stream));
    if (kind == 3) ok(cudaMemcpy(host, x, 1600, cudaMemcpyDeviceToHost));  // 3
    if (kind == 6) {
        static float all[512];
        ok(cudaMemset2D(x, pitch, 0, 512, 4)), ok(cudaMemcpy(all, x, 2048, cudaMemcpyDeviceToHost));
    }
    ok(cudaMemcpy2D(host, 400, x, pitch, 400, 4, cudaMemcpyDeviceToHost));
    if (kind == 5) ok(cudaMemcpy(host, x, 400, cudaMemcpyDeviceToHost));
    ok(cudaFree(x)), ok(cudaStreamDestroy(stream));
}
"""

#: Kind of each fault, by its number, and the error that the call returns.
KINDS = {0: ("host function", "800"), 1: ("host function", "800"), 2: ("host function", "800"), 3: ("copy", "")}


@pytest.mark.parametrize("number", range(7))
def test_a_fault_is_named_with_its_line(tmp_path, number: int, capfd) -> None:
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    outcome = run([file], ProgramOptions(find("H100")), (str(number),), limit=120)
    kind, error = KINDS.get(number, ("", ""))
    lines = [at + 1 for at, line in enumerate(PROGRAM.splitlines()) if line.endswith(f"// {number}")]
    found = [(problem.kind, problem.places[0][1]) for problem in outcome.problems]
    assert found == [(kind, line) for line in lines], outcome
    assert set(capfd.readouterr().out.split()) == set(error.split())
