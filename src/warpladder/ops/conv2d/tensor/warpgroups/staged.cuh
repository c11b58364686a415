// Sums of warpgroup products, written through shared memory as whole pieces of image rows, with little code.
//
// A loop cannot index registers: code that uses a sum in its register is repeated for each of a thread's 128 sums. So
// `convolve<BF16, 2>` had 154 kB, more than an instruction cache of 128 kB, and took 8 to 24 us for the sums of a tile.
// Now only the copy to shared memory is unrolled, and all else is a loop that reads shared memory. A warp has 16 pixels
// of a square, two rows of 8, and copies 64 outputs of them at a time to its own 4 kB, without waiting for others.
#pragma once
#include "ahead.cuh"
#include "four.cuh"
#include "pooled.cuh"
#include "tensor_panels.cuh"

enum { PLAIN = 0, RELU = 1, POOL = 2 };  // what is done with a sum and its bias

constexpr int STAGED = 64 * 16;  // floats of a warp in shared memory: 64 outputs of 2 x 8 pixels

// Position of a sum in shared memory: two outputs have 32 numbers, a number for each bank, and four pairs of outputs
// have a row of pixels in four different quarters of them. So the lanes of a fragment (four pairs of outputs, 8
// pixels), and lanes that read 16 bytes, access every bank once.
__device__ __forceinline__ int staged_at(int output, int pixel) {
    const int pair = output / 2;
    return pair * 32 + ((output % 2 * 16 + pixel) ^ (pair % 4 * 8));
}

// Copies a lane's share of 64 outputs of a warp's rows of D (wgmma.cuh), from number FIRST of its sums on.
template <int FIRST, int N>
__device__ __forceinline__ void stage(float* staging, const float (&sum)[N]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int which = 0; which < 4; ++which) {
        float* to = staging + staged_at(2 * t + which % 2, which / 2 * 8 + g);
#pragma unroll
        for (int j = 0; j < 8; ++j) to[128 * j] = sum[FIRST + 4 * j + which];  // eight outputs further
    }
}

// Destination of sums. inverse_scale: (o,), of formats with scales; bias: (o,) or null. y: (n, o, spacing h, spacing
// w), of POOL (n, o, h / 2, w / 2). relu_mask: null, or as y: y is 0 where relu_mask is not above 0. argmax: null, or
// as y of POOL. packed: null, or y in bf16, channels last.
struct Out {
    const float *__restrict__ inverse_scale, *__restrict__ bias, *__restrict__ relu_mask;
    float* __restrict__ y;
    unsigned char* __restrict__ argmax;
    unsigned short* __restrict__ packed;
    int n, h, w, o, after, spacing;

    // True if rows of `wide` numbers can be read and written by 16 bytes from every fourth number on.
    __device__ __forceinline__ bool by_four(int wide) const {
        return (reinterpret_cast<unsigned long long>(y) | reinterpret_cast<unsigned long long>(relu_mask)) % 16 == 0
            && wide % 4 == 0;
    }
};

// End of a sum of an output: inverse scale, bias, ReLU.
template <int FORMAT>
struct Finish {
    float by, bias;
    bool fuses_relu;
    __device__ __forceinline__ Finish(const Out& to, int output)
        : by(SCALED<FORMAT> ? to.inverse_scale[output] : 1.0f), bias(to.bias != nullptr ? to.bias[output] : 0.0f),
            fuses_relu(to.after == RELU) {}
    __device__ __forceinline__ float operator()(float value) const {
        value = value * by + bias;
        return fuses_relu ? relu(value) : value;
    }
    __device__ __forceinline__ float4 operator()(float4 v) const {
        return make_float4((*this)(v.x), (*this)(v.y), (*this)(v.z), (*this)(v.w)); }
};

__device__ __forceinline__ float4 staged_four(const float* staging, int output, int pixel) {
    return *reinterpret_cast<const float4*>(staging + staged_at(output, pixel));
}

// Two rows of 8 pixels of an image, from `row` and `column` on, for 64 outputs from `first` on: a lane has four pixels
// of every eighth.
template <int FORMAT>
__device__ __forceinline__ void write_rows(const float* staging, const Out& to, int image, int row, int column,
    int first) {
    const int lane = threadIdx.x % 32, down = lane / 2 % 2, along = lane % 2 * 4, output = first + lane / 4;
    if (row + down >= to.h || column + along >= to.w) return;
    const long long plane = to.h * to.w, at = (static_cast<long long>(image) * to.o + output) * plane + (row + down)
        * to.w + column + along;
    float4 relu_mask[8];
    if (to.relu_mask != nullptr) {
        const float* from = to.relu_mask + at;
#pragma unroll
        // all loads in flight together
        for (int q = 0; q < 8; ++q, from += 8 * plane) relu_mask[q] = *reinterpret_cast<const float4*>(from);
    }
    float* y = to.y + at;
#pragma unroll
    for (int q = 0; q < 8; ++q, y += 8 * plane) {
        float4 four = Finish<FORMAT>(to, output + 8 * q)(staged_four(staging, lane / 4 + 8 * q, 8 * down + along));
        if (to.relu_mask != nullptr) four = relu_gradient(four, relu_mask[q]);
        *reinterpret_cast<float4*>(y) = four;
    }
}

// Prefetches the numbers of `relu_mask` for write_rows: 64 outputs of a warp's two rows, hidden by the products.
__device__ __forceinline__ void fetch_below(const Out& to, int image, int row, int column, int first) {
    const int lane = threadIdx.x % 32, line = row + lane % 2;
    if (image >= to.n || first >= to.o || line >= to.h || column >= to.w) return;
    const long long plane = to.h * to.w;
    const float* from = to.relu_mask + (static_cast<long long>(image) * to.o + first + lane / 2) * plane + line * to.w
        + column;
#pragma unroll
    for (int q = 0; q < 4; ++q, from += 16 * plane) fetch_ahead(from);
}

