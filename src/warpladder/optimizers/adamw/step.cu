// AdamW as torch.optim.AdamW defines it. w, g, first (exp_avg), second (exp_avg_sq): flat arrays of one size.
#include "update.cuh"

struct AdamW {
    float rate, beta1, rest1, beta2, rest2, root, eps, decay;

    __device__ __forceinline__ explicit AdamW(const Numbers& n)
        : rate(n.low.x), beta1(n.low.y), rest1(n.low.z), beta2(n.low.w), rest2(n.high.x), root(n.high.y), eps(n.high.z),
            decay(n.high.w) {}

    // m = beta1 * m + rest1 * g, v = beta2 * v + rest2 * g * g, w -= decay * w + rate * m / (sqrt(v) * root + eps):
    // rate and root hold the corrections.
    __device__ __forceinline__ void step(float& w, float g, float& m, float& v) const {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * g * g;
        w -= decay * w + rate * m / (sqrtf(v) * root + eps);
    }
};

// One thread for each parameter. Reads 16 bytes a thread and writes 12; bound by memory. Arguments: update.cuh.
extern "C" __global__ void adamw_step(
    float* __restrict__ w, const float* __restrict__ g, float* __restrict__ first, float* __restrict__ second,
    long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_one<AdamW>(w, g, first, second, count, limit, table, at);
}

// One thread for four parameters.
extern "C" __global__ void adamw_step_by_four(
    float4* __restrict__ w, const float4* __restrict__ g, float4* __restrict__ first, float4* __restrict__ second,
    long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_four<AdamW>(w, g, first, second, count, limit, table, at);
}
