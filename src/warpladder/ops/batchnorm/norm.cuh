// A channel's statistics and the map z w + b that they make, for the kernels of batch normalisation.
//
// saved (5, channels): mean in two parts, 1 / sqrt(var + eps), that times w, and b; w may change before they are read.
// Sums of a thread's few numbers are float, of differences from their mean; all others are double, in a fixed order.
#pragma once
#include "../activation/activation.cuh"
#include "channel_sums.cuh"
#include "parameter.cuh"

// Units that a thread has under way, forward and backward.
constexpr int AHEAD = 4, BACK = 2;

// Most threads of a block: an activation other than ReLU needs more registers than 1,024 threads leave.
template <int FUNCTION>
constexpr int THREADS = FUNCTION < IDENTITY ? 512 : 1024;

// What makes z and z w + b of a channel's numbers.
struct Map {
    float high, low, factor, scale, b;

    __device__ __forceinline__ float difference(float x) const { return x - high - low; }
    __device__ __forceinline__ float mapped(float difference) const { return fmaf(difference, scale, b); }
};

// Sums of x - shift and of its square over a thread's numbers; shift: the channel's first number.
template <int ACROSS, int VEC>
__device__ __forceinline__ void moments(const float* __restrict__ x, const Units<ACROSS>& units, float shift,
    double& sum, double& squares) {
    sum = squares = 0.0;
    for (unsigned unit = units.first; unit < units.last; unit += AHEAD * units.step) {
        float number[AHEAD * VEC], total = 0.0f, rest = 0.0f, square = 0.0f;
        int count = 0;
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            load_unit<VEC>(x, units.at(unit + k * units.step), number + k * VEC);
            count += unit + k * units.step < units.last ? VEC : 0;
        }
#pragma unroll
        for (int k = 0; k < AHEAD * VEC; ++k) total += number[k];
        const float middle = total / count;
#pragma unroll
        for (int k = 0; k < AHEAD * VEC; ++k) {
            const float difference = k < count ? number[k] - middle : 0.0f;
            rest += difference;
            square = fmaf(difference, difference, square);
        }
        const double base = static_cast<double>(middle) - shift;
        sum += count * base + rest;
        squares += square + base * (2.0 * rest + count * base);
    }
}

template <int ACROSS, int VEC>
__device__ __forceinline__ float first_number(const float* __restrict__ x, const Units<ACROSS>& units) {
    return units.channel < 0 ? 0.0f : x[static_cast<long long>(units.channel) * units.width * VEC];
}

// The map of a thread's channel from its totals, or from the running statistics; `stores`: it is the one that moves
// those and saves the map. count: numbers of the channel.
template <int ACROSS, int SOURCE>
__device__ __forceinline__ Map channel_map(const Units<ACROSS>& units, const double* totals, float shift,
    const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ running_mean,
    float* __restrict__ running_var, float* __restrict__ saved, bool stores, double count, double eps,
    double momentum) {
    const int c = units.channel, n = units.channels;
    double mean, var;
    if constexpr (SOURCE == RUNNING) {
        mean = running_mean[c], var = running_var[c];
    } else {
        const double sum = totals[threadIdx.x], squares = totals[ACROSS + threadIdx.x] - sum * (sum / count);
        mean = shift + sum / count, var = squares < 0.0 ? 0.0 : squares / count;
    }
    const double factor = 1.0 / sqrt(var + eps);
    const float high = static_cast<float>(mean);
    const Map map = {high, static_cast<float>(mean - high), static_cast<float>(factor),
        static_cast<float>(w == nullptr ? factor : factor * w[c]), b == nullptr ? 0.0f : b[c]};
    if (SOURCE == RUNNING || !stores) return map;
    running_mean[c] = static_cast<float>((1.0 - momentum) * running_mean[c] + momentum * mean);
    running_var[c] = static_cast<float>((1.0 - momentum) * running_var[c] + momentum * (var * (count / (count - 1.0))));
    saved[c] = map.high, saved[n + c] = map.low, saved[2 * n + c] = map.factor;
    saved[3 * n + c] = map.scale, saved[4 * n + c] = map.b;
    return map;
}

// The map of every thread's channel, from the SOURCE of its sums; parts: of PARTS. The first block of a channel moves
// running_mean and running_var, and saves the map.
template <int ACROSS, int VEC, int SOURCE>
__device__ __forceinline__ Map map_of(const float* __restrict__ x, const Units<ACROSS>& mine,
    const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ running_mean,
    float* __restrict__ running_var, float* __restrict__ saved, const double* __restrict__ parts, unsigned units,
    unsigned chunks, double eps, double momentum) {
    __shared__ double shared[WARP_SUMS<ACROSS>], totals[2 * ACROSS];
    __shared__ Map maps[ACROSS];
    const float shift = SOURCE == RUNNING ? 0.0f : first_number<ACROSS, VEC>(x, mine);
    if constexpr (SOURCE == PARTS) {
        add_parts<ACROSS>(parts, chunks, totals);
    } else if constexpr (SOURCE != RUNNING) {
        double sum, squares;
        moments<ACROSS, VEC>(x, mine, shift, sum, squares);
        add_in_block<ACROSS>(sum, squares, shared, totals);
    }
    if (threadIdx.x < ACROSS) {
        const bool stores = blockIdx.x % chunks == 0;
        maps[threadIdx.x] = mine.channel < 0 ? Map{} : channel_map<ACROSS, SOURCE>(mine, totals, shift, w, b,
            running_mean, running_var, saved, stores, static_cast<double>(units) * VEC, eps, momentum);
    }
    __syncthreads();
    return maps[threadIdx.x % ACROSS];
}

// The map that forward saved.
template <int ACROSS>
__device__ __forceinline__ Map saved_map(const float* __restrict__ saved, const Units<ACROSS>& units) {
    const int c = units.channel < 0 ? 0 : units.channel, n = units.channels;
    return {saved[c], saved[n + c], saved[2 * n + c], saved[3 * n + c], saved[4 * n + c]};
}

// dw and db, the totals of g z and of g, and the update of w and b; `stores`: in the first block of a channel.
template <int ACROSS>
__device__ __forceinline__ void finish_parameters(const double* totals, const Units<ACROSS>& mine, float* dw, float* db,
    bool stores, const Flat& flat) {
    const int lane = threadIdx.x;
    if (lane >= 2 * ACROSS || mine.channel < 0 || dw == nullptr || !stores) return;
    float* gradient = (lane < ACROSS ? dw : db) + mine.channel;
    Parameter parameter(flat, gradient);
    parameter.finish(flat, gradient, static_cast<float>(totals[lane]));
}
