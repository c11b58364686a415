// Mean squared error of a batch. x, target, dx: (count,), count = n * size of a sample; all = batch * size.
#include "block_sum.cuh"
#include "index.cuh"
#include "log.cuh"

// parts[block] = sum of (x[i] - target[i])^2 over the numbers of the block, in double. Bound by memory.
extern "C" __global__ void mse_loss(const float* __restrict__ x, const float* __restrict__ target,
    double* __restrict__ parts, long long count) {
    __shared__ double shared[BLOCK_MOST];
    double sum = 0.0;
    for (long long i = thread_number(); i < count; i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const double difference = x[i] - target[i];
        sum += difference * difference;
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// Adds the sum of the parts, divided by `all`, to the step's loss; blocks = 0 without a loss. One block.
extern "C" __global__ void mse_log(const double* __restrict__ parts, int blocks, long long all, int* step, double* loss,
    long long* correct, int first, int last) {
    __shared__ double shared[BLOCK_MOST];
    double sum = 0.0;
    for (int i = threadIdx.x; i < blocks; i += blockDim.x) sum += parts[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) write_log(step, loss, correct, sum / all, 0, first, last);
}

// dx[i] = 2 (x[i] - target[i]) / all. One thread for each number; bound by memory.
extern "C" __global__ void mse_gradient(const float* __restrict__ x, const float* __restrict__ target,
    float* __restrict__ dx, long long count, long long all) {
    const long long i = thread_number();
    if (i < count) dx[i] = (x[i] - target[i]) * static_cast<float>(2.0 / all);
}
