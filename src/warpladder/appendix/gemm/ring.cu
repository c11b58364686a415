// C (m, n) = A (m, k) B (k, n), float32; A and B are stored in bf16, row by row, pitch_a and pitch_b numbers from row
// to row, multiples of 8. A block of 256 threads makes 128 x 256 numbers of C, a warp 64 x 64. Tiles of 64 terms lie in
// a ring of three stages in shared memory: one is multiplied while two are copied (cp.async) without registers.
// ldmatrix reads a fragment of A, or two of B, at once. More terms in fewer stages need fewer barriers; two copies in
// flight hide the memory's latency. For 16 terms a warp reads 4 KB of fragments and does 131,072 FLOPs. An H100's
// multiprocessor takes 32 cycles for either, so a smaller tile for each warp would make shared memory the limit.
// arch: sm_80, sm_90, sm_100
#include "store.cuh"
#include "tiles16.cuh"

constexpr int TILE_M = 128, TILE_N = 256, DEPTH = 64, STAGES = 3, THREADS = 256;
using TileA = Tile16<TILE_M, DEPTH, THREADS>;
using TileB = Tile16<DEPTH, TILE_N, THREADS>;
constexpr int STAGE = TileA::SIZE + TileB::SIZE;  // numbers; a block takes 2 STAGES STAGE bytes of shared memory

extern "C" __global__ void __launch_bounds__(THREADS, 1)
product(const Bits* __restrict__ a, const Bits* __restrict__ b, float* __restrict__ c, int m, int n, int k, int pitch_a,
    int pitch_b) {
    extern __shared__ uint4 shared[];
    Bits* ring = reinterpret_cast<Bits*>(shared);
    const int top = blockIdx.y * TILE_M, left = blockIdx.x * TILE_N;
    const int warp = threadIdx.x / 32, rows = warp % 2 * 64, columns = warp / 2 * 64;
    const int steps = (k + DEPTH - 1) / DEPTH;
    auto fetch = [&](int step) {
        if (step < steps) {
            Bits* to = ring + step % STAGES * STAGE;
            const int first = step * DEPTH;
            TileA::fetch(to, a + (long long)top * pitch_a + first, pitch_a, m - top, k - first);
            TileB::fetch(to + TileA::SIZE, b + (long long)first * pitch_b + left, pitch_b, k - first, n - left);
        }
        commit_copies();  // also where there is nothing: waits count groups
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);

    float sum[4][8][4] = {};
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();  // this thread's part of the stage has arrived,
        __syncthreads();                // all have, and all threads have read the stage before
        fetch(step + STAGES - 1);       // which is written again
        const Bits *tile_a = ring + step % STAGES * STAGE, *tile_b = tile_a + TileA::SIZE;
#pragma unroll
        for (int first = 0; first < DEPTH; first += 16) {
            unsigned of_a[4][4], of_b[8][2];
#pragma unroll
            for (int i = 0; i < 4; ++i) TileA::left(of_a[i], tile_a, rows + 16 * i, first);
#pragma unroll
            for (int j = 0; j < 8; j += 2) TileB::right(of_b[j], of_b[j + 1], tile_b, first, columns + 8 * j);
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
