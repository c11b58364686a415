// Block of every fp32 GEMM kernel: it multiplies a BM x K panel by a K x BN panel by FMA.
//
//   global -> shared   BK of the K steps at a time, STAGES of them in a ring, copied while earlier ones are multiplied
//   shared -> registers   TM numbers of A and TN of B for each k, read one k ahead
//   registers   TM x TN sums a thread, one FMA each for each k
//
// Panels are in shared memory with k as the slow axis: a thread reads 4 numbers of a k with one 16-byte load. A Source,
// an object with fetch(float* a, float* b), copies the next BK steps of both panels: gemm_panels.cuh has the Source of
// plain matrices, gemm_patches.cuh and gemm_pixels.cuh the Sources of convolutions.
#pragma once
#include "async.cuh"

template <int BM_, int BN_, int BK_, int TM_, int TN_, int STAGES_>
struct Tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, STAGES = STAGES_;
    static constexpr int THREADS = (BM / TM) * (BN / TN);
    // A warp is 4 x 8 or 8 x 4 threads, for a nearly square tile, or 2 x 16 if the tile of the block is flat.
    static constexpr int LANES_M = BM / TM < 4 ? 2 : TN > TM ? 8 : 4, LANES_N = 32 / LANES_M;
    static constexpr int WARPS_M = BM / (LANES_M * TM), WARPS_N = BN / (LANES_N * TN);
    // Four more than the width: the eight k of a transposing copy are in different banks.
    static constexpr int PITCH_A = BM + 4, PITCH_B = BN + 4;
    static constexpr int PANEL_A = BK * PITCH_A, PANEL_B = BK * PITCH_B;
    static constexpr int STAGE = PANEL_A + PANEL_B;           // floats
    static constexpr int SHARED = STAGES * STAGE;             // floats
    // Blocks of a multiprocessor: they bound the registers of a thread, by its number of sums. Each of the four
    // schedulers has 16,384: two of its warps have 255 a thread, three 168, four 128, five 96, eight 64.
    static constexpr int SUMS = TM * TN;
    static constexpr int REGISTERS = SUMS >= 128 ? 255 : SUMS >= 64 ? (THREADS < 256 ? 168 : 128) : SUMS >= 48 ? 128
        : SUMS >= 32 ? 96 : 64;
    __host__ __device__ static constexpr int blocks(int registers) {
        return 65536 / (registers * THREADS) < 1 ? 1 : 65536 / (registers * THREADS) > 8 ? 8
            : 65536 / (registers * THREADS);
    }
    static constexpr int BLOCKS = blocks(REGISTERS);
    static constexpr int ROOMY = blocks(REGISTERS < 168 ? REGISTERS + 32 : REGISTERS);  // for sources that keep more
    static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread reads four numbers at a time");
    static_assert(BK % 8 == 0, "a transposing copy takes eight k at a time");
    static_assert(WARPS_M * WARPS_N * 32 == THREADS && STAGES >= 2, "the warps cover the tile");
};

// Positions of a thread's sums in the tile: chunk i of four rows begins at row(i), chunk j of columns at column(j).
template <class T>
struct Place {
    int m, n;

    __device__ __forceinline__ Place() {
        // In this order of lanes, lanes that differ in their lowest bit read the same of one panel, lanes that differ
        // in the next one the same of the other: a 16-byte load by 32 lanes takes two passes, not four.
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int of_eight = lane / 2 % 8, of_four = lane / 16 * 2 + lane % 2;
        const int of_m = T::LANES_M == 2 ? lane % 2 : T::LANES_M == 4 ? of_four : of_eight;
        const int of_n = T::LANES_M == 2 ? lane / 2 : T::LANES_M == 4 ? of_eight : of_four;
        m = warp % T::WARPS_M * (T::LANES_M * T::TM) + of_m * 4;
        n = warp / T::WARPS_M * (T::LANES_N * T::TN) + of_n * 4;
    }
    __device__ __forceinline__ int row(int i) const { return m + i * (T::LANES_M * 4); }
    __device__ __forceinline__ int column(int j) const { return n + j * (T::LANES_N * 4); }
};

// COUNT numbers of one k: chunks of four, `spacing` floats from each to the next.
template <int COUNT>
__device__ __forceinline__ void read_fragment(float (&out)[COUNT], const float* from, int spacing) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(from + i * spacing);
        out[4 * i] = four.x;
        out[4 * i + 1] = four.y;
        out[4 * i + 2] = four.z;
        out[4 * i + 3] = four.w;
    }
}

// c (TM, TN) = A B over `steps` blocks of BK; shared holds T::SHARED floats. Sums are in the order of k.
template <class T, class Source>
__device__ __forceinline__ void multiply(float (&c)[T::TM][T::TN], Source& source, int steps, float* shared,
    const Place<T>& at) {
#pragma unroll
    for (int i = 0; i < T::TM; ++i)
#pragma unroll
        for (int j = 0; j < T::TN; ++j) c[i][j] = 0.0f;

    for (int stage = 0; stage < T::STAGES - 1; ++stage) {
        if (stage < steps) source.fetch(shared + stage * T::STAGE, shared + stage * T::STAGE + T::PANEL_A);
        commit_copies();
    }
    wait_for_copies<T::STAGES - 2>();
    __syncthreads();

    const int read_a = at.m, read_b = T::PANEL_A + at.n;
    int reading = 0, writing = (T::STAGES - 1) * T::STAGE;
    float fa[2][T::TM], fb[2][T::TN];
    if (steps > 0) {
        read_fragment(fa[0], shared + read_a, T::LANES_M * 4);
        read_fragment(fb[0], shared + read_b, T::LANES_N * 4);
    }
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int k = 0; k < T::BK; ++k) {
            const int now = k % 2, next = 1 - now;
            if (k == T::BK - 1) {  // the next stage has arrived, and all threads have read all of this one
                wait_for_copies<T::STAGES - 2>();
                __syncthreads();
                reading = reading + T::STAGE < T::SHARED ? reading + T::STAGE : 0;
            }
            if (k < T::BK - 1 || step + 1 < steps) {
                const int ahead = (k + 1) % T::BK;
                read_fragment(fa[next], shared + reading + ahead * T::PITCH_A + read_a, T::LANES_M * 4);
                read_fragment(fb[next], shared + reading + ahead * T::PITCH_B + read_b, T::LANES_N * 4);
            }
            if (k == 0) {  // into the stage that was read before the last barrier
                if (step + T::STAGES - 1 < steps) source.fetch(shared + writing, shared + writing + T::PANEL_A);
                commit_copies();
                writing = writing + T::STAGE < T::SHARED ? writing + T::STAGE : 0;
            }
#pragma unroll
            for (int i = 0; i < T::TM; ++i)
#pragma unroll
                for (int j = 0; j < T::TN; ++j) c[i][j] = fmaf(fa[now][i], fb[now][j], c[i][j]);
        }
    }
}
