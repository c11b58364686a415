// Scaling of all gradients of a step to an L2 norm of at most `limit`, as PyTorch's clip_grad_norm_. g: (count,).
#include "block_sum.cuh"
#include "index.cuh"

// parts[block] = sum of g[i]^2 over the numbers of the block, in double. Bound by memory.
extern "C" __global__ void norm_squares(const float* __restrict__ g, double* __restrict__ parts, long long count) {
    __shared__ double shared[BLOCK_MOST];
    double sum = 0.0;
    for (long long i = thread_number(); i < count; i += static_cast<long long>(gridDim.x) * blockDim.x)
        sum += static_cast<double>(g[i]) * g[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// g[i] *= limit / (norm + 1e-6) if this is below 1; every block adds the parts (gridDim.x,) again, in one order.
// Zeros stay zero: those between tensors are written once, and a NaN in one would stay.
extern "C" __global__ void norm_scale(float* __restrict__ g, const double* __restrict__ parts, long long count,
    float limit) {
    __shared__ double shared[BLOCK_MOST];
    double sum = 0.0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += parts[i];
    const double factor = limit / (sqrt(block_sum(sum, shared)) + 1e-6);
    if (factor >= 1.0) return;  // a NaN is not, and goes on to all
    for (long long i = thread_number(); i < count; i += static_cast<long long>(gridDim.x) * blockDim.x)
        if (g[i] != 0.0f) g[i] = static_cast<float>(g[i] * factor);
}
