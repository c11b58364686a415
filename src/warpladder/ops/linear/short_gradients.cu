// Gradients of a linear layer on a short batch, bound by latency as its forward pass is: one launch for dw and db, and
// one for dx. Both apply the mask of a ReLU after the layer themselves, so that neither waits for the other.
//
// g is dy, or 0 where y (null without a ReLU) is not above 0. x, dx: (n, inputs). dy, y: (n, outputs). w, dw:
// (outputs, inputs). db: (outputs,). WIDE: four divides inputs and outputs.
// instance: short_weight_gradient<1, 16, 32, 256>; short_weight_gradient<0, 16, 32, 256>
// instance: short_weight_gradient<1, 32, 32, 128>; short_weight_gradient<0, 32, 32, 128>
// instance: short_weight_gradient<1, 32, 64, 64>; short_weight_gradient<0, 32, 64, 64>
// instance: short_input_gradient<1, 8>; short_input_gradient<0, 8>; short_input_gradient<1, 16>
// instance: short_input_gradient<0, 16>; short_input_gradient<1, 32>; short_input_gradient<0, 32>
#include "short.cuh"
#include "warp.cuh"

// Four numbers of g from number `at` on, of which the first `count` exist.
template <int WIDE>
struct MaskedFour {
    float4 value, mask;
    __device__ __forceinline__ void load(const float* dy, const float* y, long long at, int count) {
        value = read_four<WIDE>(dy + at, count);
        mask = y != nullptr ? read_four<WIDE>(y + at, count) : make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    }
    __device__ __forceinline__ float4 masked() const { return relu_gradient(value, mask); }
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

// dw[o, i] = sum over n of g[n, o] x[n, i], db[o] = sum over n of g[n, o]. Block (OUTPUTS, INPUTS); SAMPLES are in
// shared memory at a time. A thread has 4 x 4 sums; the threads that cover a tile once take every SHARES-th sample.
template <int WIDE, int OUTPUTS, int INPUTS, int SAMPLES>
__global__ void __launch_bounds__(THREADS) short_weight_gradient(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ dw,
    float* __restrict__ db, int n, int inputs, int outputs
) {
    constexpr int PITCH_G = OUTPUTS + 4, PITCH_X = INPUTS + 4, TILE = OUTPUTS * INPUTS;
    constexpr int COVERING = TILE / 16, SHARES = THREADS / COVERING;
    constexpr int LOADS = SAMPLES * OUTPUTS / 4 / THREADS;  // of four numbers of g by each thread
    constexpr int EVERY = THREADS / OUTPUTS;                // a thread adds every EVERY-th sample of an output for db
    extern __shared__ float4 memory[];
    float *g = reinterpret_cast<float*>(memory), *some = g + min(n, SAMPLES) * PITCH_G;
    const int o0 = blockIdx.x * OUTPUTS, i0 = blockIdx.y * INPUTS;
    const int share = threadIdx.x / COVERING;
    const Place<INPUTS> at(threadIdx.x % COVERING);
    float sum[4][4] = {}, bias = 0.0f;
    for (int first = 0; first < n; first += SAMPLES) {
        const int count = min(SAMPLES, n - first);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < SAMPLES * INPUTS / 4 / THREADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (INPUTS / 4), i = t % (INPUTS / 4) * 4;
            const float* from = x + static_cast<long long>(first + s) * inputs + i0 + i;
            if (s < count) copy_four<WIDE>(some + s * PITCH_X + i, from, inputs - i0 - i);
        }
        commit_copies();
        MaskedFour<WIDE> four[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (OUTPUTS / 4), o = o0 + t % (OUTPUTS / 4) * 4;
            four[k].load(dy, y, static_cast<long long>(first + s) * outputs + o, s < count ? outputs - o : 0);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            const int t = threadIdx.x + k * THREADS, s = t / (OUTPUTS / 4);
            if (s < count) *reinterpret_cast<float4*>(g + s * PITCH_G + t % (OUTPUTS / 4) * 4) = four[k].masked();
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
        if (blockIdx.y == 0)
#pragma unroll 4
            for (int s = threadIdx.x / OUTPUTS; s < count; s += EVERY) bias += g[s * PITCH_G + threadIdx.x % OUTPUTS];
    }
    // A part of four sums stands at [share][one of four rows][place].
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
        if (o < outputs) store_four(dw + static_cast<long long>(o) * inputs + i, total, inputs - i, WIDE);
    }
    if (blockIdx.y > 0 || threadIdx.x >= OUTPUTS || o0 + static_cast<int>(threadIdx.x) >= outputs) return;
    for (int v = 1; v < EVERY; ++v) bias += biases[v * OUTPUTS + threadIdx.x];
    db[o0 + threadIdx.x] = bias;
}

