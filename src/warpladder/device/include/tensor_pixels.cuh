// Pixels for tensor cores: a tile with its halo is read, scaled and split once, and stored channels last.
//
// A row of such a tile is one pixel, 32 or 64 numbers (channels, or a pixel's terms). ldmatrix takes the address of
// each row, so rows may be any pixels: tap (i, j) is the same tile, i rows and j pixels later.
#pragma once
#include "gemm_patches.cuh"
#include "tensor_panels.cuh"

// Rows that are read at a time, and so the swizzle that avoids bank conflicts: every fourth pixel (a lane then has four
// neighbours), or neighbours; or, of numbers read one by one, four neighbours and eight channels.
enum { EVERY_FOURTH = 0, NEIGHBOURS = 1, FOUR_BY_EIGHT = 2 };

// Rows of WIDTH numbers in shared memory, COPIES times: the high halves, and `rows` rows further the low ones.
template <int FORMAT, int WIDTH, int READ>
struct Rows {
    using Number = typename Held<FORMAT>::Number;
    // of 16 bytes
    static constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, EACH = 16 / sizeof(Number), CHUNKS = WIDTH / EACH;
    uint4* chunks;
    int rows;

    __device__ __forceinline__ static int place(int row, int chunk) {
        const int at = row * CHUNKS + chunk;
        int turn = 2 * row;
        if constexpr (READ == EVERY_FOURTH) turn = row / 4 + row / 32;
        if constexpr (READ == NEIGHBOURS) turn = CHUNKS == 4 ? row / 2 % 4 : row;
        return at ^ (turn & 7);
    }
    __device__ __forceinline__ const uint4* at(int copy, int row, int chunk) const {
        return chunks + copy * rows * CHUNKS + place(row, chunk); }
    __device__ __forceinline__ const Number& number(int row, int column) const {
        return reinterpret_cast<const Number*>(chunks + place(row, column / EACH))[column % EACH];
    }

    // COUNT numbers of a row from a whole chunk on, scaled already.
    template <int COUNT>
    __device__ __forceinline__ void put(const float (&x)[COUNT], int row, int chunk) const {
#pragma unroll
        for (int first = 0; first < COUNT; first += EACH, ++chunk) {
            const float* v = x + first;
            uint4* to = chunks + place(row, chunk);
            if constexpr (FORMAT == TF32) {
                *to = make_uint4(to_tf32(v[0]), to_tf32(v[1]), to_tf32(v[2]), to_tf32(v[3]));
            } else if constexpr (FORMAT == BF16) {
                *to = make_uint4(two_bf16(v[0], v[1]), two_bf16(v[2], v[3]), two_bf16(v[4], v[5]),
                    two_bf16(v[6], v[7]));
            } else {
                unsigned high[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) high[i] = two_halves(v[2 * i], v[2 * i + 1]);
                *to = make_uint4(high[0], high[1], high[2], high[3]);
                if constexpr (FORMAT == SPLIT) {
                    unsigned low[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        low[i] = two_halves(v[2 * i] - low_half(high[i]), v[2 * i + 1] - high_half(high[i]));
                    to[rows * CHUNKS] = make_uint4(low[0], low[1], low[2], low[3]);
                }
            }
        }
    }
};

// Rectangle of written pixels of a class, in some images, and the box of their taps.
struct TilePixels {
    int images, rows, columns;   // of the tile
    int tap_rows, tap_columns;   // of the box of taps
    int down, along;             // pixels that are read from one written pixel to the next

    __device__ __forceinline__ int high() const { return (rows - 1) * down + tap_rows; }
    __device__ __forceinline__ int wide() const { return (columns - 1) * along + tap_columns; }
    __device__ __forceinline__ int count() const { return images * rows * columns; }
    __device__ __forceinline__ int halo() const { return images * high() * wide(); }
    // Pixel of the halo that the first tap of the box reads for a pixel of the tile.
    __device__ __forceinline__ int seen(const Place2d& at) const {
        return (at.image * high() + at.row * down) * wide() + at.column * along; }
};

// Index of each pixel of a halo in images (.., channels, height, width) from the first image on; -1 outside.
__device__ __forceinline__ void find_places(int* places, const TilePixels& tile, int images, int channels, int height,
    int width, int row0, int column0) {
    for (int pixel = threadIdx.x; pixel < tile.halo(); pixel += blockDim.x) {
        const Place2d at = place2d<false>(pixel, tile.high(), tile.wide());
        const int row = row0 + at.row, column = column0 + at.column;
        const bool inside = at.image < images && static_cast<unsigned>(row) < static_cast<unsigned>(height) &&
                            static_cast<unsigned>(column) < static_cast<unsigned>(width);
        places[pixel] = inside ? (at.image * channels * height + row) * width + column : -1;
    }
}
