// What kernels of short batches share: a block's size, and four floats from global memory without a branch.
#pragma once
#include "async.cuh"
#include "four.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;

// Four floats, of which the first `count` exist (any number; none below 1), the others 0. With WIDE all or none exist,
// at a multiple of 16 bytes: one access without a branch, so that several can be in flight.
template <int WIDE>
__device__ __forceinline__ void copy_four(float* shared, const float* global, int count) {
    if constexpr (WIDE) {
        copy_sixteen(shared, global, count > 0 ? 4 : 0);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) copy_float(shared + e, global + e, e < count);
    }
}
template <int WIDE>
__device__ __forceinline__ float4 read_four(const float* from, int count) {
    if constexpr (WIDE) return count > 0 ? *reinterpret_cast<const float4*>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    else return load_four(from, count, false);
}

// Adds factor * four to four sums.
__device__ __forceinline__ void add_product(float* sum, float factor, const float4& four) {
    sum[0] = fmaf(factor, four.x, sum[0]);
    sum[1] = fmaf(factor, four.y, sum[1]);
    sum[2] = fmaf(factor, four.z, sum[2]);
    sum[3] = fmaf(factor, four.w, sum[3]);
}

// Four numbers of g from number `at` on, of which the first `count` exist.
template <int WIDE>
struct MaskedFour {
    float4 value, mask;
    __device__ __forceinline__ void load(const float* dy, const float* y, long long at, int count) {
        value = read_four<WIDE>(dy + at, count);
        mask = y != nullptr ? read_four<WIDE>(y + at, count) : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    }
    __device__ __forceinline__ float4 masked() const { return relu_gradient(value, mask); }
};
