// Images of few channels on their way to shared memory: eight channels of a pixel by one thread, and of a pool's gradient the four pixels of a window.
#pragma once
#include "tensor_pixels.cuh"

// Divides numbers below 2^16 by one, which a multiplication does in a twentieth of the instructions.
struct Divider {
    int by;
    unsigned inverse;

    __device__ __forceinline__ explicit Divider(int number) : by(number), inverse(0xffffffffu / number + 1) {}
    __device__ __forceinline__ int quotient(int x) const { return by == 1 ? x : static_cast<int>(__umulhi(x, inverse)); }
};

// Whole rows of an image (channels, high, wide) with what a window sees around them: `rows` x `columns` pixels from (row0, column0) on, zeros outside.
struct Halo {
    int channels, high, wide, row0, column0, rows, columns;

    __device__ __forceinline__ int pixels() const { return rows * columns; }
    // The 2 x 2 windows that the halo touches, down and along.
    __device__ __forceinline__ int down() const { return ((row0 + rows - 1) >> 1) - (row0 >> 1) + 1; }
    __device__ __forceinline__ int along() const { return ((column0 + columns - 1) >> 1) - (column0 >> 1) + 1; }
};

// Channels first to first + 7 of the halo's pixel number `pixel`; zeros beyond the last one. across: by the halo's columns.
__device__ __forceinline__ void read_pixel(float (&out)[8], const float* image, const Halo& halo, const Divider& across, int pixel, int first) {
    const int line = across.quotient(pixel), row = halo.row0 + line, column = halo.column0 + pixel - line * halo.columns, plane = halo.high * halo.wide;
    const bool inside = pixel < halo.pixels() && static_cast<unsigned>(row) < static_cast<unsigned>(halo.high) &&
                        static_cast<unsigned>(column) < static_cast<unsigned>(halo.wide);
    const float* from = image + (first * plane + (inside ? row * halo.wide + column : 0));
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = inside && first + i < halo.channels ? from[i * plane] : 0.0f;
}

// A window of a 2 x 2 pool: the pool's gradient, 0 where nobody won, and winner (pooled.cuh) of eight channels, and the window's first pixel in the halo, which may lack it.
struct WindowGradient {
    float g[8];
    int won[8], row, column;

    // Window number `number` of those that the halo touches, `along` of them side by side. pooled, winner: (channels, high / 2, wide / 2). Where there is no
    // window nobody won.
    __device__ __forceinline__ void read(const float* pooled, const unsigned char* winner, const Halo& halo, const Divider& along, int number, int first) {
        const int line = along.quotient(number), down = (halo.row0 >> 1) + line, across = (halo.column0 >> 1) + number - line * along.by;
        const int plane = (halo.high / 2) * (halo.wide / 2);
        const bool inside = line < halo.down() && static_cast<unsigned>(down) < static_cast<unsigned>(halo.high / 2) &&
                            static_cast<unsigned>(across) < static_cast<unsigned>(halo.wide / 2);
        const int from = first * plane + (inside ? down * (halo.wide / 2) + across : 0);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const bool there = inside && first + i < halo.channels;
            g[i] = there ? pooled[from + i * plane] : 0.0f;
            won[i] = there ? winner[from + i * plane] : 4;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) g[i] = won[i] < 4 ? g[i] : 0.0f;
        row = 2 * down - halo.row0, column = 2 * across - halo.column0;
    }
    // The halo's number of the window's pixel at `place`; -1 where the halo lacks it.
    __device__ __forceinline__ int pixel(const Halo& halo, int place) const {
        const int at = row + place / 2, beside = column + place % 2;
        return static_cast<unsigned>(at) < static_cast<unsigned>(halo.rows) && static_cast<unsigned>(beside) < static_cast<unsigned>(halo.columns)
                   ? at * halo.columns + beside : -1;
    }
    // The gradient of that pixel.
    __device__ __forceinline__ void of_pixel(float (&out)[8], int place) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = won[i] == place ? g[i] : 0.0f;
    }
};

// What undoes a scale is kept in two parts, those of pixels times DOWN and those of weights times UP, as tensor.cu has it and says why.
constexpr float DOWN = 1.0f / 16384, UP = 16384;
