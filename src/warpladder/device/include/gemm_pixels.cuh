// Both panels of a convolution's weight gradient for gemm.cuh: sums run over the pixels of all images.
//
//   A: rows are the channels of dy. B: columns are (tap, channel of x), the channels rounded up to a multiple of 4.
#pragma once
#include "gemm_patches.cuh"

// Columns of a tap: channels in groups of four. An incomplete last group begins earlier and repeats channels.
__device__ constexpr int padded_channels(int channels) { return (channels + 3) / 4 * 4; }

// Channel of such a column; a column beyond the last channel is zero.
__device__ constexpr int channel_of(int column, int channels) {
    const int begin = column / 4 * 4;
    return (channels < 4 || begin < channels - 4 ? begin : channels - 4) + column % 4;
}

// Shapes of x (n, channels, height, width) and dy (n, outputs, high, wide), and the window between them.
struct Window {
    int channels, height, width, outputs, high, wide, k, stride, padding;
};

// As AlongPanel, a warp copies 8 neighbouring pixels of 4 rows at a time; a thread follows every eighth pixel. For B it
// copies groups of four channels of one tap, which is tested once. FEW: less than four channels.
template <class T, bool FEW>
struct PixelPanels {
    static constexpr int ROWS = T::THREADS / 8;
    static constexpr int GROUPS = (T::BN / 4 + ROWS - 1) / ROWS;  // a thread's
    static_assert(ROWS % 4 == 0, "a thread's groups of columns begin in the same bank");
    static_assert(GROUPS == 1 || T::BN / 4 % ROWS == 0, "all threads have as many groups");
    Window size;
    const float* dy;  // this thread's pixel of its first channel
    const float* x;   // what a tap without padding reads for it, of channel 0
    int row, column;  // of that
    int left;         // pixels from this one to the end
    int outputs;      // channels of dy from this thread's first one to the end
    int down[GROUPS], along[GROUPS], offset[GROUPS];

    __device__ __forceinline__ static int lane() { return threadIdx.x % 8; }
    __device__ __forceinline__ static int number() { return threadIdx.x / 8; }
    // Channel of a group that is copied as number i: rows of threads begin differently, to write 32 banks.
    __device__ __forceinline__ static int turn(int i) { return i ^ (number() % 4); }

    // The panels begin with channel `output` of dy, column `first`, and pixel `pixel` of `end`.
    __device__ __forceinline__ PixelPanels(
        const Window& window, const float* images, const float* gradients, int output, int first, int pixel, int end
    ) : size(window) {
        const int plane = size.height * size.width, padded = padded_channels(size.channels);
        const Place2d at = place2d<false>(pixel + lane(), size.high, size.wide);
        row = at.row * size.stride, column = at.column * size.stride;
        left = end - pixel - lane();
        outputs = size.outputs - output - number();
        dy = gradients + (static_cast<long long>(at.image) * size.outputs + output + number()) * (size.high * size.wide)
            + (at.row * size.wide + at.column);
        x = images + static_cast<long long>(at.image) * size.channels * plane + (row * size.width + column);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            // beyond the last one that one again
            const int group = min(first + (number() + g * ROWS) * 4, size.k * size.k * padded - 4);
            const int tap = group / padded, begin = max(0, min(group % padded, size.channels - 4));
            down[g] = tap / size.k - size.padding, along[g] = tap % size.k - size.padding;
            offset[g] = begin * plane + down[g] * size.width + along[g];
        }
    }
    __device__ __forceinline__ void fetch(float* a, float* b) {
        const int plane = size.height * size.width, dy_plane = size.high * size.wide;
        a += lane() * T::PITCH_A + number();
        b += lane() * T::PITCH_B + number() * 4;
#pragma unroll
        for (int k = 0; k < T::BK; k += 8) {
            const bool pixel = left > 0;
            if (ROWS <= T::BM || number() < T::BM) {  // else there are more threads than numbers
#pragma unroll
                for (int r = 0; r < T::BM; r += ROWS)
                    if (T::BM % ROWS == 0 || r + number() < T::BM)
                        copy_float(a + k * T::PITCH_A + r, dy + r * dy_plane, pixel && r < outputs);
            }
            if (ROWS <= T::BN / 4 || number() < T::BN / 4) {
#pragma unroll
                for (int g = 0; g < GROUPS; ++g) {
                    const bool inside = pixel
                        && static_cast<unsigned>(row + down[g]) < static_cast<unsigned>(size.height) &&
                                        static_cast<unsigned>(column + along[g]) < static_cast<unsigned>(size.width);
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        copy_float(
                            b + k * T::PITCH_B + g * ROWS * 4 + turn(i), x + offset[g] + turn(i) * plane,
                            inside && (!FEW || turn(i) < size.channels)
                        );
                }
            }
            advance();
        }
    }
    // Advances by eight pixels: in the row, the following rows, the following images.
    __device__ __forceinline__ void advance() {
        left -= 8, dy += 8, x += 8 * size.stride, column += 8 * size.stride;
        while (column >= size.wide * size.stride) {
            column -= size.wide * size.stride, row += size.stride, x += (size.width - size.wide) * size.stride;
            if (row >= size.high * size.stride) {
                row = 0;
                dy += (size.outputs - 1) * (size.high * size.wide);
                x += (size.channels * size.height - size.high * size.stride) * size.width;
            }
        }
    }
};
