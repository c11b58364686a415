// The layers after the first one and the loss, for a tile's samples: four lanes of a warp have a sample, lane q of
// them numbers 4 j + q of its rows, in registers. What another lane or the gradients of the weights need is in columns
// in shared memory: number k of all of the tile's samples, COLUMN floats apart.
#pragma once
#include "../loss/loss.cuh"
#include "../small_chain/functions.cuh"
#include "order.cuh"
#include "tile.cuh"

__device__ constexpr int quads(int width) { return (width + 3) / 4; }
// Floats of a lane's weights for a number, in whole float4.
__device__ constexpr int padded(int width) { return (quads(width) + 3) / 4 * 4; }

// Sum, largest or least of the four lanes of a sample.
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(EVERY_LANE, x, 1);
    return x + __shfl_xor_sync(EVERY_LANE, x, 2);
}
__device__ __forceinline__ float row_largest(float x) {
    x = fmaxf(x, __shfl_xor_sync(EVERY_LANE, x, 1));
    return fmaxf(x, __shfl_xor_sync(EVERY_LANE, x, 2));
}
__device__ __forceinline__ int row_least(int x) {
    x = min(x, __shfl_xor_sync(EVERY_LANE, x, 1));
    return min(x, __shfl_xor_sync(EVERY_LANE, x, 2));
}

// Weights w (OUT, IN) and b of a layer to shared memory, as both passes read them: forward[i][q][j] = w[4 j + q][i],
// backward[o][q][j] = w[o][4 j + q], zeros beyond; bias (4 quads(OUT)), zeros where b is null.
template <int IN, int OUT>
__device__ void hold_layer(float* forward, float* backward, float* bias, const float* __restrict__ w,
    const float* __restrict__ b) {
    constexpr int F = padded(OUT), B = padded(IN);
    for (int k = threadIdx.x; k < IN * 4 * F; k += blockDim.x) {
        const int o = k % F * 4 + k / F % 4, i = k / (4 * F);
        forward[k] = o < OUT ? w[o * IN + i] : 0.0f;
    }
    for (int k = threadIdx.x; k < OUT * 4 * B; k += blockDim.x) {
        const int i = k % B * 4 + k / B % 4, o = k / (4 * B);
        backward[k] = i < IN ? w[o * IN + i] : 0.0f;
    }
    for (int k = threadIdx.x; k < 4 * quads(OUT); k += blockDim.x) bias[k] = b != nullptr && k < OUT ? b[k] : 0.0f;
}

// Adds to y[j] the sum over i of x[i] times this lane's weights: forward, or backward with the gradient as x.
template <int IN, int OUT, int COLUMN>
__device__ __forceinline__ void add_products(const float* x, const float* weights, float (&y)[quads(OUT)]) {
    const float* const mine = weights + threadIdx.x % 4 * padded(OUT);
#pragma unroll(IN <= 16 ? IN : 8)
    for (int i = 0; i < IN; ++i) {
        const float value = x[i * COLUMN];
#pragma unroll
        for (int first = 0; first < quads(OUT); first += 4) {
            const float4 four = *reinterpret_cast<const float4*>(mine + i * 4 * padded(OUT) + first);
            const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (first + j < quads(OUT)) y[first + j] = fmaf(value, each[j], y[first + j]);
        }
    }
}

// Outputs of the first layer from the splits' parts, for eight samples by a warp; factor: of the samples' numbers.
template <class T>
__device__ __forceinline__ void add_parts(float* parts, int eight, const unsigned* exponents, const float* bias,
    float factor, float (&y)[T::QUADS]) {
#pragma unroll
    for (int q = 0; q < T::QUADS; ++q) {
        float sum = *part_of<T>(parts, 0, eight, q);
#pragma unroll
        for (int split = 1; split < T::SPLITS; ++split) sum += *part_of<T>(parts, split, eight, q);
        const int o = 4 * q + threadIdx.x % 4;
        y[q] = fmaf(sum * power_of_two(254u - exponents[o]), factor * T::BACK, bias[o]);
    }
}

// y after a layer's functions, and their slopes.
template <class Then, int QUADS>
__device__ __forceinline__ void apply(float (&y)[QUADS], float (&slope)[QUADS], const Masks& masks, int row) {
#pragma unroll
    for (int j = 0; j < QUADS; ++j) {
        const Traced traced = Then::of(y[j], masks.at(row, 4 * j + static_cast<int>(threadIdx.x) % 4));
        y[j] = traced.value, slope[j] = traced.slope;
    }
}

// The gradient back through a layer's functions.
template <class Then, int QUADS>
__device__ __forceinline__ void go_back(float (&g)[QUADS], const float (&y)[QUADS], const float (&slope)[QUADS]) {
#pragma unroll
    for (int j = 0; j < QUADS; ++j) g[j] = before<Then::BACK>(g[j], y[j], slope + j);
}

template <int OUT, int COLUMN>
__device__ __forceinline__ void to_columns(float* columns, const float (&y)[quads(OUT)]) {
#pragma unroll
    for (int j = 0; j < quads(OUT); ++j) {
        const int o = 4 * j + threadIdx.x % 4;
        if (o < OUT) columns[o * COLUMN] = y[j];
    }
}

