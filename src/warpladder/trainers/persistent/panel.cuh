// Factors of a product in global memory, their panels in shared memory, and the sums of a finished tile.
#pragma once
#include "async.cuh"
#include "bulk.cuh"

constexpr int THREADS = 256;

// Factor of a product that was requested before its phase, while blocks wait.
enum Ahead { NOTHING, LEFT, RIGHT };

// Tiles of a product that a block computes one after the other: number `tile` of `tiles`, then every blocks-th one,
// `across` of them in a row of tiles. number: tiles that the block has computed before.
struct TileStream {
    int tile, blocks, tiles, across, number;
};

// Maps of a product's factors for the copy engine, which tiles on tensor cores use.
struct Maps {
    const TensorMap *left, *right;
};

// Defined in a kernel with tiles on tensor cores, as true: the copy engine writes where other tiles were.
#ifndef COPIES_TILES
#define COPIES_TILES false
#endif

// Wait until all threads have read a tile's sums, and let the copy engine write where they were.
__device__ __forceinline__ void end_of_tile() {
#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900
    if (COPIES_TILES) pieces_written();
#endif
    __syncthreads();
}

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

// Four neighbouring numbers at a multiple of 16 bytes.
__device__ __forceinline__ void load_four(float (&out)[4], const float* from) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
}

// One or four neighbouring numbers, or zeros if they are not `wanted`.
template <int WIDE>
__device__ __forceinline__ void load_some(float (&out)[WIDE], const float* from, bool wanted) {
#pragma unroll
    for (int j = 0; j < WIDE; ++j) out[j] = 0.0f;
    if (!wanted) return;
    if constexpr (WIDE == 4) load_four(out, from);
    else out[0] = *from;
}

// Store numbers e, e + 1, ... of a row of `count` numbers, as far as it has them. to: place of the first, for four
// numbers a multiple of 16 bytes.
template <int WIDE>
__device__ __forceinline__ void store_some(float* to, const float (&v)[WIDE], int e, int count) {
    if constexpr (WIDE == 4)
        if (e + 4 <= count) {
            *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
            return;
        }
#pragma unroll
    for (int j = 0; j < WIDE; ++j)
        if (e + j < count) to[j] = v[j];
}

// A finished tile in shared memory: PARTS arrays of ROWS rows that are PITCH floats apart.
template <class T>
struct Sums {
    static constexpr int PART = T::ROWS * T::PITCH;
    const float* parts;

    // Number i of the tile, row by row: its parts, added in their order.
    __device__ __forceinline__ float operator[](int i) const {
        return total(at(i));
    }

    // Numbers i to i + T::WIDE - 1 of one row, i a multiple of T::WIDE.
    __device__ __forceinline__ void read(float (&sum)[T::WIDE], int i) const {
        const float* const first = at(i);
        if constexpr (T::WIDE == 4) {
            load_four(sum, first);
#pragma unroll
            for (int part = 1; part < T::PARTS; ++part) {
                float more[4];
                load_four(more, first + part * PART);
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[j] += more[j];
            }
        } else {
            sum[0] = total(first);
        }
    }

    // Sum of a's row of the product, where it was requested.
    __device__ __forceinline__ float row_sum(int row) const { return total(parts + row * T::PITCH + T::COLUMNS); }

private:
    __device__ __forceinline__ const float* at(int i) const {
        return parts + (T::PITCH == T::COLUMNS ? i : i / T::COLUMNS * T::PITCH + i % T::COLUMNS);
    }

    // A number's parts, added in their order.
    static __device__ __forceinline__ float total(const float* first) {
        float sum = *first;
#pragma unroll
        for (int part = 1; part < T::PARTS; ++part) sum += first[part * PART];
        return sum;
    }
};
