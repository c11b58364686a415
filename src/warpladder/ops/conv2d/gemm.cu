// Convolutions as matrix products without stored patches: forward, and transposed (the input gradient, and a
// convolution of an upsampled image), with bias, ReLU and 2 x 2 pooling at the end.
// Launched by `GemmConvolution` of products.py.
//
//   y[o, pixel] = sum over (channel, tap) of w[(channel, tap), o] x[(channel, tap), pixel]
//
// x: (n, c, h, w), the input image. y: (n, o, oh, ow), the output image. Weights are packed by pack.cu:
// (classes, rows, pitch), rows in the order of the panel, pitch = o rounded up to a multiple of 4.
#include "four.cuh"
#include "gemm_patches.cuh"
#include "nan.cuh"
#include "pooled.cuh"
#include "turns.cuh"

// Operation on a sum. The last two leave it to add_parts, for split sums, POOLED_PARTS in the order of windows.
enum { PLAIN = 0, RELU = 1, POOL = 2, PARTS = 3, POOLED_PARTS = 4 };

// Writes a block's sums at the pixels of `down` and `along` in y. relu_mask: null, or of y's shape: y is 0 where
// relu_mask is not above 0.
template <class T>
__device__ __forceinline__ void store_pixels(
    float (&sum)[T::TM][T::TN], const Place<T>& at, float* y, const float* bias, const float* relu_mask, int o0, int o,
    int pixel, int pixels, int oh, int ow, const Axis& down, const Axis& along, bool has_relu
) {
    const int plane = oh * ow;
    const bool wide = plane % 4 == 0 && down.step == 1 && along.step == 1;  // four neighbours are four neighbours in y
#pragma unroll
    for (int j = 0; j < T::TN / 4; ++j) {
        long long where[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int x = pixel + at.column(j) + e;
            const Place2d to = place2d<false>(x, down.count, along.count);
            where[e] = x < pixels ? static_cast<long long>(to.image) * o * plane
                + (down.begin + to.row * down.step) * ow + (along.begin + to.column * along.step) : -1;
        }
#pragma unroll
        for (int i = 0; i < T::TM; ++i) {
            const int channel = o0 + at.row(i / 4) + i % 4;
            if (channel >= o) continue;
            const float add = bias != nullptr ? bias[channel] : 0.0f;
            float out[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                out[e] = sum[i][4 * j + e] + add;
                if (has_relu) out[e] = relu(out[e]);
            }
            const long long first = static_cast<long long>(channel) * plane;
            if (wide) {
                float4 four = make_float4(out[0], out[1], out[2], out[3]);
                if (where[0] < 0) continue;
                if (relu_mask != nullptr)
                    four = relu_gradient(four, *reinterpret_cast<const float4*>(relu_mask + first + where[0]));
                *reinterpret_cast<float4*>(y + first + where[0]) = four;
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (where[e] >= 0)
                        y[first + where[e]] = relu_mask != nullptr ? relu_gradient(out[e], relu_mask[first + where[e]])
                        : out[e];
            }
        }
    }
}

// Writes a block's sums after ReLU and a pool of 2 x 2 (pooled.cuh): four neighbouring sums are a window. argmax: of
// y's shape.
template <class T>
__device__ __forceinline__ void store_windows(float (&sum)[T::TM][T::TN], const Place<T>& at, float* y,
    unsigned char* argmax, const float* bias, int o0, int o, int pixel, int pixels, int plane) {
#pragma unroll
    for (int j = 0; j < T::TN / 4; ++j) {
        const int x = pixel + at.column(j);
        if (x >= pixels) continue;
        const int window = x / 4;
        const long long where = static_cast<long long>(window / plane) * o * plane + window % plane;
#pragma unroll
        for (int i = 0; i < T::TM; ++i) {
            const int channel = o0 + at.row(i / 4) + i % 4;
            if (channel >= o) continue;
            Best best = best_of(&sum[i][4 * j]);
            best.value += bias[channel];
            store_best(best, y, argmax, where + static_cast<long long>(channel) * plane);
        }
    }
}

