"""Atomic operations: exchanges whose value nothing uses, objects of one byte, and files with odd names."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator.rewrite import rewritten
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome, run

emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PROGRAM = r"""
#include <conio.h>
#include <cstdio>
#include <cuda/atomic>
__global__ void put(int* x, float* y) {
    __shared__ int s;
    atomicExch(x, 3);
    if (threadIdx.x == 0) atomicExch_block(&s, 5);
    __syncthreads();
    y[threadIdx.x] = s;
}
__global__ void taken(int* x, int* old) { *old = atomicExch(x, 4); }  // taken
__global__ void flags(cuda::atomic<bool, cuda::thread_scope_device>* flag, bool* plain, int* data) {
    cuda::atomic_ref<bool, cuda::thread_scope_block> other(*plain);
    if (blockIdx.x == 0) data[0] = 42, flag->store(true, cuda::memory_order_release), other.store(true);
    else {
        while (!flag->load(cuda::memory_order_acquire)) {}
        data[1] = data[0];
    }
}
int main(int argc, char**) {
    int* x;
    float* y;
    cuda::atomic<bool, cuda::thread_scope_device>* flag;
    cudaMalloc(&x, 8), cudaMalloc(&y, 128), cudaMalloc(&flag, 2), cudaMemset(flag, 0, 1);
    if (argc == 1) put<<<1, 32>>>(x, y);
    else taken<<<1, 1>>>(x, x + 1);
    flags<<<2, 1>>>(flag, (bool*)flag + 1, x);
    int host[2];
    float sums[32];
    if (cudaMemcpy(host, x, 8, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    if (argc == 1) cudaMemcpy(sums, y, 128, cudaMemcpyDeviceToHost);
    printf("%d %d\n", host[0], host[1]);
    cudaFree(x), cudaFree(y), cudaFree(flag);
    return _kbhit();
}
"""


def outcome(file: Path, *arguments: str) -> ProgramOutcome:
    file.write_text(PROGRAM)
    return run([file], ProgramOptions(find("H100"), "check"), arguments)


@emulated
@pytest.mark.slow
def test_exchanges_read_only_if_their_value_is_used(tmp_path: Path) -> None:
    silent = outcome(tmp_path / 'a "quoted" \\ name.cu')
    assert (silent.problems, silent.remarks) == ((), ())
    (problem,) = outcome(tmp_path / "program.cu", "taken").problems
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if "// taken" in text)
    assert (problem.kind, problem.places[0][1]) == ("uninitialised", line)


@pytest.mark.parametrize(
    ("text", "is_unused"),
    [
        ("{ atomicExch(&a, f(1)); }", True),
        ("if (f(a) && b[g(2)]) atomicExch_system(p, 1);", True),
        ("if (a) b(); else atomicExch(p, 1);", True),
        ("; x = atomicExch(p, 1);", False),
        ("; x = (int)atomicExch(p, 1);", False),
        ("; return atomicExch(p, 1);", False),
        ("; atomicExch(p, 1) == 0 ? f() : g();", False),
        ("while (atomicExch(p, 1));", False),
    ],
)
def test_which_exchanges_are_statements(text: str, is_unused: bool) -> None:
    assert ("emu_unused_" in rewritten(text, "file.cu")) == is_unused
