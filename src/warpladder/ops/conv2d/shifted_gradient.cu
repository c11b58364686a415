// The gradients of a convolution of at most four outputs behind an enlargement by 2 (shifted.cu), all in one pass over x, by warpgroup products (wgmma).
//
//   gz[pixel, column] = the pixel of dy that number (a, b) of the small pixel meets: row 2 r - 1 + a, column 2 q - 1 + b, or 0 beside the image
//   dx[channel, pixel] = sum over columns of w[channel, column] gz[pixel, column]
//   dw[channel, column] = sum over pixels of x[channel, pixel] gz[pixel, column]
//
// gz is made in shared memory, 16 times as many numbers as an output of dy has small pixels, from 12 kB of dy; it is never in memory. x is read once, for dw and,
// where it is a ReLU's output, for where dx is 0. Blocks stay: each leaves its sums of dw, and of dy for the bias, over all of its images for finish_weights.
// bf16: sums stay in the tensor cores, those of dw over all images. SPLIT, fp32: those of dw leave them after 64 pixels, and HALF, fp16: after an image.
// arch: sm_90a
// instance: differentiate_shifted<SPLIT>
// instance: differentiate_shifted<BF16>
// instance: differentiate_shifted<HALF>
#include "shifted.cuh"
#include "warp.cuh"

constexpr int SLICE = 4;  // chunks of 64 channels whose sums of dw a block keeps: each warpgroup those of one

