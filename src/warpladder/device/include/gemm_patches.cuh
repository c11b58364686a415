// Pixels that a convolution reads, as a panel for gemm.cuh: rows are (input channel, tap), columns are pixels. Nothing
// is unfolded in memory: each number is copied from the image to its position in shared memory, zeros for the padding.
#pragma once
#include "gemm_panels.cuh"

// Direction of a convolution. TRANSPOSED and MERGED read the small image and write the large one: by classes of pixels
// that read the same taps, or, for few outputs, all classes at once, with zeros for taps that a class does not read.
enum { FORWARD = 0, TRANSPOSED = 1, MERGED = 2 };

// Axis of a convolution that reads `taps` neighbours for each output.
//
// Output p is pixel begin + p * step of the written image, and reads first + p * stride + t, t < taps, of the other.
struct Axis {
    int taps, stride, first;  // reading
    int count, step, begin;   // writing
};

// The axis of a convolution: `size` outputs, kernel k.
__device__ inline Axis forward_axis(int size, int k, int stride, int padding) {
    return {k, stride, -padding, size, 1, 0}; }

// The axis of a transposed convolution, which reads the small image (its output) and writes the large one (its input,
// `size` long). Only every stride-th pixel reads the same taps: there are `stride` classes, each a convolution with
// stride 1. Pixels h with (h + padding) mod stride = phase read (h + padding - phase) / stride - u for taps phase +
// stride u. With t = taps - 1 - u the taps ascend.
__device__ inline Axis transposed_axis(int size, int k, int stride, int padding, int phase) {
    const int taps = phase < k ? (k - phase + stride - 1) / stride : 0;
    const int begin = (phase - padding % stride + stride) % stride;
    const int count = size > begin ? (size - begin + stride - 1) / stride : 0;
    return {taps, 1, (begin + padding - phase) / stride - (taps - 1), count, stride, begin};
}

// All classes of the transpose at once: pixel p * stride + begin of each class, for the same p, reads among these.
__device__ inline Axis merged_axis(int size, int k, int stride, int padding) {
    int first = 1 << 30, last = -(1 << 30);
    for (int phase = 0; phase < stride; ++phase) {
        const Axis axis = transposed_axis(size, k, stride, padding, phase);
        if (axis.taps == 0) continue;
        first = min(first, axis.first), last = max(last, axis.first + axis.taps);
    }
    return {last - first, 1, first, (size + stride - 1) / stride, stride, 0};
}

// A pixel of a batch of images.
struct Place2d {
    int image, row, column;
};

// Pixel number x, by image and row; or, with windows of 2 x 2, the four pixels of one window after another.
template <bool WINDOWS>
__device__ __forceinline__ Place2d place2d(int x, int height, int width) {
    const int number = WINDOWS ? x / 4 : x;
    const int line = number / width, column = number % width;
    const int image = line / height, row = line % height;
    if (WINDOWS) return {image, 2 * row + x % 4 / 2, 2 * column + x % 2};
    return {image, row, column};
}

// Images (n, channels, height, width), and the axes of their pixels.
struct Images {
    const float* data;
    int channels, height, width;
    Axis down, along;
};

// Pixels that a thread copies: numbers threadIdx.x, threadIdx.x + THREADS, ... of the tile, or a shared one.
template <class T, bool WINDOWS>
struct PatchPixels {
    static constexpr int COUNT = T::BN > T::THREADS ? T::BN / T::THREADS : 1;
    // of the panel that all threads copy together
    static constexpr int ROWS = T::BN > T::THREADS ? 1 : T::THREADS / T::BN;
    static_assert((T::BN % T::THREADS == 0 || T::THREADS % T::BN == 0) && T::BK % ROWS == 0,
        "every thread keeps to its pixels");
    const float* source[COUNT];     // of the first tap, which may lie outside of the image
    // of the first tap; beyond the last pixel that one is copied again, and its sums are not stored
    int row[COUNT], column[COUNT];
    int height, width;

