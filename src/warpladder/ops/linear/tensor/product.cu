// Matrix products on tensor cores, of packed factors (device/include/tensor_packed.cuh): C = A B, sums in float32.
//
// A step is one record of the tile's lines. The panels of the next steps are copied to a ring of STAGES in shared
// memory (device/include/pieces.cuh) while the tensor cores multiply; no register holds them. In fp32 three products
// make one, without the fourth, 2^-22 of the whole. Tensor cores truncate what they add (device/include/mma.cuh): each
// 32 terms begin from 0 and are added to a sum in a register by an addition that rounds.
// arch: sm_80, sm_90, sm_100
#include "finished.cuh"
#include "pieces.cuh"

// c (m, n) = A B, + bias and the other operations of `Product`, also packed for the next launches (`Outlet`). A has m
// lines, B n. A and B are in formats A and B: both FORMAT, or one of them EXACT if FORMAT is SPLIT, which has no low
// half. A block computes BM x BN numbers, a warp WM x WN; tiles are numbered along x, n first. Along y sums are split
// into parts of `depth` of the `records` records: the blocks of a tile store their sums in parts (tiles, parts, BM BN),
// and the last one to arrive adds them in order. arrived (tiles,) is zero before and after. Shared memory: STAGES
// stages, each a panel of A, one of B, and their scales; finished sums take their place, so that a warp can write 32 x
// 32 of them.
template <int FORMAT, int A, int B, int BM, int BN, int WM, int WN, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32, BLOCKS) multiply(
    const unsigned* __restrict__ a, const float* __restrict__ a_inverse_scale, int a_lines,
    const unsigned* __restrict__ b, const float* __restrict__ b_inverse_scale, int b_lines,
    const float* __restrict__ bias, const float* __restrict__ relu_mask, float* __restrict__ c,
    unsigned* __restrict__ along,
    float* __restrict__ along_inverse_scale, int along_lines, unsigned* __restrict__ across,
    float* __restrict__ across_inverse_scale, int across_lines, float* __restrict__ db, float* __restrict__ parts,
    unsigned* __restrict__ arrived, int m, int n, int records, int depth, int fused_relu, float* grads, float* params,
    float* momentum_buffer, float rate, float momentum, int nesterov, float decay, float limit
) {
    using P = Packed<FORMAT>;
    using PA = Packed<A>;
    using PB = Packed<B>;
    static_assert(PA::TERMS == P::TERMS && PB::TERMS == P::TERMS, "a step takes as many terms of both factors");
    constexpr int THREADS = BM / WM * (BN / WN) * 32, ACROSS_M = WM / 16, ACROSS_N = WN / 8;
    constexpr int OF_A = BM * PA::RECORD, OF_B = BN * PB::RECORD;  // words of a stage's panels
    constexpr int SCALES = SCALED<FORMAT> ? P::TERMS / 32 : 0, STAGE = OF_A + OF_B + (BM + BN) * SCALES;
    extern __shared__ uint4 shared[];
    unsigned* ring = reinterpret_cast<unsigned*>(shared);
    const int tiles_n = (n + BN - 1) / BN;
    const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    const int from = blockIdx.y * depth, steps = max(0, min(records - from, depth));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    // the warp's part of the tile
    const int rows = warp % (BM / WM) * WM, columns = warp / (BM / WM) * WN;
    __shared__ Barrier barriers[STAGES];
    const Pieces<STAGES, THREADS> pieces(barriers);
    auto fetch = [&](int step) {
        if (step < steps) {
            unsigned* to = ring + step % STAGES * STAGE;
            const long long record = from + step;
            pieces.begin(step, 4 * STAGE);
            pieces.template bring<OF_A>(step, to, a + (record * a_lines + m0) * PA::RECORD);
            pieces.template bring<OF_B>(step, to + OF_A, b + (record * b_lines + n0) * PB::RECORD);
            float* inverse_scale = reinterpret_cast<float*>(to + OF_A + OF_B);
#pragma unroll
            for (int s = 0; s < SCALES; ++s) {
                pieces.template bring<BM>(step, inverse_scale + s * (BM + BN),
                    a_inverse_scale + (record * SCALES + s) * a_lines + m0);
                pieces.template bring<BN>(step, inverse_scale + s * (BM + BN) + BM,
                    b_inverse_scale + (record * SCALES + s) * b_lines + n0);
            }
        }
        pieces.end();
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);

    float sum[ACROSS_M][ACROSS_N][4] = {};
    for (int step = 0; step < steps; ++step) {
        pieces.wait(step);         // this stage is here,
        __syncthreads();           // and all threads have read the one before,
        fetch(step + STAGES - 1);  // which is written again
        const unsigned *panel_a = ring + step % STAGES * STAGE, *panel_b = panel_a + OF_A;
        const float* inverse_scale = reinterpret_cast<const float*>(panel_b + OF_B);
#pragma unroll
        for (int first = 0; first < P::TERMS; first += 32) {
            float part[ACROSS_M][ACROSS_N][4] = {};
#pragma unroll
            for (int term = first; term < first + 32; term += Held<FORMAT>::TERMS) {
                unsigned left[PA::COPIES][ACROSS_M][4], right[PB::COPIES][ACROSS_N][2];
#pragma unroll
                for (int copy = 0; copy < PA::COPIES; ++copy)
#pragma unroll
                    for (int i = 0; i < ACROSS_M; ++i)
                        PA::fragment(left[copy][i], panel_a, rows + 16 * i, PA::chunk(copy, term));
#pragma unroll
                for (int copy = 0; copy < PB::COPIES; ++copy)
#pragma unroll
                    for (int j = 0; j < ACROSS_N; j += 2) {
                        unsigned two[4];
                        PB::fragment(two, panel_b, columns + 8 * j, PB::chunk(copy, term));
                        right[copy][j][0] = two[0], right[copy][j][1] = two[2], right[copy][j + 1][0] = two[1],
                            right[copy][j + 1][1] = two[3];
                    }
#pragma unroll
                // al bh, ah bl, ah bh: the small ones first, so that less is cut off
                for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product) {
                    // an exact factor has no low half
                    if ((product == 0 && A == EXACT) || (product == 1 && B == EXACT)) continue;
#pragma unroll
                    for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
                        for (int j = 0; j < ACROSS_N; ++j)
                            mma_step<FORMAT>(part[i][j], left[product == 0 ? PA::COPIES - 1 : 0][i],
                            right[product == 1 ? PB::COPIES - 1 : 0][j]);
                }
            }
            const float *of_a = inverse_scale + first / 32 * (BM + BN) + rows + g,
                *of_b = inverse_scale + first / 32 * (BM + BN) + BM + columns + 2 * t;
#pragma unroll
            for (int i = 0; i < ACROSS_M; ++i)
#pragma unroll
                for (int j = 0; j < ACROSS_N; ++j)
#pragma unroll
                    for (int l = 0; l < 4; ++l) {
                        if constexpr (SCALED<FORMAT>) {
                            const float inverse_scale_a = of_a[16 * i + l / 2 * 8] * DOWN,
                                inverse_scale_b = of_b[8 * j + l % 2] * UP;
                            sum[i][j][l] = fmaf(part[i][j][l] * inverse_scale_a, inverse_scale_b, sum[i][j][l]);
                        } else {
                            sum[i][j][l] += part[i][j][l];
                        }
                    }
        }
    }

    if (gridDim.y > 1) {
        leave_part<THREADS>(sum, parts);
        if (!last_of(arrived + blockIdx.x, gridDim.y)) return;
        add_parts<THREADS>(sum, parts);
    }
    static_assert(BM * PITCH<BN> <= STAGES * STAGE, "finished sums lie where panels were");
    float* tile = reinterpret_cast<float*>(shared);
    __syncthreads();  // all threads have read the last stage
    put_sums<BN>(sum, tile, rows, columns);
    __syncthreads();
    write_tile<FORMAT, BM, BN, THREADS / 32>(
        tile, {bias, relu_mask, c,
        {along, along_inverse_scale, along_lines, across, across_inverse_scale, across_lines, db},
        m, n, fused_relu, {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit}}, m0, n0
    );
}
