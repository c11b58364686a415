// C (m, n) = A (m, k) B (k, n), float32; A and B are stored in bf16, row by row, and the host describes them by tensor
// maps. As wgmma.cu, with specialised warps. Of three warpgroups one requests tiles, by one of its threads; two
// multiply, 64 x 256 numbers of C each. They meet at barriers in shared memory, two for each stage: after `arrived` it
// can be multiplied, after `read` filled again. No thread waits for the whole block, and the ring is filled while sums
// are written. The requesting warpgroup gives registers to the others. Blocks are persistent: as many as the GPU runs
// at once, each making one tile of C after the other, in an order that suits the cache.
// arch: sm_90a
#include "stages.cuh"
#include "store.cuh"
#include "wgmma.cuh"

constexpr int TILE_M = 128, TILE_N = 256, STAGES = 4, THREADS = 384, MULTIPLYING = 2;
using Stage = Stage16<TILE_M, TILE_N>;  // a block takes STAGES Stage::BYTES + 1,024 bytes of shared memory

extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* __restrict__ c, int m, int n,
    int k) {
    extern __shared__ uint4 shared[];
    __shared__ Barrier arrived[STAGES], read[STAGES];
    char* ring = first_stage(shared);
    const Order<TILE_M, TILE_N> order(m, n);
    const int steps = (k + Stage::DEPTH - 1) / Stage::DEPTH;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&arrived[stage], 1);
            barrier_init(&read[stage], 4 * MULTIPLYING);  // a lane of every warp that multiplies
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
                barrier_wait(&read[turn.stage], turn.parity ^ 1);  // in the first round there is no earlier reader
                Stage::fetch(ring + turn.stage * Stage::BYTES, a, b, top, left, step * Stage::DEPTH,
                    &arrived[turn.stage]);
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
            for (int step = 0; step < steps; ++step, turn.next()) {
                barrier_wait(&arrived[turn.stage], turn.parity);
                const char *tile_a = ring + turn.stage * Stage::BYTES + rows * 128,
                    *tile_b = ring + turn.stage * Stage::BYTES + Stage::OF_A;
                wgmma_begin();
#pragma unroll
                for (int first = 0; first < Stage::DEPTH; first += 16)
                    wgmma_bf16(sum, terms_along(tile_a + 2 * first), terms_down(tile_b + 128 * first, Stage::BOX),
                        step > 0 || first > 0);
                wgmma_commit();
                wgmma_wait<1>();
                if (step > 0) done(turn.before());  // all of its products are done
            }
            wgmma_wait<0>();
            done(turn.before());
#pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j)
                store_fragment(c, {sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]}, top + rows + 16 * warp,
                    left + 8 * j, m, n);
        }
    }
}
