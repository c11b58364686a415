// Adagrad. w, g, first (sum): flat arrays of one size; second is null.
#include "update.cuh"

struct Adagrad {
    float rate, eps;

    __device__ __forceinline__ explicit Adagrad(const Numbers& n) : rate(n.low.x), eps(n.low.y) {}

    __device__ __forceinline__ void step(float& w, float g, float& sum, float&) const {
        sum += g * g;
        w -= rate * g / (sqrtf(sum) + eps);
    }
};

extern "C" __global__ void adagrad_step(
    float* __restrict__ w, const float* __restrict__ g, float* __restrict__ first, float* __restrict__ second, long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_one<Adagrad>(w, g, first, second, count, limit, table, at);
}

extern "C" __global__ void adagrad_step_by_four(
    float4* __restrict__ w, const float4* __restrict__ g, float4* __restrict__ first, float4* __restrict__ second, long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_four<Adagrad>(w, g, first, second, count, limit, table, at);
}
