// Sizes of the batches of a launch by one cluster, and the mean loss of a step.
#pragma once
#include "../gather.cuh"
#include "warp.cuh"

// Number of samples of successive steps.
struct BatchSizes {
    int batch, count, steps, within;  // of the training set and of an epoch; within: step of its epoch

    __device__ __forceinline__ explicit BatchSizes(const Choice& all)
        : batch(all.batch), count(all.count), steps(all.steps), within(all.first % all.steps) {}
    __device__ __forceinline__ int size() const { return min(batch, count - within * batch); }
    // Number of samples of the step before.
    __device__ __forceinline__ int before() const { return within == 0 ? count - (steps - 1) * batch : batch; }
    __device__ __forceinline__ void next() { within = within + 1 == steps ? 0 : within + 1; }
};

// Mean loss of a step's n samples and the number of correct ones, by one warp. losses: of two steps, (2, BATCH, 4).
template <class U>
__device__ __forceinline__ void write_mean_loss(
    const float* losses, int number, int n, double* loss, long long* correct
) {
    float sum = 0.0f;
    int count = 0;
    for (int m = threadIdx.x % 32; m < n; m += 32) {
        const float4 one = reinterpret_cast<const float4*>(losses)[number % 2 * U::BATCH + m];
        sum += logf(one.x) - one.y, count += one.z > 0.0f;
    }
    sum = warp_sum(sum);
    count = warp_sum(count);
    if (threadIdx.x % 32 == 0) *loss = static_cast<double>(sum) / n, *correct = count;
}
