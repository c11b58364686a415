// Mean squared error in one kernel. x, target, dx: (count,), count = n * size of a sample; all = batch * size.
// instance: mse_by_warps<float>; mse_by_warps<float4>
#include "index.cuh"
#include "last_block.cuh"
#include "log.cuh"
#include "warp.cuh"

__device__ __forceinline__ float4 minus(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w); }
__device__ __forceinline__ float minus(float a, float b) { return a - b; }
__device__ __forceinline__ float4 times(float4 a, float b) { return make_float4(a.x * b, a.y * b, a.z * b, a.w * b); }
__device__ __forceinline__ float times(float a, float b) { return a * b; }
__device__ __forceinline__ double square(float a) { return static_cast<double>(a) * a; }
__device__ __forceinline__ double square(float4 a) { return (square(a.x) + square(a.y)) + (square(a.z) + square(a.w)); }

// dx[i] = 2 (x[i] - target[i]) / all; adds the sum of (x[i] - target[i])^2 / all to the step's loss. Each number is
// read once. dx: null if it is filled already. Some: float4 if a sample's size is a multiple of four; count is then a
// quarter. Threads add in double, warps and blocks by trees, and the last block the parts (blocks,). arrived: (1,),
// zero between launches. loss: null without a loss.
template <typename Some>
__global__ void mse_by_warps(
    const Some* __restrict__ x, const Some* __restrict__ target, Some* __restrict__ dx, double* parts,
    unsigned* arrived, long long count, long long all, int* step, double* loss, long long* correct, int first, int last
) {
    __shared__ double shared[32];
    const float scale = static_cast<float>(2.0 / all);
    double sum = 0.0;
    for (long long i = thread_number(); i < count; i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const Some difference = minus(x[i], target[i]);
        if (dx != nullptr) dx[i] = times(difference, scale);
        if (loss != nullptr) sum += square(difference);
    }
    if (loss == nullptr) {
        if (blockIdx.x == 0 && threadIdx.x == 0) write_log(step, loss, correct, 0.0, 0, first, last);
        return;
    }
    sum = sum_by_warps(sum, shared);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
    if (!last_block(arrived)) return;
    sum = 0.0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += parts[i];
    sum = sum_by_warps(sum, shared);
    if (threadIdx.x == 0) write_log(step, loss, correct, sum / all, 0, first, last);
}