// As write_rows, pixel by pixel: for rows that 16 bytes do not divide, and for an upsampled image, of which these are
// every second pixel of every second row from the class's first pixel on. A lane has a pixel of every second output.
template <int FORMAT>
__device__ __forceinline__ void write_pixels(const float* staging, const Out& to, int image, int row, int column,
    int of_class, int first) {
    const int lane = threadIdx.x % 32, output = first + lane / 16, line = row + lane / 8 % 2, along = column + lane % 8;
    if (line >= to.h || along >= to.w) return;
    const long long plane = to.spacing * to.spacing * to.h * to.w;
    long long at = (static_cast<long long>(image) * to.o + output) * plane + (line * to.spacing + of_class / 2)
        * (to.w * to.spacing) + along * to.spacing + of_class % 2;
    if (to.relu_mask == nullptr) {  // of which nothing is read, so that no read has to wait for a write
#pragma unroll 8
        for (int pair = 0; pair < 32; ++pair, at += 2 * plane)
            to.y[at] = Finish<FORMAT>(to, output + 2 * pair)(staging[pair * 32 + (lane ^ (pair % 4 * 8))]);
        return;
    }
#pragma unroll 4
    for (int pair = 0; pair < 32; ++pair, at += 2 * plane)
        to.y[at] = relu_gradient(Finish<FORMAT>(to, output + 2 * pair)(staging[pair * 32 + (lane ^ (pair % 4 * 8))]),
            to.relu_mask[at]);
}

// Writes the 2 x 8 pixels of a warp in bf16, channels last, for the next layer: a lane has two outputs.
template <int FORMAT>
__device__ __forceinline__ void write_packed(const float* staging, const Out& to, int image, int row, int column,
    int of_class, int first) {
    const int lane = threadIdx.x % 32, output = first + 2 * lane;
    const Finish<FORMAT> finish(to, output), next(to, output + 1);
    unsigned* packed = reinterpret_cast<unsigned*>(to.packed) + output / 2;
#pragma unroll 1
    for (int pixel = 0; pixel < 16; pixel += 4) {
        const int line = row + pixel / 8;
        const float4 left = finish(staged_four(staging, 2 * lane, pixel)),
            right = next(staged_four(staging, 2 * lane + 1, pixel));
        const unsigned both[4] = {two_bf16(left.x, right.x), two_bf16(left.y, right.y), two_bf16(left.z, right.z),
            two_bf16(left.w, right.w)};
        const long long number = static_cast<long long>(image * to.spacing * to.h + line * to.spacing + of_class / 2)
            * to.w * to.spacing + of_class % 2;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int along = column + pixel % 8 + e;
            if (line < to.h && along < to.w) packed[(number + along * to.spacing) * to.o / 2] = both[e];
        }
    }
}

// Writes a warp's 2 x 8 pixels through a 2 x 2 pool: four windows of an output; each lane has a separate output.
template <int FORMAT>
__device__ __forceinline__ void write_pooled(const float* staging, const Out& to, int image, int row, int column,
    int first) {
    const int lane = threadIdx.x % 32, high = to.h / 2, across = to.w / 2, pixels = high * across,
        pixel = row / 2 * across + column / 2;
    const int count = row / 2 < high ? across - column / 2 : 0;
    const bool wide = to.by_four(across) && reinterpret_cast<unsigned long long>(to.argmax) % 4 == 0;
#pragma unroll 1
    for (int own = lane; own < 64; own += 32) {
        const int output = first + own;
        const Finish<FORMAT> finish(to, output);
        const long long at = (static_cast<long long>(image) * to.o + output) * pixels + pixel;
        float best[4];
        unsigned place[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float4 above = finish(staged_four(staging, own, 4 * half)),
                lower = finish(staged_four(staging, own, 8 + 4 * half));
            const float fours[2][4] = {{above.x, above.y, lower.x, lower.y},
                {above.z, above.w, lower.z, lower.w}};
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const Best found = best_of(fours[i]);
                best[2 * half + i] = relu(found.value), place[2 * half + i] = place_of(found);
            }
        }
        store_four(to.y + at, make_float4(best[0], best[1], best[2], best[3]), count, wide);
        if (to.argmax != nullptr) {
            if (wide && count >= 4) {
                *reinterpret_cast<unsigned*>(to.argmax + at) = place[0] | place[1] << 8 | place[2] << 16
                    | place[3] << 24;
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (e < count) to.argmax[at + e] = static_cast<unsigned char>(place[e]);
            }
        }
        if (FORMAT == BF16 && to.packed != nullptr) {
            unsigned short* packed = to.packed + (static_cast<long long>(image) * pixels + pixel) * to.o + output;
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (e < count) packed[e * to.o] = static_cast<unsigned short>(two_bf16(best[e], 0.0f));
        }
    }
}

// Writes all that a warp has staged: 64 outputs from `first` on, of two rows of 8 pixels from `row` and `column` on.
template <int FORMAT>
__device__ __forceinline__ void write_staged(const float* staging, const Out& to, int image, int row, int column,
    int of_class, int first) {
    if (image >= to.n || first >= to.o) return;  // outputs are a multiple of 64
    if (to.after == POOL) return write_pooled<FORMAT>(staging, to, image, row, column, first);
    if (to.spacing == 1 && to.by_four(to.w)) write_rows<FORMAT>(staging, to, image, row, column, first);
    else write_pixels<FORMAT>(staging, to, image, row, column, of_class, first);
    if (FORMAT == BF16 && to.packed != nullptr) write_packed<FORMAT>(staging, to, image, row, column, of_class, first);
}
