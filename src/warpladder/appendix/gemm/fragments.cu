// C (m, n) = A (m, k) B (k, n), row by row in memory, float32; factors are rounded to bf16, sums are those of the
// tensor cores. A block of 256 threads makes 128 x 128 numbers of C, a warp 64 x 32 of them: 4 x 4 fragments of 16 x 8.
// 32 terms of the sums come to shared memory at a time, rounded on the way, two neighbours along k in one word, as
// fragments have them. One instruction of a warp multiplies 16 x 16 numbers of A by 16 x 8 of B: 2048 multiply-adds, as
// many as 64 FMA instructions.
// arch: sm_80, sm_90, sm_100
#include "mma.cuh"
#include "store.cuh"

constexpr int TILE = 128, DEPTH = 32, WORDS = DEPTH / 2, THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    // Rows are longer than their words by 4 and by 8: the 32 words of a fragment, 8 rows of 4 or 4 rows of 8, then lie
    // in 32 banks.
    __shared__ unsigned tile_a[TILE][WORDS + 4], tile_b[WORDS][TILE + 8];
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int rows = warp % 2 * 64, columns = warp / 2 * 32;  // where the warp's part of the tile begins
    float sum[4][4][4] = {};
    for (int first = 0; first < k; first += DEPTH) {
#pragma unroll
        for (int i = threadIdx.x; i < TILE * WORDS; i += THREADS) {
            const int row = i / WORDS, ka = first + i % WORDS * 2;
            const float* from = a + (long long)(top + row) * k + ka;
            tile_a[row][i % WORDS] = two_bf16(top + row < m && ka < k ? from[0] : 0.0f, top + row < m && ka + 1 < k
                ? from[1] : 0.0f);
        }
#pragma unroll
        for (int i = threadIdx.x; i < TILE * WORDS; i += THREADS) {
            const int column = i % TILE, kb = first + i / TILE * 2;
            const float* from = b + (long long)kb * n + left + column;
            tile_b[i / TILE][column] = two_bf16(kb < k && left + column < n ? from[0] : 0.0f, kb + 1 < k
                && left + column < n ? from[n] : 0.0f);
        }
        __syncthreads();
#pragma unroll
        for (int word = 0; word < WORDS; word += 8) {  // 16 terms
            unsigned of_a[4][4], of_b[4][2];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    of_a[i][part] = tile_a[rows + 16 * i + g + part % 2 * 8][word + t + part / 2 * 4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int part = 0; part < 2; ++part) of_b[j][part] = tile_b[word + t + part * 4][columns + 8 * j + g];
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) mma_bf16(sum[i][j], of_a[i], of_b[j]);
        }
        __syncthreads();  // before the tiles are written again
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) store_fragment(c, sum[i][j], top + rows + 16 * i, left + columns + 8 * j, m, n);
}
