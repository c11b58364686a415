// Two sums over all numbers of a channel, by one block or by two launches; in a fixed order.
//
// Numbers (n, channels, size) are read in units of VEC. A block has ACROSS channels: 1, whose units its threads share,
// or 32 next to each other where size is 1, so that a warp reads 32 of them at once. `chunks` blocks share a channel.
#pragma once
#include "warp.cuh"

// Where the totals of a channel come from: one block, parts that another launch wrote, or neither.
enum Source { ALONE = 0, PARTS = 1, RUNNING = 2 };

// The units that a thread reads: first + k * step, below last. channel is below 0 where there is none.
template <int ACROSS>
struct Units {
    unsigned first, last, step, width;
    int channel, channels;

    // units: of a channel. per: of a block. width: of a channel in a sample.
    __device__ __forceinline__ Units(unsigned units, unsigned per, unsigned chunks, unsigned width, int channels)
        : step(blockDim.x / ACROSS), width(width), channels(channels) {
        const unsigned chunk = blockIdx.x % chunks;
        channel = static_cast<int>(blockIdx.x / chunks * ACROSS + threadIdx.x % ACROSS);
        first = chunk * per + threadIdx.x / ACROSS;
        last = min(units, (chunk + 1) * per);
        if (channel >= channels) channel = -1, last = 0;
    }

    // Number of a unit in the batch; below 0 beyond the last.
    __device__ __forceinline__ long long at(unsigned unit) const {
        if (unit >= last) return -1;
        if constexpr (ACROSS > 1) return static_cast<long long>(unit) * channels + channel;
        const unsigned sample = unit / width;
        return (static_cast<long long>(sample) * channels + channel) * width + (unit - sample * width);
    }
};

// Unit `at` of an array; zeros below 0.
template <int VEC>
__device__ __forceinline__ void load_unit(const float* from, long long at, float* value) {
    if constexpr (VEC == 4) {
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (at >= 0) four = reinterpret_cast<const float4*>(from)[at];
        value[0] = four.x, value[1] = four.y, value[2] = four.z, value[3] = four.w;
    } else {
        value[0] = at >= 0 ? from[at] : 0.0f;
    }
}

template <int VEC>
__device__ __forceinline__ void store_unit(float* to, long long at, const float* value) {
    if (at < 0) return;
    if constexpr (VEC == 4) reinterpret_cast<float4*>(to)[at] = make_float4(value[0], value[1], value[2], value[3]);
    else to[at] = value[0];
}

// Doubles of shared memory for the sums of each of up to 32 warps.
template <int ACROSS>
constexpr int WARP_SUMS = 32 * 2 * ACROSS;

// totals (2, ACROSS) of every thread's a and b. A block has 64 threads or more.
template <int ACROSS>
__device__ __forceinline__ void add_in_block(double a, double b, double* shared, double* totals) {
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
    if constexpr (ACROSS > 1) {
        shared[2 * warp * ACROSS + lane] = a;
        shared[(2 * warp + 1) * ACROSS + lane] = b;
        __syncthreads();
        if (t < 2 * ACROSS) {
            double sum = 0.0;
            for (int from = 0; from < warps; ++from) sum += shared[from * 2 * ACROSS + t];
            totals[t] = sum;
        }
    } else {
        a = warp_sum(a);
        b = warp_sum(b);
        if (lane == 0) shared[2 * warp] = a, shared[2 * warp + 1] = b;
        __syncthreads();
        if (warp < 2) {
            const double sum = warp_sum(lane < warps ? shared[2 * lane + warp] : 0.0);
            if (lane == 0) totals[warp] = sum;
        }
    }
    __syncthreads();
}

// parts (groups of channels, chunks, 2, ACROSS): the totals of each block, for another launch.
template <int ACROSS>
__device__ __forceinline__ void store_parts(const double* totals, double* parts) {
    if (threadIdx.x < 2 * ACROSS) parts[blockIdx.x * 2LL * ACROSS + threadIdx.x] = totals[threadIdx.x];
}

// totals (2, ACROSS) from the parts of all chunks.
template <int ACROSS>
__device__ __forceinline__ void add_parts(const double* __restrict__ parts, unsigned chunks, double* totals) {
    const double* mine = parts + blockIdx.x / chunks * chunks * 2LL * ACROSS;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    double sum = 0.0;
    if constexpr (ACROSS > 1) {
#pragma unroll 4
        for (unsigned chunk = 0; chunk < chunks && t < 2 * ACROSS; ++chunk) sum += mine[chunk * 2 * ACROSS + t];
        if (t < 2 * ACROSS) totals[t] = sum;
    } else if (warp < 2) {
        for (unsigned chunk = lane; chunk < chunks; chunk += 32) sum += mine[2 * chunk + warp];
        sum = warp_sum(sum);
        if (lane == 0) totals[warp] = sum;
    }
    __syncthreads();
}
