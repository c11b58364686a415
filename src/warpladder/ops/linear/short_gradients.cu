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
#include "parameter.cuh"
#include "warp.cuh"
#include "weight_tile.cuh"

// dw[o, i] = sum over n of g[n, o] x[n, i], db[o] = sum over n of g[n, o]. Block (OUTPUTS, INPUTS); SAMPLES are in
// shared memory at a time.
template <int WIDE, int OUTPUTS, int INPUTS, int SAMPLES>
__global__ void __launch_bounds__(THREADS, 1) short_weight_gradient(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ dw,
    float* __restrict__ db, int n, int inputs, int outputs
) {
    const Batch batch = {x, dy, y, n, inputs, outputs};
    weight_tile<WIDE, OUTPUTS, INPUTS, SAMPLES>(batch, dw, db, Flat{}, inputs, outputs, blockIdx.x, blockIdx.y);
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
                for (int k = 0; k < 4; ++k) add_product(sum + 4 * r, left[k], right[k]);
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