// Writes a block's sums of all classes at once: row phase * o + channel; `pixel` counts pixels of the small image.
template <class T>
__device__ __forceinline__ void store_merged(
    float (&sum)[T::TM][T::TN], const Place<T>& at, float* y, const float* bias, const float* relu_mask, int row0,
    int o, int pixel, int pixels, int oh, int ow, int k, int stride, int padding, const Axis& down, const Axis& along,
    bool has_relu
) {
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
        const int row = row0 + at.row(i / 4) + i % 4, phase = row / o, channel = row % o;
        if (phase >= stride * stride) continue;
        const int begin_down = transposed_axis(oh, k, stride, padding, phase / stride).begin;
        const int begin_along = transposed_axis(ow, k, stride, padding, phase % stride).begin;
        const float add = bias != nullptr ? bias[channel] : 0.0f;
#pragma unroll
        for (int j = 0; j < T::TN; ++j) {
            const int x = pixel + at.column(j / 4) + j % 4;
            const Place2d to = place2d<false>(x, down.count, along.count);
            const int line = begin_down + to.row * stride, column = begin_along + to.column * stride;
            if (x >= pixels || line >= oh || column >= ow) continue;
            const long long target = ((static_cast<long long>(to.image) * o + channel) * oh + line) * ow + column;
            const float out = has_relu ? relu(sum[i][j] + add) : sum[i][j] + add;
            y[target] = relu_mask != nullptr ? relu_gradient(out, relu_mask[target]) : out;
        }
    }
}

// Unchanged sums for add_parts: part (rows, pitch), pixels as in the product. Those beyond the last are not read.
template <class T>
__device__ __forceinline__ void store_parts(float (&sum)[T::TM][T::TN], const Place<T>& at, float* part, int row0,
    int rows, int pixel, int pitch) {
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
        const int row = row0 + at.row(i / 4) + i % 4;
        if (row >= rows) continue;
#pragma unroll
        for (int j = 0; j < T::TN / 4; ++j) {
            const int x = pixel + at.column(j);
            if (x < pitch)
                *reinterpret_cast<float4*>(part + static_cast<long long>(row) * pitch + x) =
                    make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]);
        }
    }
}

// DIRECTION: as in gemm_patches.cuh; k, stride and padding are of the convolution from the large image to the small
// one. FEW: rows are ordered for few channels. AFTER: the operation on a sum; with POOL, y and argmax are (n, o, oh /
// 2, ow / 2). x counts tiles of channels first, then classes, then tiles of pixels; y parts of `depth` rows. With PARTS
// y is (parts, classes, outputs, part_pitch), outputs times phases with MERGED.
template <int BM, int BN, int BK, int TM, int TN, int STAGES, int DIRECTION, bool FEW, int AFTER>
__global__ void __launch_bounds__(Tile<BM, BN, BK, TM, TN, STAGES>::THREADS, Tile<BM, BN, BK, TM, TN, STAGES>::BLOCKS)
convolve(
    const float* __restrict__ x, const float* __restrict__ packed, const float* __restrict__ bias,
    const float* __restrict__ relu_mask, float* __restrict__ y, unsigned char* __restrict__ argmax, int n, int c, int h,
    int w, int o, int oh, int ow, int k, int stride, int padding, int class_size, int depth, int part_pitch
) {
    using T = Tile<BM, BN, BK, TM, TN, STAGES>;
    extern __shared__ float4 shared4[];
    float* shared = reinterpret_cast<float*>(shared4);
    const int outputs = DIRECTION == MERGED ? stride * stride * o : o;
    const int tiles = (outputs + BM - 1) / BM, classes = DIRECTION == TRANSPOSED ? stride * stride : 1;
    const int o0 = blockIdx.x % tiles * BM;
    const int phase = blockIdx.x / tiles % classes;
    Axis down = forward_axis(oh, k, stride, padding), along = forward_axis(ow, k, stride, padding);
    if (DIRECTION == TRANSPOSED) {
        down = transposed_axis(oh, k, stride, padding, phase / stride);
        along = transposed_axis(ow, k, stride, padding, phase % stride);
    }
    if (DIRECTION == MERGED) down = merged_axis(oh, k, stride, padding), along = merged_axis(ow, k, stride, padding);
    constexpr bool WINDOWS = AFTER == POOL || AFTER == POOLED_PARTS;
    const int high = WINDOWS ? down.count / 2 : down.count, wide = WINDOWS ? along.count / 2 : along.count;
    const int pixel = blockIdx.x / tiles / classes * BN, pixels = n * high * wide * (WINDOWS ? 4 : 1);
    if (pixel >= pixels) return;

    const int taps = down.taps * along.taps;
    const int rows = FEW ? c * taps : (c + BK - 1) / BK * BK * taps;
    const int first = blockIdx.y * depth, last = min(rows, first + depth);
    const int pitch = (outputs + 3) / 4 * 4;
    using A = AcrossPanel<T, BM, 4>;
    const A a(packed + static_cast<long long>(phase) * class_size, pitch, first, last, o0, pitch);
    const Images images{x, c, h, w, down, along};
    const PatchPixels<T, WINDOWS> where(images, pixel, pixels, high, wide);
    const Place<T> at;
    float sum[TM][TN];
    const int steps = max(0, (last - first + BK - 1) / BK);
    if constexpr (FEW) {
        using B = TapPatches<T, WINDOWS>;
        Panels<A, B> source{a, B(images, where, first / BK, reinterpret_cast<Tap*>(shared + T::SHARED), rows)};
        multiply<T>(sum, source, steps, shared, at);
    } else {
        using B = ChannelPatches<T, WINDOWS>;
        Panels<A, B> source{a, B(images, where, first / BK)};
        multiply<T>(sum, source, steps, shared, at);
    }
    if constexpr (AFTER >= PARTS)
        store_parts<T>(sum, at, y + (static_cast<long long>(blockIdx.y) * classes + phase) * outputs * part_pitch, o0,
            outputs, pixel, part_pitch);
    else if constexpr (AFTER == POOL)
        store_windows<T>(sum, at, y, argmax, bias, o0, o, pixel, pixels, high * wide);
    else if constexpr (DIRECTION == MERGED)
        store_merged<T>(sum, at, y, bias, relu_mask, o0, o, pixel, pixels, oh, ow, k, stride, padding, down, along,
            AFTER == RELU);
    else store_pixels<T>(sum, at, y, bias, relu_mask, o0, o, pixel, pixels, oh, ow, down, along, AFTER == RELU);
}

