// Copies of images of few channels to shared memory: eight channels of a pixel, or of a pool's window, by a thread.
#pragma once
#include "../halves.cuh"
#include "tensor_panels.cuh"

// Inverse scales of pixels are stored times DOWN, those of weights times UP (tensor_panels.cuh).

// Division of numbers below 2^16 by a fixed one: a multiplication by its inverse (dividers.py).
struct Divider {
    int by;
    unsigned inverse;  // 2^32 / by, rounded up; 0 for 1

    __device__ __forceinline__ int quotient(unsigned x) const { return __umulhi(x, inverse) + (inverse == 0 ? x : 0u); }
};

// Eight numbers in a format, 16 bits each: the high halves, and in SPLIT the low ones.
template <int FORMAT>
struct Eight {
    unsigned high[4], low[4];

    __device__ __forceinline__ explicit Eight(const float (&x)[8]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) two_numbers<FORMAT>(x[2 * i], x[2 * i + 1], high[i], low[i]);
    }
};

// Rows of CHANNELS numbers in shared memory, each the channels of a pixel: high halves, low halves, and 16 bytes for
// the inverse scale. Rows are an odd number of 16 bytes apart: eight neighbours are in different banks.
template <int FORMAT, int CHANNELS>
struct Lines {
    // of 16 bytes
    static constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, CHUNKS = CHANNELS / 8, STRIDE = COPIES * CHUNKS + 1;
    uint4* chunks;

    __device__ __forceinline__ const uint4* at(int copy, int row, int chunk) const {
        return chunks + row * STRIDE + copy * CHUNKS + chunk; }
    __device__ __forceinline__ float* inverse_scale(int row) const {
        return reinterpret_cast<float*>(chunks + row * STRIDE + COPIES * CHUNKS); }
    // Stores eight channels of a row: `wanted` has a mask for each word of two numbers; masked numbers are stored as 0.
    __device__ __forceinline__ void put(const Eight<FORMAT>& x, const unsigned (&wanted)[4], int row, int chunk) const {
        uint4* to = chunks + row * STRIDE + chunk;
        to[0] = make_uint4(x.high[0] & wanted[0], x.high[1] & wanted[1], x.high[2] & wanted[2], x.high[3] & wanted[3]);
        if constexpr (FORMAT == SPLIT)
            to[CHUNKS] = make_uint4(x.low[0] & wanted[0], x.low[1] & wanted[1], x.low[2] & wanted[2],
            x.low[3] & wanted[3]);
    }
    __device__ __forceinline__ void put(const Eight<FORMAT>& x, int row, int chunk) const {
        const unsigned all[4] = {~0u, ~0u, ~0u, ~0u};
        put(x, all, row, chunk);
    }
};

// Whole rows of an image (channels, high, wide) with a halo: `rows` x `columns` pixels from (row0, column0) on.
struct Halo {
    int channels, high, wide, row0, column0, rows, columns;

    __device__ __forceinline__ int pixels() const { return rows * columns; }
    // The 2 x 2 windows that the halo touches, down and along.
    __device__ __forceinline__ int down() const { return ((row0 + rows - 1) >> 1) - (row0 >> 1) + 1; }
    __device__ __forceinline__ int along() const { return ((column0 + columns - 1) >> 1) - (column0 >> 1) + 1; }
};

// Channels first to first + 7 of pixel number `pixel` of the halo, zeros outside. columns: divides by the halo's.
__device__ __forceinline__ void read_pixel(float (&out)[8], const float* image, const Halo& halo,
    const Divider& columns, int pixel, int first) {
    const int line = columns.quotient(pixel), row = halo.row0 + line,
        column = halo.column0 + pixel - line * halo.columns, plane = halo.high * halo.wide;
    const bool there = pixel < halo.pixels() && static_cast<unsigned>(row) < static_cast<unsigned>(halo.high) &&
                       static_cast<unsigned>(column) < static_cast<unsigned>(halo.wide) && first < halo.channels;
    const float* from = image + (there ? first * plane + row * halo.wide + column : 0);
#pragma unroll
    for (int i = 0; i < 8; ++i, from += plane) out[i] = there ? *from : 0.0f;
}

// A window of a 2 x 2 pool: the pool's gradient, 0 where the maximum is not above 0, and the argmax (pooled.cuh) of
// eight channels; and the first pixel of the window in the halo, or outside it.
struct WindowGradient {
    float g[8];
    int pool_argmax[8], row, column;

    // Window `number` of the halo. pooled, argmax: (channels, high / 2, wide / 2). along: divides by windows of a row.
    __device__ __forceinline__ void read(const float* pooled, const unsigned char* argmax, const Halo& halo,
        const Divider& along, int number, int first) {
        const int line = along.quotient(number), down = (halo.row0 >> 1) + line,
            across = (halo.column0 >> 1) + number - line * along.by;
        const int high = halo.high / 2, wide = halo.wide / 2, plane = high * wide;
        const bool there = line < halo.down() && static_cast<unsigned>(down) < static_cast<unsigned>(high) &&
                           static_cast<unsigned>(across) < static_cast<unsigned>(wide) && first < halo.channels;
        const int start = there ? first * plane + down * wide + across : 0;
        const float* from = pooled + start;
        const unsigned char* from_argmax = argmax + start;
#pragma unroll
        for (int i = 0; i < 8; ++i, from += plane, from_argmax += plane) {
            g[i] = there ? *from : 0.0f;
            pool_argmax[i] = there ? *from_argmax : 4;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) g[i] = pool_argmax[i] < 4 ? g[i] : 0.0f;
        row = 2 * down - halo.row0, column = 2 * across - halo.column0;
    }
    // Number in the halo of the window's pixel at `place`; -1 outside.
    __device__ __forceinline__ int pixel(const Halo& halo, int place) const {
        const int at = row + place / 2, col = column + place % 2;
        return static_cast<unsigned>(at) < static_cast<unsigned>(halo.rows)
            && static_cast<unsigned>(col) < static_cast<unsigned>(halo.columns) ? at * halo.columns + col : -1;
    }
    // Masks, for two 16 bits each, of those of the eight numbers that belong to that pixel.
    __device__ __forceinline__ void of_pixel(unsigned (&wanted)[4], int place) const {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            wanted[i] = (pool_argmax[2 * i] == place ? 0xffffu : 0u)
                | (pool_argmax[2 * i + 1] == place ? 0xffff0000u : 0u);
    }
};

// Eight numbers times a power of two.
__device__ __forceinline__ void scale_all(float (&x)[8], float by) {
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] *= by;
}
