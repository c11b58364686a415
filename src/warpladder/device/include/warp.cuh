// Sums over the 32 lanes of a warp by shuffles, in a fixed order: the same bits at every run, no shared memory, no
// barrier.
#pragma once

constexpr unsigned EVERY_LANE = 0xffffffffu;

// Every lane gets the sum of all lanes' values. At each of five steps lane l adds what lane l ^ offset has; both add
// the same two numbers.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(EVERY_LANE, value, offset);
    return value;
}

// Which of N sums a lane is left with by warp_sums: `count` of them from number `first` on.
struct Share {
    int first, count;
};

// How many of n numbers a lane is left with at most.
__device__ constexpr int left_of(int n, int least = 1) {
    for (int offset = 16; offset >= least; offset /= 2) n = (n + 1) / 2;
    return n;
}

// N sums at once. Each lane hands in N values; afterwards value[k] holds, for k < count, the sum of all lanes'
// value[first + k].
//
// At each of five steps lanes l and l ^ offset divide the numbers that both still have: one keeps the lower half, the
// other the upper, and each adds what the other had of its half. So N + 31 shuffles or fewer do what N sums one by one
// take 5 N for. With LEAST, a power of two, only lanes of the same number modulo LEAST are added up.
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

// The sum over the threads of a one-dimensional block of whole warps: the warps' sums go to shared (32 values, free
// again afterwards), and the first warp adds them up. Every thread calls it, and gets the sum.
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
