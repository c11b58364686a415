// Sum over the threads of a block, in a fixed order: equal bits at every run.
#pragma once

constexpr int BLOCK_MOST = 1024;

// Every thread of a one-dimensional block passes a value and gets the sum; shared: BLOCK_MOST values, free again
// afterwards. The upper half is added to the lower one until one value is left; with an odd number the middle one
// stays.
template <typename T>
__device__ inline T block_sum(T value, T* shared) {
    const int t = threadIdx.x;
    shared[t] = value;
    __syncthreads();
    for (int size = blockDim.x; size > 1;) {
        const int half = (size + 1) / 2;
        if (t + half < size) shared[t] += shared[t + half];
        __syncthreads();
        size = half;
    }
    const T sum = shared[0];
    __syncthreads();
    return sum;
}
