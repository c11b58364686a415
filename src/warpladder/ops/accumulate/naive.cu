// Gradient accumulation over the slices of a batch, one thread for each parameter. total, part: (count,). Bound by
// memory.
#include "index.cuh"

// out[i] = a[i].
extern "C" __global__ void accumulate_set(const float* __restrict__ a, float* __restrict__ out, long long count) {
    const long long i = thread_number();
    if (i < count) out[i] = a[i];
}

// out[i] += a[i].
extern "C" __global__ void accumulate_add(const float* __restrict__ a, float* __restrict__ out, long long count) {
    const long long i = thread_number();
    if (i < count) out[i] += a[i];
}
