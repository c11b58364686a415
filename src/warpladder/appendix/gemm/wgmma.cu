// C (m, n) = A (m, k) B (k, n), float32; A and B are stored in bf16, row by row, and the host describes them by tensor
// maps. As tma.cu, but four warps together, a warpgroup, multiply 64 x 256 numbers by one instruction (wgmma), which
// reads A and B from shared memory by itself. No register holds a factor, no ldmatrix moves one, and B is read once for
// 64 rows instead of once for each 64 x 64. A block has two warpgroups, one above the other. Products run while their
// threads go on: one group of them is always in flight.
// arch: sm_90a
#include "stages.cuh"
#include "store.cuh"
#include "wgmma.cuh"

constexpr int TILE_M = 128, TILE_N = 256, STAGES = 4, THREADS = 256;
using Stage = Stage16<TILE_M, TILE_N>;  // a block takes STAGES Stage::BYTES + 1,024 bytes of shared memory

extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* __restrict__ c, int m, int n,
    int k) {
    extern __shared__ uint4 shared[];
    __shared__ Barrier arrived[STAGES];
    char* ring = first_stage(shared);
    const int top = blockIdx.y * TILE_M, left = blockIdx.x * TILE_N, steps = (k + Stage::DEPTH - 1) / Stage::DEPTH;
    const int rows = threadIdx.x / 128 * 64, warp = threadIdx.x / 32 % 4;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&arrived[stage], 1);
        barriers_ready();
    }
    __syncthreads();
    auto fetch = [&](int step) {
        if (threadIdx.x == 0 && step < steps)
            Stage::fetch(ring + step % STAGES * Stage::BYTES, a, b, top, left, step * Stage::DEPTH,
                &arrived[step % STAGES]);
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);

    float sum[TILE_N / 2];
    for (int step = 0; step < steps; ++step) {
        barrier_wait(&arrived[step % STAGES], step / STAGES % 2);
        const char *tile_a = ring + step % STAGES * Stage::BYTES + rows * 128,
            *tile_b = ring + step % STAGES * Stage::BYTES + Stage::OF_A;
        wgmma_begin();
#pragma unroll
        for (int first = 0; first < Stage::DEPTH; first += 16)
            wgmma_bf16(sum, terms_along(tile_a + 2 * first), terms_down(tile_b + 128 * first, Stage::BOX), step > 0
                || first > 0);
        wgmma_commit();
        wgmma_wait<1>();           // the step before is done,
        __syncthreads();           // by both warpgroups,
        fetch(step + STAGES - 1);  // and its stage is written again
    }
    wgmma_wait<0>();
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
        store_fragment(c, {sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]}, top + rows + 16 * warp,
            left + 8 * j, m, n);
}
