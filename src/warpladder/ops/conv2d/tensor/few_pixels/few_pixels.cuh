// Copies of images of few pixels for tensor cores: 16 channels of a tile and its halo, and their weights, from floats.
//
// Every number of the weights is multiplied by only 64 pixels or a few times 64. So the block that multiplies it scales
// and splits it: no launch packs it, and no update has to renew a copy.
#pragma once
#include "../narrow/narrow.cuh"
#include "../taps.cuh"

constexpr int CHANNELS = 16, PIXELS = 64, GROUP = 128;  // of a stage: channels and pixels; threads that share one

// A tile of at most PIXELS pixels, `rows` x `columns`, and its halo: the pixels under its taps. Stride 2 (GATHERED):
// even columns of the halo come first: neighbours read neighbouring rows.
template <int KIND>
struct TileHalo {
    static constexpr int STEP = KIND == GATHERED ? 2 : 1;
    int rows, columns;

    __device__ __forceinline__ int wide() const { return STEP * columns + 2; }
    __device__ __forceinline__ int pixels() const { return (STEP * rows + 2) * wide(); }
    __device__ __forceinline__ int place(int row, int column) const {
        return row * wide() + (STEP == 2 ? column % 2 * (columns + 1) + column / 2 : column);
    }
    // Row of shared memory that the first tap reads for the tile's pixel (row, column).
    __device__ __forceinline__ int seen(int row, int column) const { return STEP * row * wide() + column; }
};

// An image (channels, high, wide); POOLED: the gradient of a 2 x 2 pool, of half the size, with argmax (pooled.cuh).
template <bool POOLED>
struct Source {
    const float* numbers;
    const unsigned char* pool_argmax;
    int high, wide, plane;  // plane: numbers of a channel as they lie

    __device__ __forceinline__ Source(const float* numbers, const unsigned char* pool_argmax, int image, int channels,
        int high, int wide) : high(high), wide(wide), plane(POOLED ? (high / 2) * (wide / 2) : high * wide) {
        const long long from = static_cast<long long>(image) * channels * plane;
        this->numbers = numbers + from, this->pool_argmax = POOLED ? pool_argmax + from : nullptr;
    }
    // The first `count` of eight channels, from `first` on, of a pixel; zeros for the others, and outside of the image.
    __device__ __forceinline__ void read(float (&out)[8], int row, int column, int first, int count) const {
        const int most_row = POOLED ? high / 2 * 2 : high, most_column = POOLED ? wide / 2 * 2 : wide;
        if (static_cast<unsigned>(row) >= static_cast<unsigned>(most_row)
            || static_cast<unsigned>(column) >= static_cast<unsigned>(most_column)) count = 0;
        const int at = count <= 0 ? 0 : first * plane
            + (POOLED ? row / 2 * (wide / 2) + column / 2 : row * wide + column);
        const float* from = numbers + at;
#pragma unroll
        for (int i = 0; i < 8; ++i, from += plane) out[i] = i < count ? *from : 0.0f;
        if constexpr (POOLED) {
            const unsigned char* argmax = pool_argmax + at;
            int places[8];
#pragma unroll
            for (int i = 0; i < 8; ++i, argmax += plane) places[i] = i < count ? *argmax : 4;
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if (places[i] != row % 2 * 2 + column % 2) out[i] = 0.0f;
        }
    }
};

// Weights of two neighbouring channels for one output, 3 x 3 each, or 16 numbers of the folded kernel.
template <int KIND>
struct TwoKernels {
    static constexpr int NUMBERS = KIND == WINDOW ? 9 : 16;
    float held[2][9];

    __device__ __forceinline__ void read(const float* w, int next, int count) {
#pragma unroll
        for (int l = 0; l < 2; ++l)
#pragma unroll
            for (int i = 0; i < 9; ++i) held[l][i] = l < count ? w[l * next + i] : 0.0f;
    }
    __device__ __forceinline__ float number(int l, int at) const {
        if constexpr (KIND == WINDOW) return held[l][at];
        float sum = 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = 2 - at / 4 + e / 2, column = 2 - at % 4 + e % 2;
            if (row >= 0 && row < 3 && column >= 0 && column < 3) sum += held[l][row * 3 + column];
        }
        return sum;
    }
};