constexpr int ADDING = 64, TURNS = 16;  // fours of a block, and threads for each at most

// y from the partials of `convolve` (parts, classes, outputs, pitch): added in a fixed order, + bias (o) unless null,
// then `after`; 0 where relu_mask, unless null, is not above 0. Other arguments as of convolve. A block has ADDING
// times four neighbouring pixels and blockDim.y threads for each, which take turns at the parts.
extern "C" __global__ void __launch_bounds__(ADDING * TURNS) add_parts(
    const float4* __restrict__ part, const float* __restrict__ bias, const float* __restrict__ relu_mask,
    float* __restrict__ y, unsigned char* __restrict__ argmax, int parts, int pitch, int n, int o, int oh, int ow,
    int k, int stride, int padding, int direction, int after
) {
    __shared__ float4 sums[ADDING * TURNS];
    const int outputs = direction == MERGED ? stride * stride * o : o, classes = direction == TRANSPOSED
        ? stride * stride : 1;
    const int index = blockIdx.x * ADDING + threadIdx.x, fours = pitch / 4, size = classes * outputs * fours;
    const int row = index / fours, x = index % fours * 4;
    const int phase = direction == MERGED ? row / o : row / outputs, channel = row % o;

    Axis down = forward_axis(oh, k, stride, padding), along = forward_axis(ow, k, stride, padding);
    if (direction != FORWARD && stride > 1) {
        down = transposed_axis(oh, k, stride, padding, phase / stride);
        along = transposed_axis(ow, k, stride, padding, phase % stride);
    }
    // in the order of the product: in the image of the class; merged, in one as large as the largest
    int high = down.count, wide = along.count;
    if (direction == MERGED) high = (oh + stride - 1) / stride, wide = (ow + stride - 1) / stride;
    if (after == POOL) high = oh / 2 * 4, wide = ow / 2;  // four pixels of a window, window by window
    const bool there = index < size && x < n * high * wide;

    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (there) {
        const auto number = [&](int p) { return part[static_cast<long long>(p) * size + index]; };
        sum = sum_in_turns<4>(number, threadIdx.y, blockDim.y, parts);
    }
    sums[threadIdx.y * ADDING + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || !there) return;
    for (int turn = 1; turn < blockDim.y; ++turn) sum = sum + sums[turn * ADDING + threadIdx.x];
    const float add = bias != nullptr ? bias[channel] : 0.0f;
    const float all[4] = {sum.x + add, sum.y + add, sum.z + add, sum.w + add};
    if (after == POOL) {
        const int plane = oh / 2 * (ow / 2);
        const long long target = (static_cast<long long>(x / 4 / plane) * o + channel) * plane + x / 4 % plane;
        store_best(best_of(all), y, argmax, target);
        return;
    }
    Place2d at = place2d<false>(x, high, wide);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const int line = down.begin + at.row * down.step, column = along.begin + at.column * along.step;
        if (x + e < n * high * wide && line < oh && column < ow) {
            const long long target = ((static_cast<long long>(at.image) * o + channel) * oh + line) * ow + column;
            const float out = after == RELU ? relu(all[e]) : all[e];
            y[target] = relu_mask != nullptr ? relu_gradient(out, relu_mask[target]) : out;
        }
        if (++at.column == wide) at.column = 0, ++at.row;
        if (at.row == high) at.row = 0, ++at.image;
    }
}
