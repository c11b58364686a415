// Stages of a ring in shared memory, into which the copy engine (TMA) brings tiles of A and B; and the order
// in which persistent blocks make the tiles of C.
//
// A row of a tile has 128 bytes. In 16 bits a row of A's tile is 64 terms, and one of B's is 64 columns of one term, so
// that a tile of B is COLUMNS / 64 boxes of the copy engine, side by side.
#pragma once
#include "turn.cuh"

template <int ROWS, int COLUMNS>
struct Stage16 {
    static constexpr int DEPTH = 64, BOX = DEPTH * 128, OF_A = ROWS * 128, OF_B = COLUMNS / 64 * BOX,
        BYTES = OF_A + OF_B;

    // By one thread: begins to fill the stage with the terms from `first` on, of rows from `top` and columns from
    // `left` on.
    __device__ __forceinline__ static void fetch(char* stage, const TensorMap& a, const TensorMap& b, int top, int left,
        int first, Barrier* arrived) {
        barrier_expect(arrived, BYTES);  // zeros from beyond the matrix count too
        bring(stage, a, b, top, left, first, arrived);
    }
    __device__ __forceinline__ static void bring(char* stage, const TensorMap& a, const TensorMap& b, int top, int left,
        int first, Barrier* arrived) {
        copy_tile(stage, a, first, top, arrived);
#pragma unroll
        for (int box = 0; box < COLUMNS / 64; ++box)
            copy_tile(stage + OF_A + box * BOX, b, left + 64 * box, first, arrived);
    }
};

// The tiles of C, ROWS x COLUMNS numbers each, in the order in which they are made. Neighbours in time are neighbours
// in C: GROUP rows of tiles are done column by column, while the parts of A and B that they share are in the
// second-level cache.
template <int ROWS, int COLUMNS, int GROUP = 16>
struct Order {
    int down, across;
    __device__ __forceinline__ Order(int m, int n) : down((m + ROWS - 1) / ROWS), across((n + COLUMNS - 1) / COLUMNS) {}
    __device__ __forceinline__ int count() const { return down * across; }
    __device__ __forceinline__ void place(int tile, int& top, int& left) const {
        const int first = tile / (GROUP * across) * GROUP, inside = tile % (GROUP * across),
            height = min(GROUP, down - first);
        top = (first + inside % height) * ROWS, left = inside / height * COLUMNS;
    }
};
