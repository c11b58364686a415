"""Structs that a device function gets by value: their reads are seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: A program whose kernel passes structs in shared memory by value, with a barrier or without.
PROGRAM = r"""
#include <cstdio>
struct Pair { float a, b; int n[5]; };
__device__ float4 sum(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ float first(Pair p) { for (int i = 0; i < 5; ++i) p.a += p.n[i]; return p.a + p.b; }
__global__ void work(const float4* x, float* y) {
    __shared__ float4 s[32];
    __shared__ Pair pairs[32];
    int t = threadIdx.x;
    s[t] = x[t];
    pairs[t] = Pair{1, 2, {t, 0, 0, 0, 1}};
    BARRIER
    float4 r = sum(s[t], s[31 - t]);  // float4
    y[t] = r.x + first(pairs[31 - t]);  // Pair
}
int main() {
    float host[128] = {}, *x, *y;
    cudaMalloc(&x, sizeof host), cudaMalloc(&y, 32 * sizeof(float));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    work<<<1, 32>>>((float4*)x, y);
    if (cudaMemcpy(host, y, 32 * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    printf("%g\n", host[3]);
    cudaFree(x), cudaFree(y);
}
"""


@pytest.mark.parametrize(("barrier", "lines"), [("", {"float4", "Pair"}), ("__syncthreads();", set())])
def test_reads_of_structs_that_are_passed_by_value(tmp_path: Path, barrier: str, lines: set[str]) -> None:
    file = tmp_path / "program.cu"
    text = PROGRAM.replace("BARRIER", barrier)
    file.write_text(text)
    outcome = run([file], options=ProgramOptions(find("H100"), "check"))
    at = {i: line.rpartition("// ")[2] for i, line in enumerate(text.splitlines(), 1) if "  // " in line}
    assert {problem.kind for problem in outcome.problems} <= {"race", "uninitialised"}
    assert any(problem.kind == "race" for problem in outcome.problems) == bool(lines)
    assert {at[line] for problem in outcome.problems for _, line, *_ in problem.places if line in at} == lines
