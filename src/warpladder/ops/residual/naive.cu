// Residual connections. a, b, out: (count,), count = n * size of a sample.
#include "index.cuh"

// out = a + b: x and f(x) forward, both gradients backward. One thread for each number; bound by memory.
extern "C" __global__ void residual_add(const float* __restrict__ a, const float* __restrict__ b,
    float* __restrict__ out, long long count) {
    const long long i = thread_number();
    if (i < count) out[i] = a[i] + b[i];
}

// out = a: the stored array, or the gradient that both paths get. One thread for each number; bound by memory.
extern "C" __global__ void residual_copy(const float* __restrict__ a, float* __restrict__ out, long long count) {
    const long long i = thread_number();
    if (i < count) out[i] = a[i];
}
