// Numbers of warpgroup products, 16 bits each: their shared scale, and two neighbours in a word.
#pragma once
#include "tensor_panels.cuh"

// The largest of all threads' bits, in every thread. warps: shared memory for `count` warps, not in use.
template <int WARPS>
__device__ __forceinline__ unsigned largest_of_block(unsigned largest, unsigned (&warps)[WARPS], int count = WARPS) {
    largest = largest_of_lanes<1, 32>(largest);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < count; ++warp) largest = max(largest, warps[warp]);
    return largest;
}

// Two neighbours: `low` is the rest of `high`, in SPLIT alone.
template <int FORMAT>
__device__ __forceinline__ void two_numbers(float x, float y, unsigned& high, unsigned& low) {
    low = 0;
    if constexpr (FORMAT == BF16) {
        high = two_bf16(x, y);
    } else {
        high = two_halves(x, y);
        if constexpr (FORMAT == SPLIT) low = two_halves(x - low_half(high), y - high_half(high));
    }
}