    // pixel: the first of the tile; pixels: of all images; high, wide: of an image.
    __device__ __forceinline__ PatchPixels(const Images& in, int pixel, int pixels, int high, int wide)
        : height(in.height), width(in.width) {
#pragma unroll
        for (int p = 0; p < COUNT; ++p) {
            const int number = pixel + static_cast<int>(threadIdx.x) % T::BN + p * T::THREADS;
            const Place2d at = place2d<WINDOWS>(min(number, pixels - 1), high, wide);
            row[p] = in.down.first + at.row * in.down.stride;
            column[p] = in.along.first + at.column * in.along.stride;
            source[p] = in.data + static_cast<long long>(at.image) * in.channels * height * width
                + (row[p] * width + column[p]);
        }
    }
    __device__ __forceinline__ bool inside(int p, int down, int along) const {
        return static_cast<unsigned>(row[p] + down) < static_cast<unsigned>(height) &&
               static_cast<unsigned>(column[p] + along) < static_cast<unsigned>(width);
    }
    // Place of this thread's first number in a panel.
    __device__ __forceinline__ static int target() { return threadIdx.x / T::BN * T::PITCH_B + threadIdx.x % T::BN; }
};

// Rows ordered (channel / BK, tap, channel % BK): a step is one tap of BK channels, tested once, with zeros at the end.
template <class T, bool WINDOWS>
struct ChannelPatches {
    using Pixels = PatchPixels<T, WINDOWS>;
    Pixels pixels;
    int plane, taps_down, taps_along;
    int down, along;  // the next tap
    int offset;       // and where it is, from a pixel's first tap
    int left;         // channels from the step's first one to the end

    // Begins with step `step` of the rows.
    __device__ __forceinline__ ChannelPatches(const Images& in, const Pixels& pixels_, int step) : pixels(pixels_) {
        plane = in.height * in.width, taps_down = in.down.taps, taps_along = in.along.taps;
        const int taps = max(1, taps_down * taps_along);  // a class of a transpose may have none
        const int block = step / taps * T::BK, tap = step % taps;
        down = tap / max(1, taps_along), along = tap % max(1, taps_along);
        offset = (block + row()) * plane + down * in.width + along;
        left = in.channels - block;
    }
    __device__ __forceinline__ static int row() { return threadIdx.x / T::BN; }  // of the panel, this thread's first

    template <bool WHOLE>
    __device__ __forceinline__ void copy(float* shared) const {
#pragma unroll
        for (int p = 0; p < Pixels::COUNT; ++p) {
            const bool inside = pixels.inside(p, down, along);
            const float* from = pixels.source[p] + offset;
#pragma unroll
            for (int r = 0; r < T::BK; r += Pixels::ROWS) {
                copy_float(shared + Pixels::target() + r * T::PITCH_B + p * T::THREADS, from, inside
                    && (WHOLE || row() + r < left));
                from += Pixels::ROWS * plane;
            }
        }
    }
    __device__ __forceinline__ void fetch(float* shared) {
        if (left >= T::BK) copy<true>(shared);
        else copy<false>(shared);
        ++along, ++offset;
        if (along == taps_along) {
            along = 0, ++down, offset += pixels.width - taps_along;
            if (down == taps_down) down = 0, offset += T::BK * plane - taps_down * pixels.width, left -= T::BK;
        }
    }
};

// A row of a panel: its offset from a pixel's first tap, and the tap: in `where` down is the upper half.
struct Tap {
    int offset, where;
};

// Rows ordered (channel, tap) without padding, for few channels: a table in shared memory has each row.
template <class T, bool WINDOWS>
struct TapPatches {
    using Pixels = PatchPixels<T, WINDOWS>;
    Pixels pixels;
    const Tap* table;
    int left;

    // taps: shared memory for `rows` rows, which is filled here.
    __device__ __forceinline__ TapPatches(const Images& in, const Pixels& pixels_, int step, Tap* taps, int rows)
        : pixels(pixels_) {
        const int each = in.down.taps * in.along.taps;
        for (int i = threadIdx.x; i < rows; i += T::THREADS) {
            const int down = i % each / in.along.taps, along = i % each % in.along.taps;
            taps[i] = {i / each * in.height * in.width + down * in.width + along, down << 16 | along};
        }
        __syncthreads();
        const int first = step * T::BK + threadIdx.x / T::BN;
        table = taps + first;
        left = rows - first;
    }
    __device__ __forceinline__ void fetch(float* shared) {
#pragma unroll
        for (int r = 0; r < T::BK; r += Pixels::ROWS) {
            const Tap tap = r < left ? table[r] : Tap{0, 0};
#pragma unroll
            for (int p = 0; p < Pixels::COUNT; ++p) {
                const bool inside = r < left && pixels.inside(p, tap.where >> 16, tap.where & 0xffff);
                copy_float(shared + Pixels::target() + r * T::PITCH_B + p * T::THREADS, pixels.source[p] + tap.offset,
                    inside);
            }
        }
        table += T::BK;
        left -= T::BK;
    }
};
