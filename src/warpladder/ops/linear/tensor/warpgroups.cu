// Matrix products for linear layers by warpgroups of Hopper (wgmma), of packed factors
// (device/include/tensor_packed.cuh): C = A B, sums in float32, as product.cu.
//
// A panel of packed lines has wgmma's layout: lines are rows of 128 bytes, of EXACT of 64, their 16-byte pieces
// swizzled over the banks. So one instruction multiplies 16 terms of 64 x BN numbers directly from the copy engine's
// destination, in place of 16 x 8 in product.cu and their fragments in registers. One thread of a separate warp
// requests panels, up to the ring's length ahead; each warpgroup multiplies at its own pace. Sums leave the tensor
// cores after 32 terms if there are scales, which are inverted then, or else after a record, and are added by additions
// that round.
// arch: sm_90a
#include "finished.cuh"
#include "turn.cuh"
#include "wgmma.cuh"

// Descriptor of the lines of a panel that begins at a multiple of 1,024 bytes; descriptors count 16 bytes.
template <class P>
__device__ __forceinline__ unsigned long long lines_of(const unsigned* panel) {
    return P::RECORD == 32 ? terms_along(panel) : terms_along_64(panel);
}

// part (+)= A B over 32 bytes of terms.
template <int FORMAT, int SUMS>
__device__ __forceinline__ void multiply_step(float (&part)[SUMS], unsigned long long a, unsigned long long b, bool add)
    {
    if constexpr (SCALED<FORMAT>) wgmma_half_along(part, a, b, add);
    else if constexpr (FORMAT == TF32) wgmma_tf32(part, a, b, add);
    else wgmma_bf16_along(part, a, b, add);
}

// Begins to copy `words` words, to all blocks of the cluster that share them.
template <int SHARING>
__device__ __forceinline__ void bring(unsigned blocks, void* to, const void* from, int words, Barrier* full) {
    if constexpr (SHARING == 1) copy_piece(to, from, 4 * words, full);
    else copy_piece_to(blocks, to, from, 4 * words, full);
}

