// Convolution of at most four outputs after an upsampling by 2, by wgmma: multiply first, then shift.
// Launched by `ShiftedConvolution` of shifted.py.
//
//   z[column, pixel] = sum over channels of w[channel, column] x[channel, pixel]
//       64 columns: 16 numbers of each output's folded weights
//   y[o, pixel of a class] = b[o] + the sum of four z of neighbouring small pixels
//       taps.cuh has the number of each tap of a class
//
// x, nearly all of the bytes, is read once, as stored: 64 channels of an image are loaded to registers while the
// previous 64 are multiplied. Blocks are persistent and compute one image after the other; a warpgroup has 64 pixels of
// it. z stays in shared memory. bf16: sums stay in the tensor cores. SPLIT, fp32, and HALF, fp16: sums leave them after
// 64 channels, which have one scale, and are added by additions that round.
// arch: sm_90a
// instance: convolve_shifted<SPLIT>; convolve_shifted<BF16>; convolve_shifted<HALF>
#include "shifted.cuh"
#include "../taps.cuh"

// floats from a column of z to the next: rows of a warp's sums, four at a time, are in different banks
constexpr int PITCH = 64 * PIECES + 8;

// x: (n, c, h, w), h w at most 256. weights: (c / 64, COPIES) pieces, as shifted_pack.cu writes them; w_inverse: (4,),
// null in bf16. y: (n, o, 2 h, 2 w), o at most 4. Shared memory: COPIES (PIECES + 2) pieces, z, and 1,024 bytes.
template <int FORMAT>
__global__ void __launch_bounds__(THREADS, 1) convolve_shifted(
    const float* __restrict__ x, const uint4* __restrict__ weights, const float* __restrict__ w_inverse,
    const float* __restrict__ bias, float* __restrict__ y, int n, int c, int h, int w, int o
) {
    constexpr int OF_WEIGHTS = COPIES<FORMAT> * PIECE;
    extern __shared__ uint4 shared[];
    __shared__ unsigned warps[WARPS];
    char* const pixels = first_stage(shared);
    char* const two_weights = pixels + COPIES<FORMAT> * PIECES * PIECE;  // of 64 channels each, in turns
    float* const z = reinterpret_cast<float*>(two_weights + 2 * OF_WEIGHTS);
    const int plane = h * w, chunks = c / 64;
    const bool wide = plane % 4 == 0 && reinterpret_cast<unsigned long long>(x) % 16 == 0;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4,
        t = lane % 4;
    const Taps taps{UPSAMPLED};

    Chunk held;
    int step = 0;
    const auto fetch = [&](int image, int chunk) {  // of step number `step`
        if (image >= n) return;
        held.load(x + (static_cast<long long>(image) * chunks + chunk) * 64 * plane, plane, wide);
        copy_pieces(two_weights + step % 2 * OF_WEIGHTS, weights + chunk * (OF_WEIGHTS / 16),
            OF_WEIGHTS / 16 / THREADS);
        commit_copies();
    };
    fetch(blockIdx.x, 0);
    for (int image = blockIdx.x; image < n; image += gridDim.x) {
        float sum[32];
        if constexpr (SCALED<FORMAT>)
#pragma unroll
            for (int i = 0; i < 32; ++i) sum[i] = 0.0f;
        for (int chunk = 0; chunk < chunks; ++chunk) {
            float by = 1.0f, back = 1.0f;
            if constexpr (SCALED<FORMAT>) {
                const unsigned exponent = scale_exponent(largest_of_block(held.largest(), warps));
                by = power_of_two(exponent), back = power_of_two(254u - exponent) * DOWN;
            } else {
                __syncthreads();
            }  // and all threads have multiplied the pixels before
            held.store<FORMAT>(pixels, by);
            wait_for_copies<0>();
            const char* const of_chunk = two_weights + step % 2 * OF_WEIGHTS;
            ++step;
            tiles_written();  // which waits for what is on its kind: so nothing is requested before it
            const bool more = chunk + 1 < chunks;
            fetch(more ? image : image + gridDim.x, more ? chunk + 1 : 0);
            __syncthreads();
            if constexpr (SCALED<FORMAT>) {
                float part[32];
                wgmma_begin();
                multiply_piece<FORMAT, true,
                    true>(part, of_chunk, PIECE, pixels + group * PIECE, PIECES * PIECE, false);
                wgmma_commit();
                wgmma_wait<0>();
#pragma unroll
                for (int i = 0; i < 32; ++i) sum[i] = fmaf(part[i], back, sum[i]);
            } else {
                wgmma_begin();
                multiply_piece<FORMAT, true,
                    true>(sum, of_chunk, PIECE, pixels + group * PIECE, PIECES * PIECE, chunk > 0);
                wgmma_commit();
                wgmma_wait<0>();
            }
        }

        // A lane has pairs of neighbouring pixels of two columns.
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int column = 16 * warp + g + 8 * i;
            float inverse_scale = 1.0f;
            if constexpr (SCALED<FORMAT>) inverse_scale = w_inverse[column % OUTPUTS];
#pragma unroll
            for (int j = 0; j < 8; ++j)
                *reinterpret_cast<float2*>(z + column * PITCH + 64 * group + 8 * j + 2 * t)
                    = make_float2(sum[4 * j + 2 * i] * inverse_scale, sum[4 * j + 2 * i + 1] * inverse_scale);
        }
        __syncthreads();
        // two neighbouring pixels of y, which have one small pixel's column
        for (int pair = threadIdx.x; pair < o * 2 * plane; pair += THREADS) {
            const int column = pair % w, line = pair / w % (2 * h), output = pair / (2 * plane), row = line / 2,
                lower = line % 2;
            float two[2];
#pragma unroll
            for (int right = 0; right < 2; ++right) {
                two[right] = 0.0f;
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        const int from_row = row + taps.far(i, lower), from = column + taps.far(j, right);
                        const int number = 4 * taps.number(i, lower) + taps.number(j, right);
                        if (from_row >= 0 && from_row < h && from >= 0 && from < w)
                            two[right] += z[(number * OUTPUTS + output) * PITCH + from_row * w + from];
                    }
                two[right] += bias[output];
            }
            *reinterpret_cast<float2*>(y + (static_cast<long long>(image) * o + output) * 4 * plane + line * 2 * w + 2
                * column) = make_float2(two[0], two[1]);
        }
    }
}
