// Stochastic gradient descent as torch.optim.SGD defines it. w, g, first (momentum_buffer, or null): flat arrays of one
// size; second is null.
#include "sgd.cuh"
#include "update.cuh"

struct Descent {
    Sgd settings;

    __device__ __forceinline__ explicit Descent(const Numbers& n)
        : settings{n.low.x, n.low.y, n.low.z != 0.0f, n.low.w} {}

    __device__ __forceinline__ void step(float& w, float g, float& v, float&) const { sgd_update(w, g, v, settings); }
    // Without momentum.
    __device__ __forceinline__ void step(float& w, float g) const { w -= settings.rate * (g + settings.decay * w); }
};

// One thread for each parameter. Reads 8, 12 with momentum, bytes a thread, and writes 4 or 8; bound by memory.
// Arguments: update.cuh.
extern "C" __global__ void sgd_step(
    float* __restrict__ w, const float* __restrict__ g, float* __restrict__ first, float* __restrict__ second,
    long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_one<Descent>(w, g, first, second, count, limit, table, at);
}

// One thread for four parameters.
extern "C" __global__ void sgd_step_by_four(
    float4* __restrict__ w, const float4* __restrict__ g, float4* __restrict__ first, float4* __restrict__ second,
    long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_four<Descent>(w, g, first, second, count, limit, table, at);
}
