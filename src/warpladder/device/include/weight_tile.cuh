// Tile of a linear layer's weight gradient from a short batch, by one block: all samples' sums, the bias gradient with
// the first inputs, and the update of the parameters if there is one.
#pragma once
#include "short_batch.cuh"

// Rows of n samples: x (n, pitch_x), inputs; dy and y (n, pitch_g), the gradient by the outputs, and the outputs where
// its ReLU mask is still to be applied, else null.
struct Batch {
    const float *x, *dy, *y;
    int n, pitch_x, pitch_g;
};

// First row and column of the 4 x 4 sums of a thread among those that cover a tile. A warp's lanes have four rows and
// eight columns: a read of 32 x 16 bytes is one of 64 or 128.
template <int INPUTS>
struct Place {
    int row, column;
    __device__ __forceinline__ explicit Place(int place)
        : row((place % 2 + place / 8 % 2 * 2) * 4 + place / INPUTS * 16),
          column((place / 2 % 4 + place / 16 % 2 * 4) * 4 + place / 32 % (INPUTS / 32) * 32) {}
};

// dw[o, i] = sum over n of g[n, o] x[n, i], db[o] = sum over n of g[n, o], unless null; g is dy, or 0 where y is not
// above 0. The tile has OUTPUTS outputs from across * OUTPUTS on and INPUTS inputs from down * INPUTS on. SAMPLES
// are in shared memory at a time. WIDE: both pitches are multiples of 4, and so are the inputs or what lies between
// is 0. A thread has 4 x 4 sums; the threads that cover the tile once take every SHARES-th sample. By all THREADS of
// a block.
template <int WIDE, int OUTPUTS, int INPUTS, int SAMPLES, class Ends>
__device__ __forceinline__ void weight_tile(const Batch& batch, float* __restrict__ dw, float* __restrict__ db,
    const Ends& ends, int inputs, int outputs, int across, int down) {
    constexpr int PITCH_G = OUTPUTS + 4, PITCH_X = INPUTS + 4, TILE = OUTPUTS * INPUTS;
    constexpr int COVERING = TILE / 16, SHARES = THREADS / COVERING;
    constexpr int LOADS = SAMPLES * OUTPUTS / 4 / THREADS;  // of four numbers of g by each thread
    constexpr int EVERY = THREADS / OUTPUTS;                // a thread adds every EVERY-th sample of an output for db
    extern __shared__ float4 memory[];
    float *g = reinterpret_cast<float*>(memory), *some = g + SAMPLES * PITCH_G;
    const int o0 = across * OUTPUTS, i0 = down * INPUTS;
    const int share = threadIdx.x / COVERING;
    const Place<INPUTS> at(threadIdx.x % COVERING);
    float sum[4][4] = {}, bias = 0.0f;
    for (int first = 0; first < batch.n; first += SAMPLES) {
        const int count = min(SAMPLES, batch.n - first);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SAMPLES * INPUTS / 4 / THREADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (INPUTS / 4), i = t % (INPUTS / 4) * 4;
            const float* from = batch.x + static_cast<long long>(first + s) * batch.pitch_x + i0 + i;
            copy_four<WIDE>(some + s * PITCH_X + i, from, s < count ? inputs - i0 - i : 0);
        }
        commit_copies();
        MaskedFour<WIDE> four[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (OUTPUTS / 4), o = o0 + t % (OUTPUTS / 4) * 4;
            const long long from = static_cast<long long>(first + s) * batch.pitch_g + o;
            four[k].load(batch.dy, batch.y, from, s < count ? outputs - o : 0);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int t = threadIdx.x + k * THREADS;
            *reinterpret_cast<float4*>(g + t / (OUTPUTS / 4) * PITCH_G + t % (OUTPUTS / 4) * 4) = four[k].masked();
        }
        wait_for_copies<0>();
        __syncthreads();
#pragma unroll 4
        for (int s = share; s < count; s += SHARES) {
            const float4 a = *reinterpret_cast<const float4*>(g + s * PITCH_G + at.row);
            const float4 b = *reinterpret_cast<const float4*>(some + s * PITCH_X + at.column);
            const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int c = 0; c < 4; ++c) sum[r][c] = fmaf(left[r], right[c], sum[r][c]);
        }
        if (down == 0)
#pragma unroll
            for (int k = 0; k < SAMPLES / EVERY; ++k)
                bias += g[(threadIdx.x / OUTPUTS + k * EVERY) * PITCH_G + threadIdx.x % OUTPUTS];
    }
    // A part of four sums is at [share][one of four rows][place].
    float* biases = g + THREADS * 16;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; ++r)
        memory[(share * 4 + r) * COVERING + threadIdx.x % COVERING] =
            make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    biases[threadIdx.x] = bias;
    __syncthreads();
#pragma unroll
    for (int t = threadIdx.x; t < TILE / 4; t += THREADS) {
        float4 total = memory[t];
#pragma unroll
        for (int v = 1; v < SHARES; ++v) total = total + memory[v * TILE / 4 + t];
        const Place<INPUTS> to(t % COVERING);
        const int o = o0 + to.row + t / COVERING, i = i0 + to.column;
        if (o >= outputs) continue;
        float* const gradient = dw + static_cast<long long>(o) * inputs + i;
        if (ends.params == nullptr) {
            store_four(gradient, total, inputs - i, inputs % 4 == 0);
        } else {
            const float each[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (i + e < inputs) ends.finish(gradient + e, each[e]);
        }
    }
    if (db == nullptr || down > 0 || threadIdx.x >= OUTPUTS || o0 + static_cast<int>(threadIdx.x) >= outputs) return;
    for (int v = 1; v < EVERY; ++v) bias += biases[v * OUTPUTS + threadIdx.x];
    ends.finish(db + o0 + threadIdx.x, bias);
}
