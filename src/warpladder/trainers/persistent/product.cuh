// One tile of a matrix product, computed by one block in fp32: c[m, n] = sum over k of a[m, k] * b[n, k].
//
// Pieces of both factors are copied to shared memory while the block computes with the previous piece. A thread sums up
// 4 x 4 numbers of the tile in registers. A small tile needs few threads: several groups of threads then hold the whole
// tile each and divide k among themselves; their sums are added in a fixed order.
#pragma once
#include "async.cuh"
#include "warp.cuh"

constexpr int THREADS = 256;

// A tile of 4 * DOWN rows and 4 * ACROSS columns. DEPTH, a power of two, numbers of k are a piece; STAGES pieces are in
// shared memory at a time.
template <int DOWN_, int ACROSS_, int DEPTH_, int STAGES_>
struct Tile {
    static constexpr int DOWN = DOWN_, ACROSS = ACROSS_, DEPTH = DEPTH_, STAGES = STAGES_;
    static constexpr int ROWS = 4 * DOWN, COLUMNS = 4 * ACROSS, SIZE = ROWS * COLUMNS, PLACES = DOWN * ACROSS;
    static constexpr int GROUPS = THREADS / PLACES;                  // of threads, which divide k
    static constexpr int PARTS = PLACES < 32 ? THREADS / 32 : GROUPS;  // sums that are left after those within a warp
    static constexpr int EACH = (SIZE + THREADS - 1) / THREADS;      // numbers of the finished tile for a thread
    static_assert(GROUPS * PLACES == THREADS && (DEPTH & (DEPTH - 1)) == 0, "whole groups");
};

// A factor of a product: `count` rows in global memory, LINE floats from row to row, a multiple of four. K_INSIDE: true
// if rows are those of the product and k runs along them; false if k runs from row to row.
template <int LINE_, bool K_INSIDE_>
struct Rows {
    static constexpr int LINE = LINE_;
    static constexpr bool K_INSIDE = K_INSIDE_;
    const float* numbers;
    int count;
};

// A factor's part of a piece in shared memory: LINES rows of the product by DEPTH, as they lie in global memory. Four
// unused numbers after each line spread neighbouring lines over the banks.
template <int LINES, int DEPTH, bool K_INSIDE>
struct Panel {
    static constexpr int INNER = K_INSIDE ? DEPTH : LINES, STRIDE = INNER + 4;
    static constexpr int SIZE = (K_INSIDE ? LINES : DEPTH) * STRIDE;

    // Start the copy of k0 to k0 + depth - 1 of the lines from line0 on; depth is a multiple of four. Numbers
    // beyond the matrix are zeros. A thread copies one column of quads, so that an address is one addition.
    template <class Factor>
    static __device__ __forceinline__ void copy(float* panel, const Factor& factor, int line0, int k0, int depth) {
        // quads of a row, rows that all threads copy at a time
        constexpr int QUADS = INNER / 4, DOWN = THREADS / QUADS;
        static_assert(QUADS * DOWN == THREADS, "whole rows at a time");
        const int inner = 4 * (threadIdx.x % QUADS), column = (K_INSIDE ? k0 : line0) + inner;
        if (K_INSIDE && inner >= depth) return;
        const bool present = column < Factor::LINE;
        int outer = threadIdx.x / QUADS;
        int row = (K_INSIDE ? line0 : k0) + outer;
        float* to = panel + outer * STRIDE + inner;
        const float* from = factor.numbers + static_cast<long long>(row) * Factor::LINE + column;
        const int last = K_INSIDE ? LINES : depth;
#pragma unroll 8
        for (; outer < last; outer += DOWN, row += DOWN, to += DOWN * STRIDE, from += DOWN * Factor::LINE)
            if (present && row < factor.count) copy_sixteen(to, from, 4);
            else copy_sixteen(to, factor.numbers, 0);
    }

    // Line number i, 0 to 3, of a thread at a place, 0 to LINES / 4 - 1: neighbouring threads read other banks.
    static __device__ __forceinline__ int line(int place, int i) {
        return K_INSIDE ? place + i * (LINES / 4) : 4 * place + i;
    }

    // The thread's four lines at four k: part[line][k].
    static __device__ __forceinline__ void read(float (&part)[4][4], const float* panel, int place, int quad) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float* from = K_INSIDE ? panel + line(place, i) * STRIDE + 4 * quad
                                         : panel + (4 * quad + i) * STRIDE + 4 * place;
            const float4 v = *reinterpret_cast<const float4*>(from);
            const float numbers[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int j = 0; j < 4; ++j) (K_INSIDE ? part[i][j] : part[j][i]) = numbers[j];
        }
    }
};

// The block's dynamic shared memory, where its tile is.
__device__ __forceinline__ float* tile_memory() {
    extern __shared__ float4 memory[];
    return reinterpret_cast<float*>(memory);
}

// A finished tile in shared memory: PARTS arrays (ROWS, COLUMNS).
template <class T>
struct Sums {
    const float* parts;

    // Number i of the tile, row by row: its parts, added in their order.
    __device__ __forceinline__ float operator[](int i) const {
        float sum = parts[i];
#pragma unroll
        for (int part = 1; part < T::PARTS; ++part) sum += parts[part * T::SIZE + i];
        return sum;
    }

    // Numbers i to i + 3, i a multiple of four.
    __device__ __forceinline__ float4 four(int i) const {
        float4 sum = *reinterpret_cast<const float4*>(parts + i);
#pragma unroll
        for (int part = 1; part < T::PARTS; ++part) {
            const float4 v = *reinterpret_cast<const float4*>(parts + part * T::SIZE + i);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        return sum;
    }
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
template <class T, class A, class B>
__device__ __forceinline__ Sums<T> multiply(const A& a, const B& b, int m0, int n0, int depth) {
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
