// Gradients of a thin chain from few samples, the update if there is one, and the log, in one launch.
//
// A block has 16 inputs, its lanes 4 each of 8 samples, its eight warps 64 samples at a time: each of the 160 sums of
// dw1 is in 64 lanes, added by shuffles and one barrier. A block loads all its numbers at once.
// instance: chain_gradient_few<10, 1, float>; chain_gradient_few<16, 4, float>
// instance: chain_gradient_few<16, 4, unsigned char>
#include "chain_end.cuh"
#include "pixels.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int TILE = 16;  // inputs of a block
constexpr int AHEAD = 2;  // samples that a lane requests at once

// x: (n, inputs). Blocks along x: of dw1, then of the small sums, then one for the log. small: (n, pitch), of which
// `count` columns are summed. params, momentum_buffer: null without an update.
template <int WIDTH, int WIDE, class Pixel>
__global__ void __launch_bounds__(THREADS, 1) chain_gradient_few(
    const Pixel* __restrict__ x, float scale, const float* __restrict__ g, int n, int inputs,
    const float* __restrict__ small, int pitch, int count, int out, const double* __restrict__ lost,
    const int* __restrict__ hits, float* dw1, float* db1, float* dw2, float* db2, float* grads, float* params,
    float* momentum_buffer, float rate, float momentum, int nesterov, float decay, float limit, int* step,
    double* log_loss, long long* log_correct, int batch, int first, int last
) {
    constexpr int ACROSS = TILE / WIDE, EACH = 32 / ACROSS, QUADS = (WIDTH + 3) / 4, SUMS = WIDTH * WIDE;
    static_assert(WIDTH * TILE <= THREADS, "a thread for each sum");
    __shared__ float added[WARPS][WIDTH * TILE];
    const Flat flat = {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit};
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, tiles = (inputs + TILE - 1) / TILE, block = blockIdx.x;
    if (block == gridDim.x - 1) {
        sum_log<WARPS>(lost, hits, n, step, log_loss, log_correct, batch, first, last);
        return;
    }
    if (block >= tiles) {
        const SmallSums to = {WIDTH, out, count, db1, dw2, db2};
        const int k = (block - tiles) * COLUMNS + lane;
        sum_rows<WARPS>(small, n, pitch, k, to[k], flat);
        return;
    }

    // thread t finishes the sum of output t / TILE and input t % TILE of the tile
    const int own = block * TILE + t % TILE;
    float* const to = t < WIDTH * TILE && own < inputs ? dw1 + t / TILE * inputs + own : nullptr;
    Parameter parameter(flat, to);

    const int i = block * TILE + lane % ACROSS * WIDE;
    const bool inside = i < inputs;
    float sum[SUMS] = {};
    for (int begin = warp * EACH + lane / ACROSS; begin < n; begin += AHEAD * WARPS * EACH) {
        Pixels<Pixel, WIDE> pixels[AHEAD];
        float4 four[AHEAD][QUADS];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const long long s = min(begin + a * WARPS * EACH, n - 1);
            pixels[a].load(x + s * inputs + (inside ? i : 0));
#pragma unroll
            for (int q = 0; q < QUADS; ++q) four[a][q] = reinterpret_cast<const float4*>(g)[s * QUADS + q];
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const long long s = begin + a * WARPS * EACH;
            float factor[4 * QUADS];
#pragma unroll
            // an absent sample adds 0; after a branch its loads would wait for the previous ones
            for (int q = 0; q < QUADS; ++q) {
                const float4 some = s < n ? four[a][q] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                factor[4 * q] = some.x, factor[4 * q + 1] = some.y, factor[4 * q + 2] = some.z,
                    factor[4 * q + 3] = some.w;
            }
#pragma unroll
            for (int k = 0; k < SUMS; ++k) sum[k] = fmaf(factor[k / WIDE], pixels[a][k % WIDE], sum[k]);
        }
    }

    Share share = {0, SUMS};
    warp_sums<SUMS, ACROSS>(sum, share);
#pragma unroll
    for (int k = 0; k < left_of(SUMS, ACROSS); ++k) {
        const int number = share.first + k;
        if (k < share.count) added[warp][number / WIDE * TILE + lane % ACROSS * WIDE + number % WIDE] = sum[k];
    }
    __syncthreads();
    if (to == nullptr) return;
    float total = added[0][t];
#pragma unroll
    for (int v = 1; v < WARPS; ++v) total += added[v][t];
    parameter.finish(flat, to, total * scale);
}
