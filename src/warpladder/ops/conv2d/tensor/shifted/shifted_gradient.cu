// Gradients of a convolution of at most four outputs after an upsampling by 2 (shifted.cu), in one pass over x, by
// wgmma.
// Launched by `ShiftedConvolution` of shifted.py.
//
//   gz[pixel, column] = the pixel of dy under number (a, b) of the small pixel's kernel:
//       row 2 r - 1 + a, column 2 q - 1 + b, or 0 outside the image
//   dx[channel, pixel] = sum over columns of w[channel, column] gz[pixel, column]
//   dw[channel, column] = sum over pixels of x[channel, pixel] gz[pixel, column]
//
// gz, 64 numbers for each small pixel, is computed in shared memory, from 12 kB of dy for an image; it is never in
// global memory. x is read once: for dw and, if it is a ReLU's output, for the mask of dx. Blocks are persistent: each
// writes its sums of dw, and of dy for the bias, over all of its images for finish_weights. bf16: sums stay in the
// tensor cores, dw's over all images. SPLIT, fp32: dw's sums leave them after 64 pixels, and HALF, fp16: after an
// image.
// arch: sm_90a
// instance: differentiate_shifted<SPLIT, false>; differentiate_shifted<SPLIT, true>; differentiate_shifted<BF16, false>
// instance: differentiate_shifted<BF16, true>; differentiate_shifted<HALF, false>; differentiate_shifted<HALF, true>
#include "shifted.cuh"
#include "../taps.cuh"
#include "warp.cuh"

// dx in the packed form for the previous convolution, and its sums for that convolution's bias. A block has 64 channels
// of a whole image, and so knows their scale before it rounds the first number. A lane has, of two pixels, the 16
// channels 8 t to 8 t + 7 and 32 later ones, by the order of weights in shifted_pack.cu.
template <int FORMAT, bool PACKS>
struct Packing {
    unsigned warps[WARPS];
    float of_channels[WARPS][64];  // sums over a warp's pixels
    int where;  // in dx_sums they go; -1 before there are any

    // Writes the sums to dx_sums (n, c), by all threads, after a barrier.
    __device__ __forceinline__ void leave_sums(float* __restrict__ dx_sums) const {
        if constexpr (PACKS)
            if (threadIdx.x < 64 && where >= 0) {
                float sum = 0.0f;
                for (int warp = 0; warp < WARPS; ++warp) sum += of_channels[warp][threadIdx.x];
                dx_sums[where + threadIdx.x] = sum;
            }
    }

    // Stores 64 channels of gz w, by all threads. sum: gz w, with pixels as rows. signs: as of
    // Chunk::store_signs_by_pixel. back: inverse of dy's scale; the others are differentiate_shifted's.
    __device__ __forceinline__ void store(
        float (&sum)[32], const unsigned char* signs, const float* __restrict__ w_inverse, float back,
        unsigned* __restrict__ high, unsigned* __restrict__ low, float* __restrict__ inverse_scale, int image, int c,
        int chunk, int plane, int class_width
    ) {
        const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        unsigned largest = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int m = 0; m < 8; ++m) {
                const unsigned bits = signs[m * 64 * PIECES + 16 * warp + g + 8 * i] >> t;
#pragma unroll
                for (int far = 0; far < 2; ++far) {
                    float& value = sum[16 * far + m / 2 * 4 + 2 * i + m % 2];
                    if constexpr (SCALED<FORMAT>) value = value * back * w_inverse[64 * chunk + 32 * far + 8 * t + m];
                    if (!(bits >> 4 * far & 1u)) value = 0.0f;
                    largest = max(largest, bits_of_size(value));
                }
            }
        float by = 1.0f;
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = scale_exponent(largest_of_block(largest, warps));
            by = power_of_two(exponent);
            if (threadIdx.x == 0) inverse_scale[image * (c / 64) + chunk] = power_of_two(254u - exponent);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int pixel = 16 * warp + g + 8 * i;
            if (pixel >= plane) continue;
            const long long place = static_cast<long long>(image) * plane
                + (class_width > 0 ? by_class(pixel / class_width, pixel % class_width, plane, class_width) : pixel);
#pragma unroll
            for (int far = 0; far < 2; ++far) {
                uint4 two, rest;
                const float* const from = &sum[16 * far + 2 * i];
                two_numbers<FORMAT>(from[0] * by, from[1] * by, two.x, rest.x);
                two_numbers<FORMAT>(from[4] * by, from[5] * by, two.y, rest.y);
                two_numbers<FORMAT>(from[8] * by, from[9] * by, two.z, rest.z);
                two_numbers<FORMAT>(from[12] * by, from[13] * by, two.w, rest.w);
                const long long at = (place * c + 64 * chunk + 32 * far + 8 * t) / 2;
                *reinterpret_cast<uint4*>(high + at) = two;
                if constexpr (FORMAT == SPLIT) *reinterpret_cast<uint4*>(low + at) = rest;
            }
        }
        float value[16];