constexpr int ROWS = 16;            // samples of a block
constexpr int EACH = ROWS / WARPS;  // samples that a warp brings
constexpr int AHEAD = 2;            // reads of each sample by a lane that are in flight together

// dx[n, i] = sum over o of g[n, o] w[o, i]. `depth` outputs, a multiple of 4, are in shared memory at a time. Block (16
// samples, COLUMNS inputs). A thread has 4 x 4 sums over every SHARES-th four outputs.
template <int WIDE, int COLUMNS>
__global__ void __launch_bounds__(THREADS, 2) short_input_gradient(
    const float* __restrict__ dy, const float* __restrict__ y, const float* __restrict__ w, float* __restrict__ dx,
    int n, int inputs, int outputs, int depth
) {
    constexpr int SHARES = THREADS / COLUMNS, TILE = ROWS * COLUMNS;
    extern __shared__ float4 memory[];
    const int pitch = (depth + 15) / 16 * 16 + 8;  // so that the reads of `g` meet no bank twice
    float *g = reinterpret_cast<float*>(memory), *weights = g + ROWS * pitch;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int begin = blockIdx.x * ROWS, i0 = blockIdx.y * COLUMNS;
    const int column = lane % (COLUMNS / 4) * 4, of_four = lane / (COLUMNS / 4) % 4;
    const int share = warp * (32 / COLUMNS) + lane / COLUMNS;
    float sum[16] = {};

    for (int first = 0; first < outputs; first += depth) {
        const int count = min(depth, outputs - first), end = (count + 3) / 4 * 4;  // zeros up to there
        __syncthreads();
        for (int t = threadIdx.x; t < end * (COLUMNS / 4); t += THREADS) {
            const int o = t / (COLUMNS / 4), i = t % (COLUMNS / 4) * 4;
            copy_four<WIDE>(weights + o * COLUMNS + i, w + static_cast<long long>(first + o) * inputs + i0 + i,
                o < count ? inputs - i0 - i : 0);
        }
        commit_copies();
        for (int start = lane * 4; start < end; start += 128 * AHEAD) {
            MaskedFour<WIDE> four[EACH][AHEAD];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const int s = begin + warp + e * WARPS;
#pragma unroll
                for (int a = 0; a < AHEAD; ++a) {
                    const int o = start + 128 * a;
                    const long long at = static_cast<long long>(s) * outputs + first + o;
                    four[e][a].load(dy, y, at, s < n ? count - o : 0);
                }
            }
#pragma unroll
            for (int e = 0; e < EACH; ++e)
#pragma unroll
                for (int a = 0; a < AHEAD; ++a)
                    if (const int o = start + 128 * a; o < end)
                        *reinterpret_cast<float4*>(g + (warp + e * WARPS) * pitch + o) = four[e][a].masked();
        }
        wait_for_copies<0>();
        __syncthreads();
#pragma unroll 2
        for (int o = share * 4; o < end; o += SHARES * 4) {
            float4 right[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                right[k] = *reinterpret_cast<const float4*>(weights + (o + k) * COLUMNS + column);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float4 four = *reinterpret_cast<const float4*>(g + (of_four + 4 * r) * pitch + o);
                const float left[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    sum[4 * r] = fmaf(left[k], right[k].x, sum[4 * r]);
                    sum[4 * r + 1] = fmaf(left[k], right[k].y, sum[4 * r + 1]);
                    sum[4 * r + 2] = fmaf(left[k], right[k].z, sum[4 * r + 2]);
                    sum[4 * r + 3] = fmaf(left[k], right[k].w, sum[4 * r + 3]);
                }
            }
        }
    }

    // The parts of a sum: first those of a warp's lanes, then those of the warps.
    Share held = {0, 16};
    warp_sums<16, COLUMNS>(sum, held);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < left_of(16, COLUMNS); ++k) {
        const int number = held.first + k;
        g[warp * TILE + (of_four + number / 4 * 4) * COLUMNS + column + number % 4] = sum[k];
    }
    __syncthreads();
    for (int t = threadIdx.x; t < TILE; t += THREADS) {
        float total = g[t];
#pragma unroll
        for (int v = 1; v < WARPS; ++v) total += g[v * TILE + t];
        const int s = begin + t / COLUMNS, i = i0 + t % COLUMNS;
        if (s < n && i < inputs) dx[static_cast<long long>(s) * inputs + i] = total;
    }
}
