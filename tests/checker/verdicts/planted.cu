// Kernels that a checker must not pass, because of faults or unknowns that no single access shows (test_verdicts.py).
#include <cassert>
#include <cstdio>

namespace filter {
__constant__ float taps[3];
}
__constant__ int shift = 2;  // has a value of its own
__device__ int counted;      // is zero before the first launch, as C++ has it

__global__ void blurred(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = filter::taps[1] * x[i];  // <- unfilled
    if (i > 0) y[i] += filter::taps[0] * x[i - 1];
    if (i < n - 1) y[i] += filter::taps[2] * x[i + 1];
}
__global__ void shifted(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] << shift;
    if (i == 0) atomicAdd(&counted, n);
}

__global__ void positive(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) y[i] = x[i] > 0 ? x[i] : 0;  // the last one is left out
}
__global__ void twice(const float* x, float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];  // and z is forgotten
}
__global__ void early(float* y, int n) {
    if (blockIdx.x * blockDim.x + threadIdx.x >= n) return;
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void halved(float* x, int n) {
    while (n > 1) {
        x[threadIdx.x] *= 0.5f;
        n -= n / 2 * 0;  // <- for ever
    }
}

struct Scale {
    float factor;
    int first[2];
};
struct Table {
    const float* in;
    float* out;
    Scale scale;
    short n;
};
__global__ void scaled(Table table, float4 plus, dim3 size) {
    int i = blockIdx.x * size.x + threadIdx.x;
    if (i < table.n) table.out[i] = table.scale.factor * table.in[i + table.scale.first[1]] + plus.z;
}
__global__ void rows(float** rows) { rows[0][0] = 1; }
__global__ void looked_up(cudaTextureObject_t table, float* y) { y[0] = 1; }

template <typename T> __global__ void filled(T* y, T value) { y[threadIdx.x] = value; }
template __global__ void filled<double>(double*, double);

__global__ void met(unsigned* arrived, float* y) {
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gridDim.x) {}  // wants all blocks at once
    }
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__global__ void lanes(int* y) {
    int lane = 5;
    asm volatile("{\n\t.reg .u32 r;\n\tszext.wrap.u32 r, 7, 3;\n\tadd.u32 %0, r, 1;\n\t}" : "=r"(lane));
    asm volatile("" ::: "memory");
    y[threadIdx.x] = lane;
}
#define NANO(out) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(out))
__global__ void timed(long long* y) {
    asm volatile("" ::: "memory");
    y[threadIdx.x] = threadIdx.x;
    if (threadIdx.x > 64) NANO(y[0]);
}

__global__ void asserted(const int* x, int* y, int n) {
    assert(n > 0);
    assert((x[threadIdx.x] < 9, true));
    assert(x[threadIdx.x] != 9);  // <- trap
    y[threadIdx.x] = x[threadIdx.x];
}

__global__ void largest(const float* x, int* y, int n) {
    int best;
    float most = 0;
    for (int i = 0; i < n; ++i)
        if (x[i] > most) most = x[i], best = i;
    y[0] = best;  // <- local
}
__global__ void partly(const float* x, float* y, int n) {
    float sums[4], last;
    for (int i = 0; i < n; ++i) sums[i] = x[i];
    last = sums[n - 1];
    y[0] = last;
}

__global__ void divided(const int* x, int* y, int by) {
    y[threadIdx.x] = x[threadIdx.x] / by;  // <- one fault, seen in three modes
}
