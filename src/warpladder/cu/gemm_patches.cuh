// What a convolution's pixels see, as a panel for gemm.cuh: rows are (input channel, tap), columns are pixels. Nothing is
// ever unfolded in memory: each number is copied from the image to its place in shared memory, zeros for the padding.
#pragma once
#include "gemm_panels.cuh"

// One axis of a convolution that reads `taps` neighbours for each output.
//
// Output p (of `count`) stands at begin + p * step in the image that is written, and reads first + p * stride + t, t = 0 ... taps - 1,
// in the image that is read.
struct Axis {
    int taps, stride, first;  // reading
    int count, step, begin;   // writing
};

// The axis of a convolution: `size` outputs, kernel k.
__device__ inline Axis forward_axis(int size, int k, int stride, int padding) { return {k, stride, -padding, size, 1, 0}; }

// The axis of a convolution's transpose, which reads the small image (its output) and writes the large one (its input, `size` long).
// Of those pixels only every stride-th meets the same taps, so there are `stride` classes, and each is a convolution with stride 1:
// the pixels h with (h + padding) mod stride = phase read (h + padding - phase) / stride - u for taps phase + stride u.
// With t = taps - 1 - u the taps ascend.
__device__ inline Axis transposed_axis(int size, int k, int stride, int padding, int phase) {
    const int taps = phase < k ? (k - phase + stride - 1) / stride : 0;
    const int begin = (phase - padding % stride + stride) % stride;
    const int count = size > begin ? (size - begin + stride - 1) / stride : 0;
    return {taps, 1, (begin + padding - phase) / stride - (taps - 1), count, stride, begin};
}

// A pixel of a batch of images.
struct Place2d {
    int image, row, column;
};

// Pixel number x, image by image and row by row; or, with windows of 2 x 2, four after each other for each window.
template <bool WINDOWS>
__device__ __forceinline__ Place2d place2d(int x, int height, int width) {
    const int number = WINDOWS ? x / 4 : x;
    const int line = number / width, column = number % width;
    const int image = line / height, row = line % height;
    if (WINDOWS) return {image, 2 * row + x % 4 / 2, 2 * column + x % 2};
    return {image, row, column};
}

// Images (n, channels, height, width) and how their pixels are read.
struct Images {
    const float* data;
    int channels, height, width;
    Axis down, along;
};

// Rows ordered (channel / BK, tap, channel % BK): a step of BK rows is one tap of BK channels, and whether a pixel has it is
// asked once. Channels beyond the last one are zeros.
template <class T, bool WINDOWS>
struct ChannelPatches {
    static constexpr int ROWS = T::THREADS / T::BN, PITCH = T::PITCH_B;
    static_assert(T::THREADS % T::BN == 0 && T::BK % ROWS == 0, "every thread copies for one pixel");
    const float* source;
    int row, column, height, width;  // of the pixel's first tap; beyond the last pixel the last one is copied, and its sums are not stored
    int plane, taps_down, taps_along;
    int down, along;  // the next tap
    int offset;       // and where it is, from source
    int left;         // channels from this thread's first one to the end
    int target;

    // The panel's columns begin with pixel x, of `pixels`; its rows with step `step`.
    __device__ __forceinline__ ChannelPatches(const Images& in, int pixel, int pixels, int high, int wide, int step) {
        const int channel = threadIdx.x / T::BN;
        const Place2d at = place2d<WINDOWS>(min(pixel + static_cast<int>(threadIdx.x) % T::BN, pixels - 1), high, wide);
        height = in.height, width = in.width, plane = height * width;
        taps_down = in.down.taps, taps_along = in.along.taps;
        row = in.down.first + at.row * in.down.stride;
        column = in.along.first + at.column * in.along.stride;
        const int taps = max(1, taps_down * taps_along);  // a class of a transpose may have none
        const int block = step / taps * T::BK, tap = step % taps;
        source = in.data + (static_cast<long long>(at.image) * in.channels + channel) * plane + (row * width + column);
        down = tap / max(1, taps_along), along = tap % max(1, taps_along);
        offset = block * plane + down * width + along;
        left = in.channels - channel - block;
        target = channel * PITCH + threadIdx.x % T::BN;
    }
    __device__ __forceinline__ void fetch(float* shared) {
        const bool inside = static_cast<unsigned>(row + down) < static_cast<unsigned>(height) &&
                            static_cast<unsigned>(column + along) < static_cast<unsigned>(width);
        const float* from = source + offset;
#pragma unroll
        for (int r = 0; r < T::BK; r += ROWS) {
            copy_float(shared + target + r * PITCH, from, inside && r < left);
            from += ROWS * plane;
        }
        ++along, ++offset;
        if (along == taps_along) {
            along = 0, ++down, offset += width - taps_along;
            if (down == taps_down) down = 0, offset += T::BK * plane - taps_down * width, left -= T::BK;
        }
    }
};

// Where a row of a panel is: from the pixel's first tap, and the tap, down in the upper half and along in the lower.
struct Tap {
    int offset, where;
};

// Rows ordered (channel, tap) with nothing between, for few channels: a table in shared memory says where each row is.
template <class T, bool WINDOWS>
struct TapPatches {
    static constexpr int ROWS = T::THREADS / T::BN, PITCH = T::PITCH_B;
    const float* source;
    const Tap* table;
    int row, column, height, width, last, target;

    // table: in shared memory, room for `rows`, which is filled here.
    __device__ __forceinline__ TapPatches(const Images& in, int pixel, int pixels, int high, int wide, int step, Tap* taps, int rows) {
        const Place2d at = place2d<WINDOWS>(min(pixel + static_cast<int>(threadIdx.x) % T::BN, pixels - 1), high, wide);
        height = in.height, width = in.width;
        row = in.down.first + at.row * in.down.stride;
        column = in.along.first + at.column * in.along.stride;
        source = in.data + static_cast<long long>(at.image) * in.channels * height * width + (row * width + column);
        const int each = in.down.taps * in.along.taps;
        for (int i = threadIdx.x; i < rows; i += T::THREADS) {
            const int down = i % each / in.along.taps, along = i % each % in.along.taps;
            taps[i] = {i / each * height * width + down * width + along, down << 16 | along};
        }
        __syncthreads();
        const int first = step * T::BK + threadIdx.x / T::BN;
        table = taps + first;
        last = rows - first;
        target = threadIdx.x / T::BN * PITCH + threadIdx.x % T::BN;
    }
    __device__ __forceinline__ void fetch(float* shared) {
#pragma unroll
        for (int r = 0; r < T::BK; r += ROWS) {
            const Tap tap = r < last ? table[r] : Tap{0, 0};
            const bool inside = static_cast<unsigned>(row + (tap.where >> 16)) < static_cast<unsigned>(height) &&
                                static_cast<unsigned>(column + (tap.where & 0xffff)) < static_cast<unsigned>(width);
            copy_float(shared + target + r * PITCH, source + tap.offset, inside && r < last);
        }
        table += T::BK;
        last -= T::BK;
    }
};
