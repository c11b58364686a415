// C (m, n) = A (m, k) B (k, n), float32; A and B are stored in bf16, row by row, and the host describes them by tensor
// maps. As ring.cu: a block of 256 threads makes 128 x 256 numbers of C, a warp 64 x 64. But one thread requests a
// whole stage, by five instructions, and the copy engine does the rest: addresses, edges, and the place of each piece
// in shared memory, such that ldmatrix finds its rows in different banks. A barrier in shared memory (mbarrier) counts
// the bytes, and all threads wait for it. The time that 256 threads spent on copies is left for products.
// arch: sm_90, sm_100
#include "mma.cuh"
#include "stages.cuh"
#include "store.cuh"

constexpr int TILE_M = 128, TILE_N = 256, STAGES = 4, THREADS = 256;
using Stage = Stage16<TILE_M, TILE_N>;  // a block takes STAGES Stage::BYTES + 1,024 bytes of shared memory

// Address of piece `piece` of 16 bytes of a row in a tile that the copy engine has swizzled.
__device__ __forceinline__ const char* piece_of(const char* tile, int row, int piece) {
    return tile + row * 128 + (piece ^ row % 8) * 16; }

extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* __restrict__ c, int m, int n,
    int k) {
    extern __shared__ uint4 shared[];
    __shared__ Barrier arrived[STAGES];
    char* ring = first_stage(shared);
    const int top = blockIdx.y * TILE_M, left = blockIdx.x * TILE_N, steps = (k + Stage::DEPTH - 1) / Stage::DEPTH;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rows = warp % 2 * 64, columns = warp / 2 * 64;
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

    float sum[4][8][4] = {};
    for (int step = 0; step < steps; ++step) {
        __syncthreads();           // all threads have read the stage before,
        fetch(step + STAGES - 1);  // which is written again
        barrier_wait(&arrived[step % STAGES], step / STAGES % 2);
        const char *tile_a = ring + step % STAGES * Stage::BYTES,
            *tile_b = tile_a + Stage::OF_A + columns / 64 * Stage::BOX;
#pragma unroll
        for (int first = 0; first < Stage::DEPTH; first += 16) {
            unsigned of_a[4][4], of_b[8][2];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                load_matrices(of_a[i], piece_of(tile_a, rows + 16 * i + lane % 16, first / 8 + lane / 16));
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                unsigned both[4];
                load_matrices_turned(both, piece_of(tile_b, first + lane % 16, j + lane / 16));
                of_b[j][0] = both[0], of_b[j][1] = both[1], of_b[j + 1][0] = both[2], of_b[j + 1][1] = both[3];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) mma_bf16(sum[i][j], of_a[i], of_b[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) store_fragment(c, sum[i][j], top + rows + 16 * i, left + columns + 8 * j, m, n);
}
