// Test for the last block to arrive, which may read what all others have written.
#pragma once

// True in the last of `blocks` blocks; every thread calls it, once. `arrived` is zero before and after.
__device__ inline bool last_of(unsigned* arrived, unsigned blocks) {
    __shared__ bool last;
    __threadfence();  // what this thread wrote is seen before its block is counted
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1u) == blocks - 1u;
        if (last) *arrived = 0u;
    }
    __syncthreads();
    if (last) __threadfence();  // and nothing is read earlier than the count
    return last;
}

// True in the last block of a grid along x to arrive; every thread calls it, once. `arrived` is zero before and after.
__device__ inline bool last_block(unsigned* arrived) { return last_of(arrived, gridDim.x); }