#pragma unroll
        for (int m = 0; m < 16; ++m) value[m] = sum[m / 2 * 4 + m % 2] + sum[m / 2 * 4 + 2 + m % 2];
        Share share{0, 16};
        warp_sums<16, 4>(value, share);
#pragma unroll
        for (int k = 0; k < left_of(16, 4); ++k)
            of_channels[warp][(share.first + k) / 8 * 32 + 8 * t + (share.first + k) % 8] = value[k];
        if (threadIdx.x == 0) where = (image * (c / 64) + chunk) * 64;
    }
};

constexpr int SLICE = 4;  // chunks of 64 channels whose sums of dw a block keeps: each warpgroup those of one

// x: (n, c, h, w), h w at most 256. dy: (n, o, 2 h, 2 w). weights: (c / 64, COPIES) pieces for the way back; w_inverse:
// (c,), null in bf16. masks_dx: 1 if dx must be 0 where x is not above 0. part: (gridDim.x, c, 64), db_part:
// (gridDim.x, o). dx: as x, or null. With PACKS it is packed for the previous layer instead: high, low and
// inverse_scale as by pack_pixels of warpgroup_pack.cu, by classes if `class_width`, the image's number of columns, is
// not 0; and dx_sums (n, c), its sums over the pixels of each image. Block (., slice): 256 channels of every
// gridDim.x-th image. Shared memory: COPIES (2 PIECES + SLICE) pieces, 4 x 1,024 floats of dy, 4 kB of signs, and 1,024
// bytes.
template <int FORMAT, bool PACKS>
__global__ void __launch_bounds__(THREADS, 1) differentiate_shifted(
    const float* __restrict__ x, const float* __restrict__ dy, const uint4* __restrict__ weights,
    const float* __restrict__ w_inverse, float* __restrict__ dx, unsigned* __restrict__ high,
    unsigned* __restrict__ low, float* __restrict__ inverse_scale, float* __restrict__ dx_sums,
    float* __restrict__ part, float* __restrict__ db_part, int n, int c, int h, int w, int o, int masks_dx,
    int class_width
) {
    constexpr int LOW = PIECES * PIECE, OF_WEIGHTS = COPIES<FORMAT> * PIECE;
    extern __shared__ uint4 shared[];
    __shared__ unsigned warps[WARPS], warps_of_dy[WARPS];
    __shared__ float sums[OUTPUTS][4];  // of dy, by warps
    __shared__ Packing<FORMAT, PACKS> packing;
    char* const pixels = first_stage(shared);
    char* const gradient = pixels + COPIES<FORMAT> * LOW;
    char* const all_weights = gradient + COPIES<FORMAT> * LOW;
    float* const staged = reinterpret_cast<float*>(all_weights + SLICE * OF_WEIGHTS);
    unsigned char* const signs = reinterpret_cast<unsigned char*>(staged + OUTPUTS * 4 * 64 * PIECES);
    const int plane = h * w, chunks = c / 64, first = blockIdx.y * SLICE, ours = min(SLICE, chunks - first),
        of_dy = o * 4 * plane;
    const bool wide = plane % 4 == 0 && reinterpret_cast<unsigned long long>(x) % 16 == 0;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4,
        t = lane % 4;

    if constexpr (PACKS)
        if (threadIdx.x == 0) packing.where = -1;
    Chunk held;
    const auto fetch = [&](int image, int chunk) {
        if (image < n)
            held.load(x + (static_cast<long long>(image) * chunks + first + chunk) * 64 * plane, plane, wide);
    };
    const auto fetch_gradient = [&](int image) {
        if (image < n)
            for (int i = threadIdx.x; i < of_dy / 4; i += THREADS)
                copy_sixteen(staged + 4 * i, dy + static_cast<long long>(image) * of_dy + 4 * i, 4);
        commit_copies();
    };
    copy_pieces(all_weights, weights + first * (OF_WEIGHTS / 16), ours * (OF_WEIGHTS / 16 / THREADS));
    fetch_gradient(blockIdx.x);
    fetch(blockIdx.x, 0);

    float dw_sum[32];  // of dw, of this warpgroup's 64 channels
#pragma unroll
    for (int i = 0; i < 32; ++i) dw_sum[i] = 0.0f;
    for (int image = blockIdx.x; image < n; image += gridDim.x) {
        wait_for_copies<0>();
        __syncthreads();  // dy is there, and all threads are done with the gradient before
        unsigned largest = 0;
        float of_bias = 0.0f;
        if (group < o)  // a warpgroup has an output
            for (int i = threadIdx.x % 128; i < 4 * plane; i += 128) {
                const float value = staged[group * 4 * plane + i];
                largest = max(largest, bits_of_size(value)), of_bias += value;
            }
        of_bias = warp_sum(of_bias);
        if (lane == 0) sums[group][warp] = image == blockIdx.x ? of_bias : sums[group][warp] + of_bias;
        float by = 1.0f, back = 1.0f;
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = scale_exponent(largest_of_block(largest, warps_of_dy));
            by = power_of_two(exponent), back = power_of_two(254u - exponent) * DOWN;
        }
        // two numbers of a pixel, neighbours in a row of dy
        for (int i = threadIdx.x; i < 8 * 64 * PIECES; i += THREADS) {
            const int pixel = i % (64 * PIECES), pair = i / (64 * PIECES), row = pixel / w, column = pixel % w;
            const int of_row = 2 * row - 1 + pair / 2, of_column = 2 * column - 1 + pair % 2 * 2;
            const bool there = pixel < plane && of_row >= 0 && of_row < 2 * h;
            float number[2][OUTPUTS];
#pragma unroll
            for (int col = 0; col < 2; ++col)
#pragma unroll
                for (int output = 0; output < OUTPUTS; ++output) {
                    const bool inside = there && output < o && of_column + col >= 0 && of_column + col < 2 * w;
                    number[col][output] = inside
                        ? staged[output * 4 * plane + of_row * 2 * w + of_column + col] * by : 0.0f;
                }
            uint4 high, low;
            two_numbers<FORMAT>(number[0][0], number[0][1], high.x, low.x);
            two_numbers<FORMAT>(number[0][2], number[0][3], high.y, low.y);
            two_numbers<FORMAT>(number[1][0], number[1][1], high.z, low.z);
            two_numbers<FORMAT>(number[1][2], number[1][3], high.w, low.w);
            char* to = gradient + pixel / 64 * PIECE + place(pixel % 64, pair);
            *reinterpret_cast<uint4*>(to) = high;
            if constexpr (FORMAT == SPLIT) *reinterpret_cast<uint4*>(to + LOW) = low;
        }

        for (int chunk = 0; chunk < ours; ++chunk) {
            float by_x = 1.0f, back_x = 1.0f;
            if constexpr (SCALED<FORMAT>) {
                const unsigned exponent = scale_exponent(largest_of_block(held.largest(), warps));
                by_x = power_of_two(exponent), back_x = power_of_two(254u - exponent) * UP;
            } else {
                __syncthreads();
            }  // and all threads have multiplied the pixels before, and read dy
            packing.leave_sums(dx_sums);
            held.store<FORMAT>(pixels, by_x);
            if constexpr (PACKS) held.store_signs_by_pixel(signs, masks_dx ? 0 : 255);
            else held.store_signs(signs, masks_dx ? 0 : 15);
            tiles_written();  // which waits for what is on its kind: so nothing is requested before it
            if (chunk == 0) fetch_gradient(image + gridDim.x);
            const bool more = chunk + 1 < ours;
            fetch(more ? image : image + gridDim.x, more ? chunk + 1 : 0);
            __syncthreads();

            float sum[32];
            wgmma_begin();
            const char* const of_chunk = all_weights + chunk * OF_WEIGHTS;
            if constexpr (PACKS)
                multiply_piece<FORMAT, false, false, true>(sum, gradient + group * PIECE, LOW, of_chunk, PIECE, false);
            else multiply_piece<FORMAT, false, false>(sum, of_chunk, PIECE, gradient + group * PIECE, LOW, false);
            wgmma_commit();
            wgmma_wait<0>();
            if constexpr (PACKS)
                packing.store(sum, signs, w_inverse, back, high, low, inverse_scale, image, c, first + chunk, plane,
                    class_width);
            // A lane has pairs of neighbouring pixels of two channels.
#pragma unroll
            for (int i = 0; i < (PACKS ? 0 : 2); ++i) {
                const int row = 16 * warp + g + 8 * i, channel = 64 * (first + chunk) + row;
                const unsigned* const above = reinterpret_cast<const unsigned*>(signs + row * 64 + group * 16);
                float inverse_scale = 1.0f;
                if constexpr (SCALED<FORMAT>) inverse_scale = w_inverse[channel];
                float* const to = dx + (static_cast<long long>(image) * c + channel) * plane;
                if (dx == nullptr) continue;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const int pixel = 64 * group + 8 * j + 2 * t;
                    const unsigned bits = above[j / 2] >> (j % 2 * 16 + t / 2 * 8 + t % 2 * 2);
                    const float one = bits & 1u ? sum[4 * j + 2 * i] * back * inverse_scale : 0.0f, other = bits & 2u
                        ? sum[4 * j + 2 * i + 1] * back * inverse_scale : 0.0f;
                    if (plane % 2 == 0) {
                        if (pixel < plane) *reinterpret_cast<float2*>(to + pixel) = make_float2(one, other);
                    } else {
                        if (pixel < plane) to[pixel] = one;
                        if (pixel + 1 < plane) to[pixel + 1] = other;
                    }
                }
            }
            if (group != chunk) continue;
            if constexpr (SCALED<FORMAT>) {
                // pieces of pixels whose sums stay in the tensor cores
                constexpr int STAYING = FORMAT == SPLIT ? 1 : PIECES;
                for (int piece = 0; piece < PIECES; piece += STAYING) {
                    wgmma_begin();
#pragma unroll
                    for (int i = 0; i < STAYING; ++i)
                        multiply_piece<FORMAT, false,
                            true>(sum, pixels + (piece + i) * PIECE, LOW, gradient + (piece + i) * PIECE, LOW, i > 0);
                    wgmma_commit();
                    wgmma_wait<0>();
#pragma unroll
                    for (int i = 0; i < 32; ++i) dw_sum[i] = fmaf(sum[i] * back, back_x, dw_sum[i]);
                }
            } else {
                wgmma_begin();
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece)
                    multiply_piece<FORMAT, false,
                        true>(dw_sum, pixels + piece * PIECE, LOW, gradient + piece * PIECE, LOW, true);
                wgmma_commit();
                wgmma_wait<0>();
            }
        }
    }

    __syncthreads();
    packing.leave_sums(dx_sums);
    if (group < ours)
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int channel = 64 * (first + group) + 16 * warp + g + 8 * i;
                *reinterpret_cast<float2*>(part + (static_cast<long long>(blockIdx.x) * c + channel) * COLUMNS + 8 * j
                    + 2 * t) = make_float2(dw_sum[4 * j + 2 * i], dw_sum[4 * j + 2 * i + 1]);
            }
    if (blockIdx.y > 0) return;
    if (threadIdx.x < o)
        db_part[blockIdx.x * o + threadIdx.x] = (sums[threadIdx.x][0] + sums[threadIdx.x][1])
        + (sums[threadIdx.x][2] + sums[threadIdx.x][3]);
}
