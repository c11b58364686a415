"""Faults with what the last weeks of a course use: tensor cores, textures, Thrust, CUB, bytes, streams."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program with each fault: the first argument of main chooses it. 8 and 9 are right.
FAULTS = r"""
#include <cstdio>
#include <cstdlib>
#include <mma.h>
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
using namespace nvcuda;
__global__ void product(const half* a, const half* b, float* c, bool fills) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    if (fills) for (int i = 0; i < sums.num_elements; ++i) sums.x[i] = 1;
    wmma::load_matrix_sync(x, a, 16), wmma::load_matrix_sync(y, b, 16);
    wmma::mma_sync(sums, x, y, sums);  // 0
    wmma::store_matrix_sync(c, sums, 16, wmma::mem_row_major);
}
__global__ void twice(unsigned char* bytes) { bytes[threadIdx.x % 48] = threadIdx.x; }  // 6
void ok(cudaError_t error) { if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error)); }
int main(int, char** argv) {
    int kind = atoi(argv[1]), *x, *y, host[256] = {};
    half *a, *b;
    float* c;
    ok(cudaMalloc(&x, 1024)), ok(cudaMalloc(&y, 1024)), ok(cudaMemcpy(x, host, 1024, cudaMemcpyHostToDevice));
    ok(cudaMalloc(&a, 512)), ok(cudaMalloc(&b, 512)), ok(cudaMalloc(&c, 1024));
    ok(cudaMemset(a, 0, 512)), ok(cudaMemset(b, 0, 512));
    if (kind == 0 || kind == 8) {
        product<<<1, 32>>>(a, b, c, kind == 8);
        ok(cudaGetLastError()), ok(cudaMemcpy(host, c, 1024, cudaMemcpyDeviceToHost));
    }
    if (kind == 1) {
        unsigned char row[64] = {};
        cudaChannelFormatDesc of = cudaCreateChannelDesc<unsigned char>();
        cudaArray_t array;
        ok(cudaMallocArray(&array, &of, 64, 1));
        ok(cudaMemcpy2DToArray(array, 0, 0, row, 64, 64, 1, cudaMemcpyHostToDevice));
        cudaResourceDesc from = {};
        from.resType = cudaResourceTypeArray, from.res.array.array = array;
        cudaTextureDesc how = {};
        how.readMode = cudaReadModeElementType, how.filterMode = cudaFilterModeLinear;
        cudaTextureObject_t texture = 0;
        ok(cudaCreateTextureObject(&texture, &from, &how, nullptr));  // 1
        ok(cudaFreeArray(array));
    }
    if (kind == 2 || kind == 9) {
        void* spare = nullptr;
        size_t bytes = 0;
        ok(cub::DeviceReduce::Sum(spare, bytes, x, y, 256));  // 2
        if (kind == 9) {
            ok(cudaMalloc(&spare, bytes));
            ok(cub::DeviceReduce::Sum(spare, bytes, x, y, 256)), ok(cudaFree(spare));
        }
        int sum;
        ok(cudaMemcpy(&sum, y, 4, cudaMemcpyDeviceToHost));
    }
    if (kind == 3) thrust::sort(x, x + 256);  // 3
    if (kind == 4) {
        thrust::device_vector<int> from(100, 1), to(50);
        thrust::transform(from.begin(), from.end(), to.begin(), thrust::negate<int>());  // 4
    }
    if (kind == 5) {
        cudaMemcpy(host, x, 2048, cudaMemcpyDeviceToHost);  // 5
        ok(cudaGetLastError());
    }
    if (kind == 6) {
        unsigned char *bytes, row[48];
        ok(cudaMalloc(&bytes, 48));
        twice<<<1, 64>>>(bytes);
        ok(cudaGetLastError()), ok(cudaMemcpy(row, bytes, 48, cudaMemcpyDeviceToHost)), ok(cudaFree(bytes));
    }
    if (kind == 7) {
        cudaStream_t stream;
        ok(cudaStreamCreate(&stream)), ok(cudaStreamDestroy(stream));
        twice<<<1, 48, 0, stream>>>((unsigned char*)x);  // 7
        ok(cudaGetLastError());
    }
    for (void* each : {(void*)x, (void*)y, (void*)a, (void*)b, (void*)c}) ok(cudaFree(each));
}
"""

#: Kind of each fault, by its number.
KINDS = {
    0: "uninitialised local", 1: "handle", 2: "temporary memory", 3: "device memory", 4: "out of bounds", 5: "copy",
    6: "race", 7: "handle",
}  # fmt: skip


@pytest.mark.parametrize("number", [*KINDS, 8, 9])
def test_a_fault_with_a_library_is_named_with_its_line(tmp_path, number: int) -> None:
    file = tmp_path / "program.cu"
    file.write_text(FAULTS)
    outcome = run([file], ProgramOptions(find("H100"), "check"), (str(number),), limit=120)
    found = [(problem.kind, problem.places[0][1]) for problem in outcome.problems]
    lines = [at + 1 for at, line in enumerate(FAULTS.splitlines()) if line.endswith(f"// {number}")]
    assert found == [(KINDS[number], line) for line in lines], outcome


#: The rows of A are 8 numbers long in a language that stores rows, and cuBLAS stores columns of 4.
LEADING = r"""
#include <cublas_v2.h>
int main(int, char** argv) {
    float one = 1, zero = 0, host[64] = {}, *a, *c;
    cublasHandle_t handle;
    cublasCreate(&handle), cudaMalloc(&a, 256), cudaMalloc(&c, 256);
    cudaMemcpy(a, host, 256, cudaMemcpyHostToDevice), cudaMemcpy(c, host, 256, cudaMemcpyHostToDevice);
    int rows = argv[1][0] - '0';
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 4, &one, a, rows, a, 4, &zero, c, 8);  // 8
    cublasSgemv(handle, CUBLAS_OP_T, 8, 4, &one, a, rows, c, 1, &zero, c, 1);  // 8
    cudaMemcpy(host, c, 256, cudaMemcpyDeviceToHost), cudaFree(a), cudaFree(c), cublasDestroy(handle);
}
"""


def test_a_leading_dimension_that_is_too_small_is_named(tmp_path) -> None:
    file = tmp_path / "program.cu"
    file.write_text(LEADING)
    options = ProgramOptions(find("H100"))
    assert run([file], options, ("8",), limit=120).problems == ()
    found = run([file], options, ("4",), limit=120).problems
    lines = [at + 1 for at, line in enumerate(LEADING.splitlines()) if line.endswith("// 8")]
    assert [(problem.kind, problem.places[0][1]) for problem in found] == [("argument", line) for line in lines]
    assert "lda is 4, and has to be 8 at least" in found[0].message
