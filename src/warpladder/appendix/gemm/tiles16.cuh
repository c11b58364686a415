// Tiles of 16-bit numbers in shared memory, for products by tensor cores: copied ahead, and read as fragments by
// ldmatrix.
//
// A row of a tile is 16 bytes longer than its numbers. So eight rows, which ldmatrix reads at a time, 16 bytes of each,
// lie in different banks.
#pragma once
#include "async.cuh"
#include "mma.cuh"

using Bits = unsigned short;  // a number in bf16 or half

template <int ROWS_, int COLUMNS_, int THREADS>
struct Tile16 {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, PITCH = COLUMNS + 8, SIZE = ROWS * PITCH;  // SIZE: numbers
    static_assert(COLUMNS % 8 == 0, "copies are of eight numbers");

    // Begins to copy the tile at `from` in a matrix with `pitch` numbers from row to row, a multiple of 8, of which
    // `rows` and `columns` are left; beyond them the tile is 0. A tile inside of the matrix is copied without checks.
    __device__ __forceinline__ static void fetch(Bits* to, const Bits* from, int pitch, int rows, int columns) {
        if (rows >= ROWS && columns >= COLUMNS) {
#pragma unroll
            for (int i = threadIdx.x; i < ROWS * COLUMNS / 8; i += THREADS) {
                const int row = i / (COLUMNS / 8), column = i % (COLUMNS / 8) * 8;
                copy_sixteen(to + row * PITCH + column, from + (long long)row * pitch + column, 8);
            }
            return;
        }
        for (int i = threadIdx.x; i < ROWS * COLUMNS / 8; i += THREADS) {
            const int row = i / (COLUMNS / 8), column = i % (COLUMNS / 8) * 8;
            const int wanted = row < rows ? max(0, min(8, columns - column)) : 0;
            copy_sixteen(to + row * PITCH + column, wanted > 0 ? from + (long long)row * pitch + column : from, wanted);
        }
    }
    // The fragment of a, 16 x 16 numbers, at a row and a column.
    __device__ __forceinline__ static void left(unsigned (&a)[4], const Bits* tile, int row, int column) {
        const int lane = threadIdx.x % 32;
        load_matrices(a, tile + (row + lane % 16) * PITCH + column + lane / 16 * 8);
    }
    // Two fragments of b, 16 x 8 numbers each, side by side.
    __device__ __forceinline__ static void right(unsigned (&first)[2], unsigned (&second)[2], const Bits* tile, int row,
        int column) {
        const int lane = threadIdx.x % 32;
        unsigned both[4];
        load_matrices_turned(both, tile + (row + lane % 16) * PITCH + column + lane / 16 * 8);
        first[0] = both[0], first[1] = both[1], second[0] = both[2], second[1] = both[3];
    }
};
