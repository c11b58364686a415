// Eight channels of pixels that the lanes of a warp hold: sums and largest numbers of each channel, and its scale.
#pragma once
#include "narrow/narrow.cuh"

// Channels that join_channels leaves in a lane.
template <int EACH>
constexpr int JOINED = EACH < 8 ? 8 / EACH : 1;

// Reduces the numbers that EACH lanes have of eight channels: at each step a lane sends half of its numbers to another.
// At the end mine[0] is the result of the channel whose number is returned, mine[1] of the next one, JOINED in all.
template <int EACH, typename T, typename Join>
__device__ __forceinline__ int join_channels(T (&mine)[8], Join join) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int bit = 1; bit < EACH; bit *= 2)
#pragma unroll
        for (int i = 0; i < max(1, 4 / bit); ++i) {
            const int half = 4 / bit;  // 0 once a lane has one channel left
            const bool upper = half > 0 && lane & bit;
            const T sent = upper ? mine[i] : mine[i + half], held = upper ? mine[i + half] : mine[i];
            mine[i] = join(held, __shfl_xor_sync(EVERY_LANE, sent, bit));
        }
    return lane % 2 * 4 + (EACH > 2 ? lane / 2 % 2 * 2 : 0) + (EACH > 4 ? lane / 4 % 2 : 0);
}

// Sums of eight channels' numbers, of TURNS pixels of each lane, as join_channels leaves them in `sums`.
template <int EACH, int TURNS>
__device__ __forceinline__ int sums_of_channels(const float (&held)[TURNS][8], float (&sums)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        sums[i] = held[0][i];
#pragma unroll
        for (int turn = 1; turn < TURNS; ++turn) sums[i] += held[turn][i];
    }
    return join_channels<EACH>(sums, [](float a, float b) { return a + b; });
}

// Writes the bits of the largest of each of eight channels' numbers, of TURNS pixels of each lane, to largest[0] to
// largest[7].
template <int EACH, int TURNS>
__device__ __forceinline__ void largest_of_channels(const float (&held)[TURNS][8], unsigned* largest) {
    unsigned mine[8] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) mine[i] = max(mine[i], bits_of_size(held[turn][i]));
    const int channel = join_channels<EACH>(mine, [](unsigned a, unsigned b) { return max(a, b); });
#pragma unroll
    for (int i = 0; i < JOINED<EACH>; ++i)
        if (threadIdx.x % EACH < 8) atomicMax(largest + channel + i, mine[i]);
}

// The scales of eight channels from their largest numbers, and eight numbers scaled.
template <int FORMAT>
struct Scales {
    float by[8];

    __device__ __forceinline__ explicit Scales(const unsigned* largest) {
#pragma unroll
        for (int i = 0; i < 8; ++i) by[i] = SCALED<FORMAT> ? power_of_two(scale_exponent(largest[i])) : 1.0f;
    }
    __device__ __forceinline__ Eight<FORMAT> of(float (&x)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] *= by[i];
        return Eight<FORMAT>(x);
    }
};
