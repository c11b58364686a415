"""Pointers of the host that reach a kernel in a struct, an array or a lambda."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.faults import hint
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome, run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program for each way: the first argument of main chooses it. In 4 the kernel does not follow the pointer.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
struct Vector { int n; float* data; };
struct Both { Vector device; float* host; };
__global__ void filled(Vector v) { if (threadIdx.x < v.n) v.data[threadIdx.x] = 1; }  // filled
__global__ void through(Vector* v) { v->data[threadIdx.x] = 1; }  // through
template <class F> __global__ void applied(F f, float* y) { y[threadIdx.x] = f(threadIdx.x); }
__global__ void own(Both b) { b.device.data[threadIdx.x] = 1; }
int main(int, char** argv) {
    float* mine = (float*)malloc(128);  // malloc
    float local[32] = {1}, *y;
    for (int i = 0; i < 32; ++i) mine[i] = 1;
    cudaMalloc(&y, 128);
    Vector v{32, mine}, *copied;
    cudaMalloc(&copied, sizeof v), cudaMemcpy(copied, &v, sizeof v, cudaMemcpyHostToDevice);
    switch (atoi(argv[1])) {
        case 0: filled<<<1, 32>>>(v); break;
        case 1: filled<<<1, 32>>>(Vector{32, local}); break;
        case 2: through<<<1, 32>>>(copied); break;
        case 3: applied<<<1, 32>>>([=] __device__ (int i) { return v.data[i]; }, y); break;  // lambda
        case 4: own<<<1, 32>>>(Both{{32, y}, mine});
    }
    int error = cudaDeviceSynchronize() != cudaSuccess;
    cudaFree(y), cudaFree(copied), free(mine);
    return error;
}
"""


def outcome(tmp_path: Path, case: int, mode: str) -> ProgramOutcome:
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    return run([file], ProgramOptions(find("H100"), mode), [str(case)])


def line_of(mark: str) -> int:
    return next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if f"// {mark}" in text)


@pytest.mark.parametrize(("case", "line"), [(0, "filled"), (1, "filled"), (2, "through"), (3, "lambda")])
def test_a_kernel_that_follows_one_is_reported(tmp_path: Path, case: int, line: str) -> None:
    found = outcome(tmp_path, case, "check")
    (problem,) = found.problems
    assert (found.code, problem.kind, problem.places[0][1]) == (1, "host pointer", line_of(line))
    assert "of the host's memory, which a kernel on a GPU cannot reach: " in problem.message
    if case != 1:
        assert f"(allocated at program.cu:{line_of('malloc')})" in problem.message
    assert "store the address that cudaMalloc gave" in hint(problem)


def test_a_kernel_may_have_one_that_it_does_not_follow(tmp_path: Path) -> None:
    found = outcome(tmp_path, 4, "check")
    assert (found.code, found.problems) == (0, ())
    plain = outcome(tmp_path, 4, "fast")
    assert (plain.code, plain.problems) == (0, ())
    (remark,) = (remark for remark in plain.remarks if remark.kind == "host pointer")
    assert f"allocated at program.cu:{line_of('malloc')}" in remark.message
