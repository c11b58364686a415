// RMSprop as torch.optim.RMSprop defines it. w, g, first (square_avg), second (momentum_buffer, or null): flat arrays
// of one size.
#include "update.cuh"

struct RMSprop {
    float rate, alpha, rest, eps, decay, momentum;

    __device__ __forceinline__ explicit RMSprop(const Numbers& n)
        : rate(n.low.x), alpha(n.low.y), rest(n.low.z), eps(n.low.w), decay(n.high.x), momentum(n.high.y) {}

    // decay * w is added to g; square = alpha * square + rest * g * g, buffer = momentum * buffer + g / (sqrt(square) +
    // eps), w -= rate * buffer. Without momentum the buffer is 0 before.
    __device__ __forceinline__ void step(float& w, float g, float& square, float& buffer) const {
        const float gradient = g + decay * w;
        square = alpha * square + rest * gradient * gradient;
        buffer = momentum * buffer + gradient / (sqrtf(square) + eps);
        w -= rate * buffer;
    }
};

// One thread for each parameter. Reads 12, 16 with momentum, bytes a thread, and writes 8 or 12; bound by memory.
// Arguments: update.cuh.
extern "C" __global__ void rmsprop_step(
    float* __restrict__ w, const float* __restrict__ g, float* __restrict__ first, float* __restrict__ second,
    long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_one<RMSprop>(w, g, first, second, count, limit, table, at);
}

// One thread for four parameters.
extern "C" __global__ void rmsprop_step_by_four(
    float4* __restrict__ w, const float4* __restrict__ g, float4* __restrict__ first, float4* __restrict__ second,
    long long count, float limit,
    const float4* __restrict__ table, const int* __restrict__ at
) {
    update_four<RMSprop>(w, g, first, second, count, limit, table, at);
}