// Raises `largest` (4 quads(OUT)) to the sizes of a gradient's numbers in this warp's samples.
template <int QUADS>
__device__ __forceinline__ void raise(unsigned* largest, const float (&g)[QUADS]) {
#pragma unroll
    for (int j = 0; j < QUADS; ++j) {
        const unsigned size = largest_of_lanes<4, 32>(bits_of_size(g[j]));
        if (threadIdx.x % 32 < 4) atomicMax(largest + 4 * j + threadIdx.x % 32, size);
    }
}

// Sums of losses and of right samples in a lane.
struct Found {
    double lost;
    int hits;
};

// Cross-entropy of a sample's logits y, of which the gradient takes the place. weights: of the classes; not read if the
// loss is PLAIN. share: of the sample in the batch's mean.
template <int OUT, bool PLAIN, bool WEIGHTED>
__device__ __forceinline__ void label_loss(float (&y)[quads(OUT)], int label, const float* __restrict__ weights,
    float smoothing, float share, bool present, Found& found) {
    constexpr int N = quads(OUT);
    const int lane = threadIdx.x % 4;
    float largest = __uint_as_float(0xFF800000u), wanted = 0.0f, total = 0.0f, power[N], target[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
        const int c = 4 * j + lane;
        if (c < OUT) largest = fmaxf(largest, y[j]);
        target[j] = c == label ? 1.0f : 0.0f;
        wanted += c == label ? y[j] : 0.0f;
    }
    largest = row_largest(largest), wanted = row_sum(wanted);
    int best = OUT;
#pragma unroll
    for (int j = N - 1; j >= 0; --j) {
        const int c = 4 * j + lane;
        if (c < OUT && y[j] == largest) best = c;
        power[j] = c < OUT ? expf(y[j] - largest) : 0.0f;
        total += power[j];
    }
    best = row_least(best), total = row_sum(total);
    float every = 1.0f, loss = logf(total) - (wanted - largest);
    if constexpr (!PLAIN) {
        every = loss = 0.0f;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const int c = 4 * j + lane;
            if (c >= OUT) continue;
            target[j] = class_target(weights[c], smoothing, OUT, c == label);
            every += target[j];
            loss += target[j] * (largest - y[j]);
        }
        every = row_sum(every);
        loss = row_sum(loss) + every * logf(total);
    }
    const float factor = every * (1.0f / total);
#pragma unroll
    for (int j = 0; j < N; ++j) y[j] = present ? (power[j] * factor - target[j]) * share : 0.0f;
    if (lane == 0 && present) {
        found.lost += static_cast<double>(WEIGHTED ? share : 1.0f) * loss;
        found.hits += best == label;
    }
}

// This lane's targets of a sample, from its row, times `scale`.
template <int OUT, class Goal>
__device__ __forceinline__ void load_targets(float (&target)[quads(OUT)], const Goal* __restrict__ row, float scale) {
#pragma unroll
    for (int j = 0; j < quads(OUT); ++j) {
        const int o = 4 * j + threadIdx.x % 4;
        target[j] = o < OUT ? static_cast<float>(row[o]) * scale : 0.0f;
    }
}

// Mean over a sample's outputs y of a loss by element. settings: of outputs.
template <int FUNCTION, int OUT, bool WEIGHTED>
__device__ __forceinline__ void element_loss(float (&y)[quads(OUT)], const float (&target)[quads(OUT)],
    const float* __restrict__ settings, float share, bool present, Found& found) {
    const int lane = threadIdx.x % 4;
    double loss = 0.0;
#pragma unroll
    for (int j = 0; j < quads(OUT); ++j) {
        const int o = 4 * j + lane;
        if (o >= OUT || !present) {
            y[j] = 0.0f;
            continue;
        }
        const float t = target[j], setting = HAS_SETTING<FUNCTION> ? settings[o] : 1.0f;
        loss += element_value<FUNCTION>(y[j], t, setting);
        y[j] = element_slope<FUNCTION>(y[j], t, setting) * (share / OUT);
    }
    if (present) found.lost += static_cast<double>(WEIGHTED ? share : 1.0f) / OUT * loss;
}

// Waits until all COUNT threads of the block are here, wherever in the code the warps' roles have their call.
template <int COUNT>
__device__ __forceinline__ void meet() {
#ifdef __CUDA_EMU__
    __syncthreads();
#else
    asm volatile("barrier.sync 0, %0;" ::"n"(COUNT) : "memory");
#endif
}

// Two columns, by their offsets, whose products over the samples are a number of the gradient; below 0 for none.
struct Pair {
    int left, right;
};

// Adds the products of a tile's samples, of every SHARES-th four of them.
template <int ROWS, int SHARES>
__device__ __forceinline__ float products_of(const float* columns, const Pair& pair, int share, float sum) {
#pragma unroll 4
    for (int s = 4 * share; s < ROWS; s += 4 * SHARES) {
        const float4 a = *reinterpret_cast<const float4*>(columns + pair.left + s);
        const float4 b = *reinterpret_cast<const float4*>(columns + pair.right + s);
        sum = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
    }
    return sum;
}
