"""Memory that kernels allocate: its use after the end, ends twice, and what follows from a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.faults import hint
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome, run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: The first argument of main chooses the kind. 0 is right.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
struct Node { int value; __device__ explicit Node(int value) : value(value) {} };
__global__ void make(Node** nodes) { nodes[threadIdx.x] = new Node(threadIdx.x); }
__global__ void sum(Node** nodes, int* y) { y[threadIdx.x] = nodes[threadIdx.x]->value; }  // 1
__global__ void end(Node** nodes) { delete nodes[threadIdx.x]; }  // 2
__global__ void wrong(int* y) { if (threadIdx.x == 0) free(y); }  // 3
__global__ void beyond(int* y) { y[threadIdx.x + 1] = 1; }  // 4
int main(int, char** argv) {
    const int kind = atoi(argv[1]);
    Node** nodes;
    int *y, *after = nullptr;
    cudaMalloc(&nodes, 8 * sizeof *nodes), cudaMalloc(&y, 8 * sizeof *y);
    make<<<1, 8>>>(nodes);
    if (kind != 1) sum<<<1, 8>>>(nodes, y);
    end<<<1, 8>>>(nodes);
    if (kind == 1) sum<<<1, 8>>>(nodes, y);
    if (kind == 2) end<<<1, 8>>>(nodes);
    if (kind == 3) wrong<<<1, 8>>>(y);
    if (kind == 4) {
        void* arguments[] = {&y};
        cudaLaunchKernel(beyond, 1, 8, arguments);
        cudaMallocManaged(&after, 4);
        *after = 3;
    }
    int host[8], error = cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess;
    cudaFree(nodes), cudaFree(y);
    return error;
}
"""


def outcome(tmp_path: Path, case: int) -> ProgramOutcome:
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    return run([file], ProgramOptions(find("H100"), "check"), [str(case)])


@pytest.mark.parametrize(
    ("case", "kind", "words", "remedy"),
    [
        (1, "out of bounds", "reads 4 bytes of memory that a kernel has freed", "after its last use"),
        (2, "free", "memory that a kernel has freed already", "each piece once"),
        (3, "free", "what no kernel has allocated by malloc or new", "cudaFree is for the rest"),
        (4, "out of bounds", "after the end of array y of 8 elements", "compare the index"),
    ],
)
def test_a_fault_is_reported_alone(tmp_path: Path, case: int, kind: str, words: str, remedy: str) -> None:
    (problem,) = outcome(tmp_path, case).problems
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"// {case}"))
    assert (problem.kind, problem.places[0][1]) == (kind, line)
    assert words in problem.message
    assert remedy in hint(problem)
    if case == 4:
        assert problem.kernel == "beyond"


def test_memory_that_is_freed_once_is_silent(tmp_path: Path) -> None:
    found = outcome(tmp_path, 0)
    assert (found.code, found.problems, found.remarks) == (0, (), ())
