// One tile of a matrix product, computed by one block in fp32: c[m, n] = sum over k of a[m, k] * b[n, k].
//
// Pieces of both factors are copied to shared memory while the block computes with the previous piece. A thread sums up
// 4 x 4 numbers of the tile in registers. A small tile needs few threads: several groups of threads then hold the whole
// tile each and divide k among themselves; their sums are added in a fixed order.
#pragma once
#include "panel.cuh"
#include "warp.cuh"

template <class T, int ARRAYS>
struct EarlyInRegisters;

// A tile of 4 * DOWN rows and 4 * ACROSS columns. DEPTH, a power of two, numbers of k are a piece; STAGES pieces are in
// shared memory at a time.
template <int DOWN_, int ACROSS_, int DEPTH_, int STAGES_>
struct Tile {
    static constexpr int DOWN = DOWN_, ACROSS = ACROSS_, DEPTH = DEPTH_, STAGES = STAGES_;
    static constexpr int ROWS = 4 * DOWN, COLUMNS = 4 * ACROSS, SIZE = ROWS * COLUMNS, PLACES = DOWN * ACROSS;
    static constexpr int PITCH = COLUMNS, QUANTUM = 4, WIDE = 1;
    static constexpr int GROUPS = THREADS / PLACES;                  // of threads, which divide k
    static constexpr int PARTS = PLACES < 32 ? THREADS / 32 : GROUPS;  // sums that are left after those within a warp
    static constexpr int EACH = (SIZE + THREADS - 1) / THREADS;      // numbers of the finished tile for a thread
    template <class A, class B, int ARRAYS>
    using Early = EarlyInRegisters<Tile, ARRAYS>;
    static_assert(GROUPS * PLACES == THREADS && (DEPTH & (DEPTH - 1)) == 0, "whole groups");
};

// Write a thread's 4 x 4 sums to shared memory; if a warp has several groups, their sums are added first.
template <class T, class PanelA, class PanelB>
__device__ __forceinline__ void store_sums(float (&sum)[16], int down, int across, float* parts) {
    Share share = {0, 16};
    if constexpr (T::PLACES < 32) warp_sums<16, T::PLACES>(sum, share);
    constexpr int LEFT = T::PLACES < 32 ? left_of(16, T::PLACES) : 16;
    float* const part = parts + (T::PLACES < 32 ? threadIdx.x / 32 : threadIdx.x / T::PLACES) * T::SIZE;
#pragma unroll
    for (int k = 0; k < LEFT; ++k) {
        const int i = share.first + k;
        if (k < share.count) part[PanelA::line(down, i / 4) * T::COLUMNS + PanelB::line(across, i % 4)] = sum[k];
    }
}

// The tile whose first row is m0 and whose first column is n0, summed over 0 <= k < depth. Every thread calls it, and
// must pass a barrier after reading the sums.
template <bool ROW_SUMS = false, int DOWN, int ACROSS, int DEPTH, int STAGES, class A, class B>
__device__ __forceinline__ Sums<Tile<DOWN, ACROSS, DEPTH, STAGES>> multiply(
    Tile<DOWN, ACROSS, DEPTH, STAGES>, const A& a, const B& b, Maps, int m0, int n0, int depth, Ahead = NOTHING,
    TileStream = {}
) {
    using T = Tile<DOWN, ACROSS, DEPTH, STAGES>;
    using PanelA = Panel<T::ROWS, T::DEPTH, A::K_INSIDE>;
    using PanelB = Panel<T::COLUMNS, T::DEPTH, B::K_INSIDE>;
    float* const shared = tile_memory();
    const int place = threadIdx.x % T::PLACES, group = threadIdx.x / T::PLACES;
    const int down = place / T::ACROSS, across = place % T::ACROSS;
    const int pieces = (depth + T::DEPTH - 1) / T::DEPTH;
    const auto size = [&](int piece) { return min(T::DEPTH, (depth - piece * T::DEPTH + 3) / 4 * 4); };
    const auto start = [&](int piece) {
        if (piece < pieces) {
            float* const stage = shared + piece % T::STAGES * (PanelA::SIZE + PanelB::SIZE);
            PanelA::copy(stage, a, m0, piece * T::DEPTH, size(piece));
            PanelB::copy(stage + PanelA::SIZE, b, n0, piece * T::DEPTH, size(piece));
        }
        commit_copies();
    };
    constexpr int AHEAD = T::STAGES > 1 ? T::STAGES - 1 : 1;  // pieces that are on their way at a time
#pragma unroll
    for (int piece = 0; piece < AHEAD; ++piece) start(piece);
    float sum[16] = {};
    for (int piece = 0; piece < pieces; ++piece) {
        wait_for_copies<AHEAD - 1>();
        __syncthreads();  // the piece is there for all threads, and all have left the stage that is filled next
        if constexpr (T::STAGES > 1) start(piece + AHEAD);
        const float* const stage = shared + piece % T::STAGES * (PanelA::SIZE + PanelB::SIZE);
        const int quads = size(piece) / 4;
#pragma unroll 2
        for (int quad = group; quad < quads; quad += T::GROUPS) {
            float from_a[4][4], from_b[4][4];
            PanelA::read(from_a, stage, down, quad);
            PanelB::read(from_b, stage + PanelA::SIZE, across, quad);
#pragma unroll
            for (int k = 0; k < 4; ++k)
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j) sum[4 * i + j] = fmaf(from_a[i][k], from_b[j][k], sum[4 * i + j]);
        }
    }
    wait_for_copies<0>();
    __syncthreads();
    store_sums<T, PanelA, PanelB>(sum, down, across, shared);
    __syncthreads();
    return {shared};
}

// Numbers that a thread needs after a product, requested before it: they wait in registers.
template <class T, int ARRAYS>
struct EarlyInRegisters {
    float v[ARRAYS][T::EACH];

    __device__ __forceinline__ void request(int array, int k, int, const float* from, bool wanted) {
        v[array][k] = wanted ? *from : 0.0f;
    }
    __device__ __forceinline__ void request_apart(int array, int k, int, const float* from, int, int count) {
        v[array][k] = count > 0 ? *from : 0.0f;
    }
    __device__ __forceinline__ void arrive() const {}
    __device__ __forceinline__ void read(float (&out)[1], int array, int k, int) const { out[0] = v[array][k]; }
};