// As `multiply` of product.cu, with its arguments. A block computes BM x BN numbers by BM / 64 x SHARES warpgroups:
// each has 64 rows; SHARES of them with the same rows take records in turn, and their sums are added at the end, in
// order. A cluster is CM x CN blocks: those next to each other share rows of A, those below each other columns of B,
// and each requests a part of such a panel for all of them. The grid has whole clusters. Shared memory: STAGES panels
// of A and B, their scales, and 1,024 bytes. Of two warpgroups with 64 rows a multiprocessor holds two blocks.
template <int FORMAT, int A, int B, int BM, int BN, int SHARES, int STAGES, int CM, int CN>
__global__ void __launch_bounds__(BM / 64 * SHARES * 128 + 32, BM == 64 && SHARES <= 2 ? 2 : 1) multiply(
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
    static_assert(CM <= 2, "of_column has a bit for each row of a cluster");
    static_assert(PA::TERMS == P::TERMS && PB::TERMS == P::TERMS, "a step takes as many terms of both factors");
    constexpr int CLUSTER = CM * CN, READERS = CM + CN - 1;  // blocks that read what one of them requests
    constexpr int ROWS = BM / 64, GROUPS = ROWS * SHARES, THREADS = GROUPS * 128 + 32, HOLDERS = ROWS * 128,
        ACROSS = BN / 8;
    // words of the panels of a stage
    constexpr int OF_A = BM * PA::RECORD, OF_B = BN * PB::RECORD, STAGE = OF_A + OF_B;
    // inverse scales
    constexpr int SCALES = SCALED<FORMAT> ? P::TERMS / 32 : 0, INVERSE_SCALE = (BM + BN) * SCALES;
    // terms of a product until sums leave
    constexpr int LEAVING = SCALED<FORMAT> ? 32 : P::TERMS, STEP = Held<FORMAT>::TERMS;
    // Each lane reads scales and arrives: one arrival after a barrier is as correct, but racecheck does not see it.
    constexpr bool EACH_LANE = SCALED<FORMAT> && CLUSTER == 1;
    static_assert(STAGE % 256 == 0, "every stage begins at a multiple of 1,024 bytes");
    extern __shared__ uint4 shared[];
    __shared__ Barrier filled[STAGES], read[STAGES];
    unsigned* ring = reinterpret_cast<unsigned*>(first_stage(shared));
    float* scales = reinterpret_cast<float*>(ring + STAGES * STAGE);
    const int clusters_n = (n + BN * CN - 1) / (BN * CN), cluster = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    const int across_m = rank / CN, across_n = rank % CN;  // the block's place in its cluster
    const int m0 = (cluster / clusters_n * CM + across_m) * BM, n0 = (cluster % clusters_n * CN + across_n) * BN;
    const int from = blockIdx.y * depth, steps = max(0, min(records - from, depth));
    // The warp's number, by a shuffle: so the compiler computes panel addresses once for all lanes.
    const int warp = __shfl_sync(EVERY_LANE, static_cast<int>(threadIdx.x) / 32, 0);
    const int lane = threadIdx.x % 32, group = warp / 4, row = group % ROWS, share = group / ROWS;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&filled[stage], 1);
            // by the warps that read what this block requests
            barrier_init(&read[stage], (EACH_LANE ? 128 : 4) * ROWS * READERS);
        }
        barriers_ready();
    }
    if constexpr (CLUSTER > 1) barriers_ready_in_cluster();
    else __syncthreads();

    float sum[1][ACROSS][4] = {};
    if (group == GROUPS) {
        if (lane == 0) {
            constexpr int LINES_A = BM / CN, LINES_B = BN / CM;  // of a panel, that this block requests
            const int first_a = across_n * LINES_A, first_b = across_m * LINES_B;
            // Beyond the last tile of a cluster some lines are read again, and no thread writes.
            const int a0 = min(m0, a_lines - BM) + first_a, b0 = min(n0, b_lines - BN) + first_b;
            const unsigned of_row = ((1u << CN) - 1) << across_m * CN,
                of_column = (CM == 1 ? 1u : 1u << CN | 1u) << across_n;
            Turn<STAGES> turn;
#pragma unroll 1
            for (int step = 0; step < steps; ++step, turn.next()) {
                barrier_wait(&read[turn.stage], turn.parity ^ 1);  // in the first round there is no earlier reader
                Barrier* full = &filled[turn.stage];
                barrier_expect(full, 4 * (STAGE + INVERSE_SCALE));
                const long long record = from + step;
                unsigned* panel = ring + turn.stage * STAGE;
                float* inverse_scale = scales + turn.stage * INVERSE_SCALE;
                bring<CN>(of_row, panel + first_a * PA::RECORD, a + (record * a_lines + a0) * PA::RECORD,
                    LINES_A * PA::RECORD, full);
                bring<CM>(of_column, panel + OF_A + first_b * PB::RECORD, b + (record * b_lines + b0) * PB::RECORD,
                    LINES_B * PB::RECORD, full);
#pragma unroll
                for (int s = 0; s < SCALES; ++s) {
                    bring<CN>(of_row, inverse_scale + s * (BM + BN) + first_a, a_inverse_scale
                        + (record * SCALES + s) * a_lines + a0, LINES_A, full);
                    bring<CM>(of_column, inverse_scale + s * (BM + BN) + BM + first_b,
                        b_inverse_scale + (record * SCALES + s) * b_lines + b0, LINES_B, full);
                }
            }
            // No thread arrives at barriers of this block after its end.
            if constexpr (CLUSTER > 1)
                for (int last = 0; last < STAGES; ++last, turn.next()) barrier_wait(&read[turn.stage], turn.parity ^ 1);
        }
        __syncwarp();
    } else {
        // A wait gives the parity of a phase: at a stage of another warpgroup one may come a phase early.
        static_assert(STAGES % SHARES == 0, "a warpgroup has stages of its own, and waits for each phase of theirs");
        const unsigned long long first_a = lines_of<PA>(ring + row * 64 * PA::RECORD),
            first_b = lines_of<PB>(ring + OF_A);
        int stage = share, parity = 0;
#pragma unroll 1
        for (int step = share; step < steps; step += SHARES) {
            barrier_wait(&filled[stage], parity);
            const unsigned long long at = stage * (STAGE / 4), panel_a = first_a + at, panel_b = first_b + at;
#pragma unroll 1
            // not unrolled, so that registers are reused in the next turn
            for (int first = 0; first < P::TERMS; first += LEAVING) {
                float part[4 * ACROSS];
                wgmma_begin();
#pragma unroll
                // al bh, ah bl, ah bh: the small ones first, so that less is cut off
                for (int product = FORMAT == SPLIT ? 0 : 2, begun = 0; product < 3; ++product) {
                    // an exact factor has no low half
                    if ((product == 0 && A == EXACT) || (product == 1 && B == EXACT)) continue;
#pragma unroll
                    for (int term = first; term < first + LEAVING; term += STEP, begun = 1)
                        multiply_step<FORMAT>(
                            part, panel_a + (product == 0 ? 4 : 0) + 2 * (term / STEP),
                                panel_b + (product == 1 ? 4 : 0) + 2 * (term / STEP), begun
                        );
                }
                wgmma_commit();
                if constexpr (SCALED<FORMAT>) {
                    const float* inverse_scale = scales + stage * INVERSE_SCALE + first / 32 * (BM + BN);
                    const int g = lane / 4, t = lane % 4, line = row * 64 + warp % 4 * 16 + g;
                    const float inverse_scale_a[2] = {inverse_scale[line] * DOWN, inverse_scale[line + 8] * DOWN};
                    float2 inverse_scale_b[ACROSS];
                    if constexpr (ACROSS > 8) wgmma_wait<0>();  // there are no registers for as many next to a product
#pragma unroll
                    for (int j = 0; j < ACROSS; ++j)
                        inverse_scale_b[j] = *reinterpret_cast<const float2*>(inverse_scale + BM + 8 * j + 2 * t);
                    if constexpr (ACROSS <= 8) wgmma_wait<0>();
#pragma unroll
                    for (int j = 0; j < ACROSS; ++j)
#pragma unroll
                        for (int l = 0; l < 4; ++l)
                            sum[0][j][l] = fmaf(part[4 * j + l] * inverse_scale_a[l / 2],
                                (l % 2 ? inverse_scale_b[j].y : inverse_scale_b[j].x) * UP, sum[0][j][l]);
                } else {
                    wgmma_wait<0>();
#pragma unroll
                    for (int j = 0; j < ACROSS; ++j)
#pragma unroll
                        for (int l = 0; l < 4; ++l) sum[0][j][l] += part[4 * j + l];
                }
            }
            if constexpr (SCALED<FORMAT> && !EACH_LANE) __syncwarp();  // its other lanes have read their scales
            if constexpr (CLUSTER == 1) {
                if (EACH_LANE || lane == 0) barrier_arrive(&read[stage]);
            } else if (lane < READERS) {  // first those of the row, then the others of the column
                const int other = lane - CN + (lane - CN >= across_m);
                barrier_read_at(&read[stage], lane < CN ? across_m * CN + lane : other * CN + across_n);
            }
            stage += SHARES;
            if (stage >= STAGES) stage -= STAGES, parity ^= 1;
        }
    }
    __syncthreads();  // all threads have read the last stage

    constexpr int SHARED_SUMS = (SHARES - 1) * BM * BN;  // numbers
    static_assert(SHARED_SUMS + BM * PITCH<BN> <= STAGES * STAGE, "finished sums lie where panels were");
    if constexpr (SHARES > 1) {
        float4* others = reinterpret_cast<float4*>(ring) + threadIdx.x % HOLDERS;
        if (group < GROUPS && share > 0)
#pragma unroll
            for (int j = 0; j < ACROSS; ++j)
                others[((share - 1) * ACROSS + j) * HOLDERS] = make_float4(sum[0][j][0], sum[0][j][1], sum[0][j][2],
                    sum[0][j][3]);
        __syncthreads();
        if (share == 0)
#pragma unroll 1
            for (int other = 0; other < SHARES - 1; ++other)
#pragma unroll
                for (int j = 0; j < ACROSS; ++j) {
                    const float4 more = others[(other * ACROSS + j) * HOLDERS];
                    sum[0][j][0] += more.x, sum[0][j][1] += more.y, sum[0][j][2] += more.z, sum[0][j][3] += more.w;
                }
    }
    const bool holds = threadIdx.x < HOLDERS;
    if (gridDim.y > 1) {
        if (holds) leave_part<HOLDERS>(sum, parts);
        if (!last_of(arrived + blockIdx.x, gridDim.y)) return;
        if (holds) add_parts<HOLDERS>(sum, parts);
    }
    float* tile = reinterpret_cast<float*>(ring) + SHARED_SUMS;
    if (holds) put_sums<BN>(sum, tile, row * 64 + warp % 4 * 16, 0);
    __syncthreads();
    write_tile<FORMAT, BM, BN, THREADS / 32>(
        tile, {bias, relu_mask, c,
        {along, along_inverse_scale, along_lines, across, across_inverse_scale, across_lines, db},
        m, n, fused_relu, {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit}}, m0, n0
    );
}
