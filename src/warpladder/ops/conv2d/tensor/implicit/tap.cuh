// One tap of an implicit GEMM: a warp's products of a plane of pixels and the weights of that tap.
#pragma once
#include "implicit.cuh"

// Sums of 16 MT pixels and 8 NT outputs of a warp: one tap of a plane's channels. rows: of the lane's addresses of A;
// own: of its pixels. Sums leave the tensor cores at once, times what inverts the pixels' scales.
template <int FORMAT, int CHANNELS, int MT, int NT>
__device__ __forceinline__ void multiply_tap(float (&sum)[MT][NT][4], const Lines<FORMAT, CHANNELS>& tile, int offset,
    const int (&rows)[MT], const int (&own)[MT][2], const uint4* weights) {
    constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, STEPS = CHANNELS / 16, CHUNKS = CHANNELS / 8,
        STRIDE = COPIES * CHUNKS + 1, TOGETHER = 2;
    unsigned a[COPIES][STEPS][MT][4];
    float back[MT][2];
#pragma unroll
    for (int i = 0; i < MT; ++i) {
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                load_matrices(a[copy][step][i], tile.at(copy, rows[i] + offset, 2 * step + threadIdx.x % 32 / 16));
#pragma unroll
        for (int half = 0; half < 2; ++half)
            back[i][half] = SCALED<FORMAT> ? *tile.inverse_scale(own[i][half] + offset) : 1.0f;
    }
#pragma unroll
    for (int j = 0; j < NT; j += TOGETHER) {
        unsigned b[COPIES][STEPS][4];
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
            for (int step = 0; step < STEPS; ++step)
                load_matrices(b[copy][step], weights + 8 * j * STRIDE + copy * CHUNKS + 2 * step);
        float part[MT][TOGETHER][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            // al bh, ah bl, ah bh: the small ones first
            for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                for (int e = 0; e < TOGETHER; ++e) {
                    const unsigned right[2] = {b[product == 1][step][2 * e], b[product == 1][step][2 * e + 1]};
#pragma unroll
                    for (int i = 0; i < MT; ++i) mma_step<FORMAT>(part[i][e], a[product == 0][step][i], right);
                }
#pragma unroll
        for (int i = 0; i < MT; ++i)
#pragma unroll
            for (int e = 0; e < TOGETHER; ++e)
#pragma unroll
                for (int l = 0; l < 4; ++l) {
                    float& to = sum[i][j + e][l];
                    to = SCALED<FORMAT> ? fmaf(part[i][e][l], back[i][l / 2], to) : to + part[i][e][l];
                }
    }
}
