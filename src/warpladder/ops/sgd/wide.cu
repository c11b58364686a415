// Stochastic gradient descent, four parameters for each thread. w, g, v: (4 * count,).
#include "index.cuh"
#include "sgd.cuh"

// 16 bytes at a time: a warp's load is 512 bytes, and a quarter of the threads is started. Reads 32 bytes a thread, 48 with momentum; bound by memory.
extern "C" __global__ void sgd_by_four(
    float4* __restrict__ w, const float4* __restrict__ g, float4* __restrict__ v, long long count, float rate, float momentum, int nesterov, float decay, float limit
) {
    const long long i = thread_number();
    if (i >= count) return;
    const Sgd settings = {rate, momentum, nesterov, decay, limit};
    float4 weight = w[i], velocity = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 gradient = g[i];
    if (momentum != 0.0f) velocity = v[i];
    sgd_update(weight.x, gradient.x, velocity.x, settings);
    sgd_update(weight.y, gradient.y, velocity.y, settings);
    sgd_update(weight.z, gradient.z, velocity.z, settings);
    sgd_update(weight.w, gradient.w, velocity.w, settings);
    if (momentum != 0.0f) v[i] = velocity;
    w[i] = weight;
}
