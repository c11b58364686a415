// C (m, n) = A (m, k) B (k, n), row by row in memory, float32; factors are rounded to tf32. As specialised.cu, with
// two differences. In tf32 wgmma takes only factors whose terms are neighbours in memory. A's are; B is transposed by a
// launch before this one: 134 MB of traffic at 4096 x 4096, about a tenth of the time of the product. And no thread
// rounds: the copy engine does, on the way to shared memory, as the tensor maps request.
// arch: sm_90a
#include "stages.cuh"
#include "store.cuh"
#include "wgmma.cuh"

constexpr int SIDE = 32, LINES = 8;  // of a square that a block transposes, and its rows that are moved at once

// y (columns, pitch) = x (rows, columns) transposed.
extern "C" __global__ void __launch_bounds__(SIDE * LINES)
    transpose(const float* __restrict__ x, float* __restrict__ y, int rows, int columns, int pitch) {
    __shared__ float square[SIDE][SIDE + 1];  // a column of it lies in different banks
    const int top = blockIdx.y * SIDE, left = blockIdx.x * SIDE, i = threadIdx.x % SIDE, j = threadIdx.x / SIDE;
#pragma unroll
    for (int line = j; line < SIDE; line += LINES)
        if (top + line < rows && left + i < columns) square[line][i] = x[(long long)(top + line) * columns + left + i];
    __syncthreads();
#pragma unroll
    for (int line = j; line < SIDE; line += LINES)
        if (left + line < columns && top + i < rows) y[(long long)(left + line) * pitch + top + i] = square[i][line];
}

// y (rows, pitch) = x (rows, columns): for rows that do not begin at multiples of 16 bytes, as the copy
// engine needs them.
extern "C" __global__ void __launch_bounds__(256)
    spread(const float* __restrict__ x, float* __restrict__ y, int columns, int pitch) {
    const int column = blockIdx.x * 256 + threadIdx.x;
    if (column < columns) y[(long long)blockIdx.y * pitch + column] = x[(long long)blockIdx.y * columns + column];
}

constexpr int TILE_M = 128, TILE_N = 256, DEPTH = 32, STAGES = 4, THREADS = 384, MULTIPLYING = 2;
// of a stage; a block takes STAGES BYTES + 1,024 bytes of shared memory
constexpr int OF_A = TILE_M * 128, BYTES = OF_A + TILE_N * 128;

// b : of B transposed, (n, k).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* __restrict__ c, int m, int n,
    int k) {
    extern __shared__ uint4 shared[];
    __shared__ Barrier arrived[STAGES], read[STAGES];
    char* ring = first_stage(shared);
    const Order<TILE_M, TILE_N> order(m, n);
    const int steps = (k + DEPTH - 1) / DEPTH;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&arrived[stage], 1);
            barrier_init(&read[stage], 4 * MULTIPLYING);
        }
        barriers_ready();
    }
    __syncthreads();
    Turn<STAGES> at;
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x != 0) return;
        for (int tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            int top, left;
            order.place(tile, top, left);
            for (int step = 0; step < steps; ++step, at.next()) {
                barrier_wait(&read[at.stage], at.parity ^ 1);
                barrier_expect(&arrived[at.stage], BYTES);
                copy_tile(ring + at.stage * BYTES, a, step * DEPTH, top, &arrived[at.stage]);
                copy_tile(ring + at.stage * BYTES + OF_A, b, step * DEPTH, left, &arrived[at.stage]);
            }
        }
    } else {
        more_registers<232>();
        const int rows = (threadIdx.x / 128 - 1) * 64, warp = threadIdx.x / 32 % 4;
        auto done = [&](int stage) {
            if (threadIdx.x % 32 == 0) barrier_arrive(&read[stage]);
        };
        for (int tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            int top, left;
            order.place(tile, top, left);
            float sum[TILE_N / 2];
            for (int step = 0; step < steps; ++step, at.next()) {
                barrier_wait(&arrived[at.stage], at.parity);
                const char *tile_a = ring + at.stage * BYTES + rows * 128, *tile_b = ring + at.stage * BYTES + OF_A;
                wgmma_begin();
#pragma unroll
                for (int first = 0; first < DEPTH; first += 8)
                    wgmma_tf32(sum, terms_along(tile_a + 4 * first), terms_along(tile_b + 4 * first), step > 0
                        || first > 0);
                wgmma_commit();
                wgmma_wait<1>();
                if (step > 0) done(at.before());
            }
            wgmma_wait<0>();
            done(at.before());
#pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j)
                store_fragment(c, {sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]}, top + rows + 16 * warp,
                    left + 8 * j, m, n);
        }
    }
}
