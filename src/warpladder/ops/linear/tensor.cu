// Matrix products for linear layers on tensor cores: C = A B, with A (m, k) and B (k, n) stored either way, all of it float32 in memory.
//
// In fp32 each factor is split into two halves, x = high + low, and of (ah + al) (bh + bl) the last product, 2^-22 of the first, is left out: three
// products for one. In tf32 and bf16 a factor is rounded once. What is added is float32 in all of them.
//
// A step is DEPTH terms. While the tensor cores multiply one panel of A by one of B, the next two are on their way to registers; after the products they
// are scaled, split and written to the other stage of shared memory: one barrier a step. Tensor cores cut off what they add (cu/mma.cuh). So each step
// begins from 0 and is added to a sum in a register by an addition that rounds.
// arch: sm_80, sm_90, sm_100
#include "nan.cuh"
#include "tensor_panels.cuh"

// The lines of A and B have scales of their own in each step, and what undoes them multiplies the step's part of a sum: first A's times 2^-14, then B's
// times 2^14, which is about the size of B's largest number. On the way a number is up to 2^7 times A's largest: above 2^121, 3e36, a row of A may give
// infinity that much too early. Nothing becomes 0 too early.
constexpr float DOWN = 1.0f / 16384, UP = 16384;

// c (m, n) = A B, + bias (n) where there is one, then max(., 0) where rectify is 1.
// A block makes BM x BN numbers, a warp WM x WN. A_ALONG: a is (m, k), otherwise (k, m). B_ALONG: b is (n, k), otherwise (k, n).
// Tiles are numbered along the grid's x, n first. Along its y the sum is cut into parts of `depth` terms, a multiple of DEPTH: part p writes c + p m n.
// A block takes two stages of shared memory, each a panel of A and one of B.
template <int FORMAT, int BM, int BN, int WM, int WN, int BLOCKS, bool A_ALONG, bool B_ALONG>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, BLOCKS) multiply(
    const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias, float* __restrict__ c, int m, int n, int k,
    int depth, int rectify
) {
    constexpr int WARPS = BM / WM * (BN / WN), ACROSS_M = WM / 16, ACROSS_N = WN / 8, TERMS = Held<FORMAT>::TERMS;
    using A = Factor<FORMAT, BM, A_ALONG, WARPS>;
    using B = Factor<FORMAT, BN, B_ALONG, WARPS>;
    constexpr int STAGE = A::To::BYTES + B::To::BYTES, COPIES = A::To::COPIES;
    extern __shared__ uint4 shared[];
    char* stages = reinterpret_cast<char*>(shared);
    const int tiles_n = (n + BN - 1) / BN;
    const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    const int k0 = blockIdx.y * depth, k1 = min(k, k0 + depth), steps = (k1 - k0 + DEPTH - 1) / DEPTH;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int rows = warp % (BM / WM) * WM, columns = warp / (BM / WM) * WN;  // where the warp's part of the tile begins
    A of_a(a, m, k, m0);
    B of_b(b, n, k, n0);
    if (steps > 0) {
        of_a.fetch(k0, k1), of_b.fetch(k0, k1);
        of_a.put(typename A::To(stages)), of_b.put(typename B::To(stages + A::To::BYTES));
    }

    float sum[ACROSS_M][ACROSS_N][4] = {};
    for (int step = 0; step < steps; ++step) {
        __syncthreads();  // this stage is written, and everybody has read the other one
        const bool more = step + 1 < steps;
        if (more) of_a.fetch(k0 + (step + 1) * DEPTH, k1), of_b.fetch(k0 + (step + 1) * DEPTH, k1);
        char* stage = stages + step % 2 * STAGE;
        const typename A::To panel_a(stage);
        const typename B::To panel_b(stage + A::To::BYTES);
        float part[ACROSS_M][ACROSS_N][4] = {};
#pragma unroll
        for (int term = 0; term < DEPTH; term += TERMS) {
            unsigned left[COPIES][ACROSS_M][4], right[COPIES][ACROSS_N][2];
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy) {
#pragma unroll
                for (int i = 0; i < ACROSS_M; ++i) panel_a.fragment(left[copy][i], copy, rows + 16 * i, term);
#pragma unroll
                for (int j = 0; j < ACROSS_N; j += 2) {
                    unsigned two[4];
                    panel_b.fragment(two, copy, columns + 8 * j, term);
                    right[copy][j][0] = two[0], right[copy][j][1] = two[2], right[copy][j + 1][0] = two[1], right[copy][j + 1][1] = two[3];
                }
            }
#pragma unroll
            for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)  // al bh, ah bl, ah bh: the small ones first, so that less of them is cut off
#pragma unroll
                for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
                    for (int j = 0; j < ACROSS_N; ++j) mma_step<FORMAT>(part[i][j], left[product == 0][i], right[product == 1][j]);
        }
#pragma unroll
        for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
            for (int j = 0; j < ACROSS_N; ++j)
#pragma unroll
                for (int l = 0; l < 4; ++l) {
                    if constexpr (FORMAT == SPLIT) {
                        const float undo_a = panel_a.undo()[rows + 16 * i + g + l / 2 * 8] * DOWN, undo_b = panel_b.undo()[columns + 8 * j + 2 * t + l % 2] * UP;
                        sum[i][j][l] = fmaf(part[i][j][l] * undo_a, undo_b, sum[i][j][l]);
                    } else {
                        sum[i][j][l] += part[i][j][l];
                    }
                }
        if (more) {
            char* next = stages + (step + 1) % 2 * STAGE;
            of_a.put(typename A::To(next)), of_b.put(typename B::To(next + A::To::BYTES));
        }
    }

    c += static_cast<long long>(blockIdx.y) * m * n;
    const bool pairs = n % 2 == 0 && reinterpret_cast<unsigned long long>(c) % sizeof(float2) == 0;  // may be written at once
#pragma unroll
    for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS_N; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = m0 + rows + 16 * i + g + 8 * half, column = n0 + columns + 8 * j + 2 * t;
                if (row >= m || column >= n) continue;
                const bool both = column + 1 < n;
                float first = sum[i][j][2 * half], second = sum[i][j][2 * half + 1];
                if (bias != nullptr) first += bias[column], second += both ? bias[column + 1] : 0.0f;
                if (rectify) first = relu(first), second = relu(second);
                float* to = c + static_cast<long long>(row) * n + column;
                if (pairs) {
                    *reinterpret_cast<float2*>(to) = make_float2(first, second);
                } else {
                    to[0] = first;
                    if (both) to[1] = second;
                }
            }
}