// x: (n, c, h, w), h w at most 256. dy: (n, o, 2 h, 2 w). weights: (c / 64, COPIES) pieces for the way back; w_undo: (c,), null in bf16.
// dx: as x, or null; rectified: whether it shall be 0 where x is not above 0. part: (gridDim.x, c, 64), db_part: (gridDim.x, o).
// Block (., slice): 256 channels of every gridDim.x-th image.
// Shared memory: COPIES (2 PIECES + SLICE) pieces, 4 x 1,024 floats of dy, 4 kB of signs, and 1,024 bytes that align them.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS, 1) differentiate_shifted(
    const float* __restrict__ x, const float* __restrict__ dy, const uint4* __restrict__ weights, const float* __restrict__ w_undo,
    float* __restrict__ dx, float* __restrict__ part, float* __restrict__ db_part, int n, int c, int h, int w, int o, int rectified
) {
    constexpr int LOW = PIECES * PIECE, OF_WEIGHTS = COPIES<FORMAT> * PIECE;
    extern __shared__ uint4 shared[];
    __shared__ unsigned warps[WARPS], warps_of_dy[WARPS];
    __shared__ float sums[OUTPUTS][4];  // of dy, by warps
    char* const pixels = first_stage(shared);
    char* const gradient = pixels + COPIES<FORMAT> * LOW;
    char* const all_weights = gradient + COPIES<FORMAT> * LOW;
    float* const staged = reinterpret_cast<float*>(all_weights + SLICE * OF_WEIGHTS);
    unsigned char* const signs = reinterpret_cast<unsigned char*>(staged + OUTPUTS * 4 * 64 * PIECES);
    const int plane = h * w, chunks = c / 64, first = blockIdx.y * SLICE, ours = min(SLICE, chunks - first), of_dy = o * 4 * plane;
    const bool wide = plane % 4 == 0 && reinterpret_cast<unsigned long long>(x) % 16 == 0;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

    Chunk held;
    const auto fetch = [&](int image, int chunk) {
        if (image < n) held.load(x + (static_cast<long long>(image) * chunks + first + chunk) * 64 * plane, plane, wide);
    };
    const auto fetch_gradient = [&](int image) {
        if (image < n)
            for (int i = threadIdx.x; i < of_dy / 4; i += THREADS) copy_sixteen(staged + 4 * i, dy + static_cast<long long>(image) * of_dy + 4 * i, 4);
        commit_copies();
    };
    copy_pieces(all_weights, weights + first * (OF_WEIGHTS / 16), ours * (OF_WEIGHTS / 16 / THREADS));
    fetch_gradient(blockIdx.x);
    fetch(blockIdx.x, 0);

    float kept[32];  // of dw, of this warpgroup's 64 channels
#pragma unroll
    for (int i = 0; i < 32; ++i) kept[i] = 0.0f;
    for (int image = blockIdx.x; image < n; image += gridDim.x) {
        wait_for_copies<0>();
        __syncthreads();  // dy is there, and everybody is done with the gradient before
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
        for (int i = threadIdx.x; i < 8 * 64 * PIECES; i += THREADS) {  // two numbers of a pixel, neighbours in a row of dy
            const int pixel = i % (64 * PIECES), pair = i / (64 * PIECES), row = pixel / w, column = pixel % w;
            const int of_row = 2 * row - 1 + pair / 2, of_column = 2 * column - 1 + pair % 2 * 2;
            const bool there = pixel < plane && of_row >= 0 && of_row < 2 * h;
            float number[2][OUTPUTS];
#pragma unroll
            for (int beside = 0; beside < 2; ++beside)
#pragma unroll
                for (int output = 0; output < OUTPUTS; ++output) {
                    const bool inside = there && output < o && of_column + beside >= 0 && of_column + beside < 2 * w;
                    number[beside][output] = inside ? staged[output * 4 * plane + of_row * 2 * w + of_column + beside] * by : 0.0f;
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
            }  // and everybody has multiplied the pixels before, and read dy
            if (chunk == 0) fetch_gradient(image + gridDim.x);
            held.store<FORMAT>(pixels, by_x);
            held.store_signs(signs, rectified ? 0 : 15);
            tiles_written();
            const bool more = chunk + 1 < ours;
            fetch(more ? image : image + gridDim.x, more ? chunk + 1 : 0);
            __syncthreads();

            float sum[32];
            wgmma_begin();
            multiply_piece<FORMAT, false, false>(sum, all_weights + chunk * OF_WEIGHTS, PIECE, gradient + group * PIECE, LOW, false);
            wgmma_commit();
            wgmma_wait<0>();
            // A lane has pairs of neighbouring pixels of two channels.
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = 16 * warp + g + 8 * i, channel = 64 * (first + chunk) + row;
                const uint4 bytes = *reinterpret_cast<const uint4*>(signs + row * 64 + group * 16);
                const unsigned above[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
                float undo = 1.0f;
                if constexpr (SCALED<FORMAT>) undo = w_undo[channel];
                float* const to = dx + (static_cast<long long>(image) * c + channel) * plane;
                if (dx == nullptr) continue;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const int pixel = 64 * group + 8 * j + 2 * t;
                    const unsigned bits = above[j / 2] >> (j % 2 * 16 + t / 2 * 8 + t % 2 * 2);
                    const float one = bits & 1u ? sum[4 * j + 2 * i] * back * undo : 0.0f, other = bits & 2u ? sum[4 * j + 2 * i + 1] * back * undo : 0.0f;
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
                constexpr int STAYING = FORMAT == SPLIT ? 1 : PIECES;  // pieces of pixels whose sums stay in the tensor cores
                for (int piece = 0; piece < PIECES; piece += STAYING) {
                    wgmma_begin();
#pragma unroll
                    for (int i = 0; i < STAYING; ++i)
                        multiply_piece<FORMAT, false, true>(sum, pixels + (piece + i) * PIECE, LOW, gradient + (piece + i) * PIECE, LOW, i > 0);
                    wgmma_commit();
                    wgmma_wait<0>();
#pragma unroll
                    for (int i = 0; i < 32; ++i) kept[i] = fmaf(sum[i] * back, back_x, kept[i]);
                }
            } else {
                wgmma_begin();
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece)
                    multiply_piece<FORMAT, false, true>(kept, pixels + piece * PIECE, LOW, gradient + piece * PIECE, LOW, true);
                wgmma_commit();
                wgmma_wait<0>();
            }
        }
    }

    if (group < ours)
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int channel = 64 * (first + group) + 16 * warp + g + 8 * i;
                *reinterpret_cast<float2*>(part + (static_cast<long long>(blockIdx.x) * c + channel) * COLUMNS + 8 * j + 2 * t) =
                    make_float2(kept[4 * j + 2 * i], kept[4 * j + 2 * i + 1]);
            }
    if (blockIdx.y > 0) return;
    __syncthreads();
    if (threadIdx.x < o) db_part[blockIdx.x * o + threadIdx.x] = (sums[threadIdx.x][0] + sums[threadIdx.x][1]) + (sums[threadIdx.x][2] + sums[threadIdx.x][3]);
}
