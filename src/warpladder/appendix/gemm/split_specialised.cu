// C (m, n) = A (m, k) B (k, n), row by row in memory, float32, with fp32's accuracy: split.cu's arithmetic in the form
// of specialised.cu. Halves, high and low, and the exponents of their rows and columns are made by split.cu's launches.
// A stage has both halves of both factors, and a step is three products for one, al bh, ah bl and ah bh: the small ones
// first, so that less of them is cut off. Sums stay in the tensor cores for 64 terms, then are added to others by
// additions that round. For that a thread has its numbers twice, so a warpgroup makes 64 x 128 of them and not 64 x
// 256; while one of the two adds, the tensor cores multiply for the other.
// arch: sm_90a
#include "stages.cuh"
#include "store.cuh"
#include "wgmma.cuh"

constexpr int TILE = 128, STAGES = 3, THREADS = 384, MULTIPLYING = 2;
using Stage = Stage16<TILE, TILE>;
// the high halves of A and B, then the low ones; a block takes STAGES BYTES + 1,024 bytes of shared memory
constexpr int BYTES = 2 * Stage::BYTES;

// Sums of 64 terms, from zero.
__device__ __forceinline__ void multiply(float (&part)[TILE / 2], const char* stage, int rows) {
    wgmma_begin();
#pragma unroll
    for (int product = 0; product < 3; ++product) {
        const char* of_a = stage + (product == 0 ? Stage::BYTES : 0) + rows * 128;
        const char* of_b = stage + (product == 1 ? Stage::BYTES : 0) + Stage::OF_A;
#pragma unroll
        for (int first = 0; first < Stage::DEPTH; first += 16)
            wgmma_half(part, terms_along(of_a + 2 * first), terms_down(of_b + 128 * first, Stage::BOX), product > 0
                || first > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(
    const __grid_constant__ TensorMap a_high, const __grid_constant__ TensorMap a_low,
    const int* __restrict__ a_exponents,
    const __grid_constant__ TensorMap b_high, const __grid_constant__ TensorMap b_low,
    const int* __restrict__ b_exponents, float* __restrict__ c,
    int m, int n, int k
) {
    extern __shared__ uint4 shared[];
    __shared__ Barrier arrived[STAGES], read[STAGES];
    char* ring = first_stage(shared);
    const Order<TILE, TILE> order(m, n);
    const int steps = (k + Stage::DEPTH - 1) / Stage::DEPTH;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&arrived[stage], 1);
            barrier_init(&read[stage], 4 * MULTIPLYING);
        }
        barriers_ready();
    }
    __syncthreads();
    Turn<STAGES> turn;
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x != 0) return;
        for (int tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            int top, left;
            order.place(tile, top, left);
            for (int step = 0; step < steps; ++step, turn.next()) {
                char* stage = ring + turn.stage * BYTES;
                Barrier* barrier = &arrived[turn.stage];
                barrier_wait(&read[turn.stage], turn.parity ^ 1);
                barrier_expect(barrier, BYTES);
                Stage::bring(stage, a_high, b_high, top, left, step * Stage::DEPTH, barrier);
                Stage::bring(stage + Stage::BYTES, a_low, b_low, top, left, step * Stage::DEPTH, barrier);
            }
        }
    } else {
        more_registers<232>();
        const int rows = (threadIdx.x / 128 - 1) * 64, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        for (int tile = blockIdx.x; tile < order.count(); tile += gridDim.x) {
            int top, left;
            order.place(tile, top, left);
            float sum[TILE / 2] = {}, part[TILE / 2];
            for (int step = 0; step < steps; ++step, turn.next()) {
                barrier_wait(&arrived[turn.stage], turn.parity);
                multiply(part, ring + turn.stage * BYTES, rows);
                if (lane == 0) barrier_arrive(&read[turn.stage]);
#pragma unroll
                for (int i = 0; i < TILE / 2; ++i) sum[i] += part[i];
            }
            const int row = top + rows + 16 * warp + lane / 4;
            const int above = a_exponents[min(row, m - 1)], below = a_exponents[min(row + 8, m - 1)];
#pragma unroll
            for (int j = 0; j < TILE / 8; ++j) {
                const int column = left + 8 * j + lane % 4 * 2;
                const int first = b_exponents[min(column, n - 1)], second = b_exponents[min(column + 1, n - 1)];
                const float four[4] = {
                    ldexpf(sum[4 * j], -(above + first)), ldexpf(sum[4 * j + 1], -(above + second)),
                    ldexpf(sum[4 * j + 2], -(below + first)),
                    ldexpf(sum[4 * j + 3], -(below + second))
                };
                store_fragment(c, four, top + rows + 16 * warp, left + 8 * j, m, n);
            }
        }
    }
}
