// Common parts of a convolution of few outputs after an upsampling by 2, by products, then shifts (shifted.cu).
//
// A window of 3 x 3 after an upsampling has 16 numbers for each pair of an output and a channel, the 4 x 4 kernel of
// folded.cuh. With at most four outputs they are the 64 columns of one product with the small image: column 4 (4 a + b)
// + output is of number (a, b). No pixel is copied for a tap.
//
// Shared memory holds pieces of 8 kB, 64 rows of 128 bytes; 16 bytes number p of row r are at p ^ (r % 8):
//     weights of 64 channels      a row is a channel, 64 columns
//     64 channels of x            four pieces, each of 64 pixels; a row is a channel
//     the gradient of products    four pieces, each of 64 pixels; a row is a pixel, 64 columns (shifted_gradient.cu)
#pragma once
#include "async.cuh"
#include "four.cuh"
#include "../halves.cuh"
#include "turn.cuh"
#include "wgmma.cuh"

constexpr int THREADS = 512, WARPS = THREADS / 32, PIECE = 64 * 128;
// of pixels: an image has at most 256, and each of four warpgroups a piece of them
constexpr int OUTPUTS = 4, COLUMNS = 16 * OUTPUTS, PIECES = 4;

template <int FORMAT>
constexpr int COPIES = FORMAT == SPLIT ? 2 : 1;

// Place of 16 bytes of a piece, by the row and their number among its eight.
__device__ __forceinline__ int place(int row, int part) { return row * 128 + (part ^ row % 8) * 16; }

// 64 terms of 64 x 64 sums, of pieces in which terms go down the rows or along them; of halves al bh, ah bl, ah bh: the
// small ones first. low_first, low_second: how many bytes after the high halves the low ones lie. EXCHANGED: ah bl
// comes before al bh, so that b a has the bits of a b.
template <int FORMAT, bool FIRST_DOWN, bool SECOND_DOWN, bool EXCHANGED = false>
__device__ __forceinline__ void multiply_piece(float (&sum)[32], const char* first, int low_first, const char* second,
    int low_second, bool add) {
#pragma unroll
    for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
        for (int term = 0; term < 64; term += 16) {
            const char* a = first + (product == EXCHANGED ? low_first : 0);
            const char* b = second + (product == !EXCHANGED ? low_second : 0);
            const unsigned long long left = FIRST_DOWN ? terms_down(a + 128 * term, 0) : terms_along(a + 2 * term);
            const unsigned long long right = SECOND_DOWN ? terms_down(b + 128 * term, 0) : terms_along(b + 2 * term);
            const bool more = add || term > 0 || (FORMAT == SPLIT && product > 0);
            if constexpr (FIRST_DOWN) {
                if constexpr (SCALED<FORMAT>) wgmma_half_down(sum, left, right, more);
                else wgmma_bf16_down(sum, left, right, more);
            } else if constexpr (SECOND_DOWN) {
                if constexpr (SCALED<FORMAT>) wgmma_half(sum, left, right, more);
                else wgmma_bf16(sum, left, right, more);
            } else {
                if constexpr (SCALED<FORMAT>) wgmma_half_along(sum, left, right, more);
                else wgmma_bf16_along(sum, left, right, more);
            }
        }
}

// Copies `count` times 16 bytes for each thread of the block, asynchronously.
__device__ __forceinline__ void copy_pieces(char* to, const uint4* from, int count) {
    for (int i = 0; i < count; ++i)
        copy_sixteen(reinterpret_cast<uint4*>(to) + i * THREADS + threadIdx.x, from + i * THREADS + threadIdx.x, 1);
}

// 64 channels of an image of at most 256 pixels, in registers: a thread has four neighbours of eight channels.
struct Chunk {
    float4 four[8];

    __device__ __forceinline__ static int channel(int k) { return 8 * k + threadIdx.x / 64; }
    __device__ __forceinline__ static int pixel() { return threadIdx.x % 64 * 4; }

    // x: (64, plane).
    __device__ __forceinline__ void load(const float* __restrict__ x, int plane, bool wide) {
        const int left = plane - pixel();
        if (wide && left >= 4) {
#pragma unroll
            for (int k = 0; k < 8; ++k) four[k] = *reinterpret_cast<const float4*>(x + channel(k) * plane + pixel());
        } else {
#pragma unroll
            for (int k = 0; k < 8; ++k) four[k] = load_four(x + channel(k) * plane + pixel(), left, false);
        }
    }

    __device__ __forceinline__ unsigned largest() const {
        unsigned found = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k)
            found = max(max(max(bits_of_size(four[k].x), bits_of_size(four[k].y)),
                max(bits_of_size(four[k].z), bits_of_size(four[k].w))), found);
        return found;
    }

    // As four pieces, scaled; the low halves follow as four more.
    template <int FORMAT>
    __device__ __forceinline__ void store(char* pieces, float by) const {
        const int quad = threadIdx.x % 64;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            uint2 high, low;
            two_numbers<FORMAT>(four[k].x * by, four[k].y * by, high.x, low.x);
            two_numbers<FORMAT>(four[k].z * by, four[k].w * by, high.y, low.y);
            char* to = pieces + quad / 16 * PIECE + place(channel(k), quad % 16 / 2) + quad % 2 * 8;
            *reinterpret_cast<uint2*>(to) = high;
            if constexpr (FORMAT == SPLIT) *reinterpret_cast<uint2*>(to + PIECES * PIECE) = low;
        }
    }

    // Stores signs (8, 256) by channels of eight, and pixels: bit i is 1 if the pixel is above 0 in channel 8 i + row,
    // or is in `always`.
    __device__ __forceinline__ void store_signs_by_pixel(unsigned char* signs, int always) const {
        unsigned bits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i] = always;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            bits[0] |= (four[k].x > 0.0f) << k, bits[1] |= (four[k].y > 0.0f) << k;
            bits[2] |= (four[k].z > 0.0f) << k, bits[3] |= (four[k].w > 0.0f) << k;
        }
        reinterpret_cast<unsigned*>(signs)[threadIdx.x] = bits[0] | bits[1] << 8 | bits[2] << 16 | bits[3] << 24;
    }

    // Stores signs (64, 64), a byte for each channel and four pixels: bit i is 1 if pixel i is above 0, or in `always`.
    __device__ __forceinline__ void store_signs(unsigned char* signs, int always) const {
#pragma unroll
        for (int k = 0; k < 8; ++k)
            signs[channel(k) * 64 + threadIdx.x % 64] = always | (four[k].x > 0.0f) | 2 * (four[k].y > 0.0f) | 4
                * (four[k].z > 0.0f) | 8 * (four[k].w > 0.0f);
    }
};
