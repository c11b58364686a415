// C (m, n) = A (m, k) B (k, n), row by row in memory, float32; factors are rounded to tf32 in registers. As in ring.cu,
// a block of 256 threads makes 128 x 256 numbers of C, a warp 64 x 64, from a ring of three stages, here of 32 terms.
// ldmatrix takes four floats of a row of A for eight numbers of 16 bits, and gives each lane one, as fragments of A in
// tf32 need them. It transposes only numbers of 16 bits, so fragments of B are read by plain loads, of 32 neighbouring
// banks.
// arch: sm_80, sm_90, sm_100
// instance: product<1>
// instance: product<4>
#include "async.cuh"
#include "mma.cuh"
#include "store.cuh"

constexpr int TILE_M = 128, TILE_N = 256, DEPTH = 32, STAGES = 3, THREADS = 256;
// floats: 8 rows of four begin in different banks, and so do 4 rows of eight
constexpr int PITCH_A = DEPTH + 4, PITCH_B = TILE_N + 8;
constexpr int STAGE = TILE_M * PITCH_A + DEPTH * PITCH_B;  // a block takes 4 STAGES STAGE bytes of shared memory

// Begins to copy ROWS x COLUMNS floats of a matrix of which `rows` and `columns` are left, WIDTH at a time; the rest
// is 0.
template <int ROWS, int COLUMNS, int PITCH, int WIDTH>
__device__ __forceinline__ void fetch_tile(float* to, const float* from, int pitch, int rows, int columns) {
    if (WIDTH == 4 && rows >= ROWS && columns >= COLUMNS) {  // inside of the matrix no copy checks for an edge
#pragma unroll
        for (int i = threadIdx.x; i < ROWS * COLUMNS / 4; i += THREADS) {
            const int row = i / (COLUMNS / 4), column = i % (COLUMNS / 4) * 4;
            copy_sixteen(to + row * PITCH + column, from + (long long)row * pitch + column, 4);
        }
        return;
    }
    for (int i = threadIdx.x; i < ROWS * COLUMNS / WIDTH; i += THREADS) {
        const int row = i / (COLUMNS / WIDTH), column = i % (COLUMNS / WIDTH) * WIDTH;
        const int wanted = row < rows ? max(0, min(WIDTH, columns - column)) : 0;
        const float* source = wanted > 0 ? from + (long long)row * pitch + column : from;
        if constexpr (WIDTH == 4) copy_sixteen(to + row * PITCH + column, source, wanted);
        else copy_float(to + row * PITCH + column, source, wanted > 0);
    }
}

// WIDTH 4 needs n and k that are multiples of 4.
template <int WIDTH>
__global__ void __launch_bounds__(THREADS, 1)
product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ float4 shared[];
    float* ring = reinterpret_cast<float*>(shared);
    const int top = blockIdx.y * TILE_M, left = blockIdx.x * TILE_N;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp = threadIdx.x / 32, rows = warp % 2 * 64, columns = warp / 2 * 64;
    const int steps = (k + DEPTH - 1) / DEPTH;
    auto fetch = [&](int step) {
        if (step < steps) {
            float* to = ring + step % STAGES * STAGE;
            const int first = step * DEPTH;
            fetch_tile<TILE_M, DEPTH, PITCH_A, WIDTH>(to, a + (long long)top * k + first, k, m - top, k - first);
            fetch_tile<DEPTH, TILE_N, PITCH_B,
                WIDTH>(to + TILE_M * PITCH_A, b + (long long)first * n + left, n, k - first, n - left);
        }
        commit_copies();
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);

    float sum[4][8][4] = {};
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        const float *tile_a = ring + step % STAGES * STAGE, *tile_b = tile_a + TILE_M * PITCH_A;
#pragma unroll
        for (int first = 0; first < DEPTH; first += 8) {
            unsigned of_a[4][4], of_b[8][2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrices(of_a[i], tile_a + (rows + 16 * i + lane % 16) * PITCH_A + first + lane / 16 * 4);
#pragma unroll
                for (int part = 0; part < 4; ++part) of_a[i][part] = to_tf32(__uint_as_float(of_a[i][part]));
            }
#pragma unroll
            for (int j = 0; j < 8; ++j)
#pragma unroll
                for (int part = 0; part < 2; ++part)
                    of_b[j][part] = to_tf32(tile_b[(first + t + 4 * part) * PITCH_B + columns + 8 * j + g]);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) mma_tf32(sum[i][j], of_a[i], of_b[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) store_fragment(c, sum[i][j], top + rows + 16 * i, left + columns + 8 * j, m, n);
}
