// Stochastic gradient descent as torch.optim.SGD defines it, one thread for each parameter. w, g, v: (count,).
#include "index.cuh"
#include "nan.cuh"

// g is clipped to [-limit, limit] (limit infinity: not at all), decay * w is added, v = momentum * v + g,
// and w -= rate * v, for Nesterov's rate * (g + momentum * v); without momentum w -= rate * g, and v stays as it is.
// Reads 8 bytes a thread, 12 with momentum, and writes 4 or 8; bound by memory.
extern "C" __global__ void sgd_step(
    float* __restrict__ w, const float* __restrict__ g, float* __restrict__ v, long long count, float rate, float momentum, int nesterov, float decay, float limit
) {
    const long long i = thread_number();
    if (i >= count) return;
    float change = clip(g[i], limit) + decay * w[i];
    if (momentum != 0.0f) {
        const float velocity = momentum * v[i] + change;
        v[i] = velocity;
        change = nesterov ? change + momentum * velocity : velocity;
    }
    w[i] -= rate * change;
}
