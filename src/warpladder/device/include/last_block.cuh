// Which block is the last one to arrive: it may read what all the others have written before.
#pragma once

// Every thread of `blocks` blocks calls it, once; true in the block that comes last. `arrived` is zero before and
// afterwards.
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

// Whether this block is the last one of its grid along x to arrive; every thread calls it, once. `arrived` is zero
// before and afterwards.
__device__ inline bool last_block(unsigned* arrived) { return last_of(arrived, gridDim.x); }
