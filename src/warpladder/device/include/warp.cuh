// Sums over the 32 lanes of a warp by shuffles, in a fixed order, without shared memory and barriers.
#pragma once

constexpr unsigned EVERY_LANE = 0xffffffffu;

// Sum of all lanes' values, for every lane: at each of five steps lane l adds the value of lane l ^ offset.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(EVERY_LANE, value, offset);
    return value;
}

// The sums that warp_sums leaves in a lane: `count` of them from number `first` on.
struct Share {
    int first, count;
};

// Largest number of sums, of n, that warp_sums leaves in a lane.
__device__ constexpr int left_of(int n, int least = 1) {
    for (int offset = 16; offset >= least; offset /= 2) n = (n + 1) / 2;
    return n;
}

// N sums at once, of N values of each lane; then value[k], k < count, is the sum of all lanes' value[first + k].
//
// At each of five steps lanes l and l ^ offset divide the numbers of both: one takes the lower half, the other the
// upper, and each adds the half of the other lane. That is at most N + 31 shuffles in place of 5 N. With LEAST, a power
// of two, only lanes of the same number modulo LEAST are added.
template <int N, int LEAST = 1, int OFFSET = 16>
__device__ __forceinline__ void warp_sums(float* value, Share& share) {
    if constexpr (OFFSET >= LEAST) {
        constexpr int HALF = (N + 1) / 2;
        const bool upper = threadIdx.x & OFFSET;
#pragma unroll
        for (int k = 0; k < HALF; ++k) {
            const float low = value[k], high = k + HALF < N ? value[k + HALF] : 0.0f;
            const float other = __shfl_xor_sync(EVERY_LANE, upper ? low : high, OFFSET);
            value[k] = (upper ? high : low) + other;
        }
        share.first += upper ? HALF : 0;
        share.count = upper ? max(share.count - HALF, 0) : min(share.count, HALF);
        warp_sums<HALF, LEAST, OFFSET / 2>(value, share);
    }
}

// The sum over the threads of a one-dimensional block of whole warps, for every thread; shared: 32 values, free again
// afterwards.
template <typename T>
__device__ __forceinline__ T sum_by_warps(T value, T* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = warp_sum(value);
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = warp_sum(lane < warps ? shared[lane] : T(0));
        if (lane == 0) shared[0] = value;
    }
    __syncthreads();
    value = shared[0];
    __syncthreads();
    return value;
}
