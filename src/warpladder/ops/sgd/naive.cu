// Stochastic gradient descent as torch.optim.SGD defines it, one thread for each parameter. w, g, v: (count,).
#include "index.cuh"
#include "sgd.cuh"

// Reads 8 bytes a thread, 12 with momentum, and writes 4 or 8; bound by memory.
extern "C" __global__ void sgd_step(
    float* __restrict__ w, const float* __restrict__ g, float* __restrict__ v, long long count, float rate, float momentum, int nesterov, float decay, float limit
) {
    const long long i = thread_number();
    if (i >= count) return;
    float velocity = momentum != 0.0f ? v[i] : 0.0f;
    sgd_update(w[i], g[i], velocity, {rate, momentum, nesterov, decay, limit});
    if (momentum != 0.0f) v[i] = velocity;
}
