// Weight gradient of a net's first convolution on tensor cores, directly from the pool's gradient.
// Launched by `FirstGradient` of first.py.
//
// dw[o, term] = sum over windows, and the four pixels of each, of dy[o, window] at its argmax pixel, and 0 at the other
// three, times the number that the term reads at the pixel. A lane has a window of the pool along the sums of a
// fragment, so its two registers of a row are {pixel 0, pixel 1} and {pixel 2, pixel 3}: the gradient is one of these
// four numbers, and the large gradient is never stored. The image is in shared memory as pairs of neighbours, each
// number twice: a pixel and the next one are one word for every tap. Formats as in first.cu. Scales: of an output's
// gradients by 16 windows, and of the block's part of an image. Sums leave the tensor cores after 16 windows.
// arch: sm_80, sm_90, sm_100
// instance: correlate_first<SPLIT, 3>; correlate_first<SPLIT, 2>; correlate_first<BF16, 3>; correlate_first<HALF, 3>
#include "async.cuh"
#include "gemm_pixels.cuh"
#include "../halves.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int SIXTEENS = 4;  // of outputs, that a warp has

// A number in the lower half of a word: `low` is the rest of `high`, in SPLIT alone.
template <int FORMAT>
__device__ __forceinline__ void one_number(float x, unsigned& high, unsigned& low) {
    high = FORMAT == BF16 ? two_bf16(x, 0.0f) : two_halves(x, 0.0f);
    low = FORMAT == SPLIT ? two_halves(x - low_half(high), 0.0f) : 0;
}

// x: (n, c, h, w), c k k at most 32. dy, argmax: (n, o, oh / 2, ow / 2), the pool's gradient and argmax indices
// (pooled.cuh). Stride 1. part: (parts, o, columns), as correlate's (gemm_weights.cu): columns (tap, channel). db_part:
// (parts, o). Part blockIdx.x: the images from blockIdx.x / ranges * part_images on, and of the windows of each the
// range blockIdx.x % ranges, which reads at most `lines` rows of the padded image. A warp has 64 outputs, the block
// `groups` times as many (1, 2 or 4) from blockIdx.y on, and warps of the same outputs take turns at 16 windows. pitch,
// plane: words of a line and of a channel in shared memory.
template <int FORMAT, int STAGES>
__global__ void __launch_bounds__(THREADS, 1) correlate_first(
    const float* __restrict__ x, const float* __restrict__ dy, const unsigned char* __restrict__ argmax,
    float* __restrict__ part, float* __restrict__ db_part, int n, int c, int h, int w, int o, int oh, int ow, int k,
    int padding, int part_images, int ranges, int range, int lines, int pitch, int plane, int groups
) {
    constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, ROWS = 2 * SIXTEENS;  // of outputs, that a lane has gradients of
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int o0 = (blockIdx.y * groups + warp % groups) * 16 * SIXTEENS, turn = warp / groups, turns = WARPS / groups;
    const int across = ow / 2, windows = oh / 2 * across, wide = w + 2 * padding, terms = c * k * k;
    const int begin = blockIdx.x % ranges * range, end = min(windows, begin + range), top = begin / across * 2;
    const int first = blockIdx.x / ranges * part_images, last = min(n, first + part_images);
    // of the range, and of this warp
    const int chunks = (end - begin + 15) / 16, steps = max(0, (chunks - turn + turns - 1) / turns);

    // Shared memory: a ring of stages of gradients, a word for each lane, and argmax; pairs; a picture; corners of
    // windows.
    extern __shared__ uint4 shared[];
    __shared__ unsigned warps[WARPS];
    uint4* gradients = shared + warp * ROWS * 32 + lane;
    unsigned* places = reinterpret_cast<unsigned*>(shared + STAGES * WARPS * ROWS * 32);
    unsigned* pairs = places + STAGES * WARPS * ROWS * 32;
    float* picture = reinterpret_cast<float*>(pairs + COPIES * c * plane);
    int* corners = reinterpret_cast<int*>(picture + c * lines * wide);
    places += warp * ROWS * 32 + lane;
    for (int window = threadIdx.x; window < 16 * chunks; window += THREADS)
        corners[window] = begin + window < end
            ? ((begin + window) / across * 2 - top) * pitch + (begin + window) % across * 2 : 0;

    const auto bring = [&](int sample) {
        for (int line = warp; line < c * lines; line += WARPS) {
            const int row = top + line % lines - padding;
            const float* from = x + (static_cast<long long>(sample) * c + line / lines) * (h * w) + row * w - padding;
            for (int column = lane; column < wide; column += 32)
                copy_float(picture + line * wide + column, from + column, sample < last && row >= 0 && row < h
                    && column >= padding && column < w + padding);
        }
    };
    // Four windows of eight outputs each, at a time; the windows of a picture, then those of the next one.
    const bool aligned = windows % 4 == 0 && reinterpret_cast<unsigned long long>(dy) % 16 == 0
        && reinterpret_cast<unsigned long long>(argmax) % 4 == 0;
    int sample = steps > 0 ? first : last, chunk = turn, fetched = 0;
    const auto fetch = [&]() {
        if (sample < last) {
            const int start = begin + 16 * chunk + 4 * t, left = max(0, min(4, end - start));
            const int stage = fetched % STAGES * WARPS * ROWS * 32;
            const long long from = (static_cast<long long>(sample) * o + o0 + g) * windows + start;
            if (aligned) {
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    const long long at = from + static_cast<long long>(8 * r) * windows;
                    const int count = o0 + 8 * r + g < o ? left : 0;
                    copy_sixteen(reinterpret_cast<float*>(gradients + stage + 32 * r), dy + at, count);
                    copy_float(reinterpret_cast<float*>(places + stage + 32 * r),
                        reinterpret_cast<const float*>(argmax + at), count > 0);
                }
            } else {
#pragma unroll 1
                for (int r = 0; r < ROWS; ++r) {
                    const long long at = from + static_cast<long long>(8 * r) * windows;
                    const int count = o0 + 8 * r + g < o ? left : 0;
                    unsigned pool_argmax = 0;
#pragma unroll
                    for (int s = 0; s < 4; ++s) {
                        reinterpret_cast<float*>(gradients + stage + 32 * r)[s] = s < count ? dy[at + s] : 0.0f;
                        if (s < count) pool_argmax |= static_cast<unsigned>(argmax[at + s]) << 8 * s;
                    }
                    places[stage + 32 * r] = pool_argmax;
                }
            }
            chunk += turns, ++fetched;
            if (chunk >= chunks) chunk = turn, ++sample;
        }
        commit_copies();
    };
    bring(first);
    commit_copies();
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ++ahead) fetch();

    // of column g of a fragment, a term, among pairs; columns without a term read term 0, unused
    int offset[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int term = 8 * j + g < terms ? 8 * j + g : 0, tap = term % (k * k);
        offset[j] = term / (k * k) * plane + tap / k * pitch + tap % k;
    }
    float sum[SIXTEENS][4][4] = {}, bias[ROWS] = {};
    int step = 0;
    for (int image = first; image < last; ++image) {
        if (image == first) wait_for_copies<STAGES - 1>();  // the picture is in the group before the stages
        else if (steps >= STAGES) wait_for_copies<STAGES - 2>();
        else commit_copies(), wait_for_copies<0>();
        __syncthreads();  // the picture is there, and all threads have read the pairs of the one before
        float by = 1.0f, back_x = 1.0f;
        if constexpr (SCALED<FORMAT>) {
            unsigned largest = 0;
            for (int i = threadIdx.x; i < c * lines * wide; i += THREADS)
                largest = max(largest, bits_of_size(picture[i]));
            const unsigned exponent = scale_exponent(largest_of_block(largest, warps));
            by = power_of_two(exponent), back_x = power_of_two(254u - exponent) * DOWN;
        }
        for (int line = warp; line < c * lines; line += WARPS) {
            unsigned* to = pairs + line / lines * plane + line % lines * pitch;
            for (int column = lane; column < wide; column += 32) {
                const float* from = picture + line * wide + column;
                unsigned low;
                two_numbers<FORMAT>(from[0] * by, (column + 1 < wide ? from[1] : 0.0f) * by, to[column], low);
                if constexpr (FORMAT == SPLIT) to[c * plane + column] = low;
            }
        }
        __syncthreads();  // all threads have read the picture
        if (image + 1 < last) bring(image + 1);
        for (int mine = 0; mine < steps; ++mine, ++step) {
            fetch();
            wait_for_copies<STAGES - 1>();  // this lane's own gradients: no barrier
            const int stage = step % STAGES * WARPS * ROWS * 32, window = 16 * (turn + mine * turns) + 4 * t;
            unsigned b[COPIES][4][4][2];  // by window and eight terms
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                const unsigned* corner = pairs + corners[window + s];
#pragma unroll
                for (int copy = 0; copy < COPIES; ++copy)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
#pragma unroll
                        for (int line = 0; line < 2; ++line)
                            b[copy][s][j][line] = corner[copy * c * plane + offset[j] + line * pitch];
            }
#pragma unroll
            for (int i = 0; i < SIXTEENS; ++i) {
                if (o0 + 16 * i >= o) continue;  // for the whole warp
                unsigned a[COPIES][4][4];  // by window
                float back[2];
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const float4 four = *reinterpret_cast<const float4*>(gradients + stage + 32 * (2 * i + r));
                    const unsigned pool_argmax = places[stage + 32 * (2 * i + r)];
                    float held[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                    for (int s = 0; s < 4; ++s) {
                        if ((pool_argmax >> 8 * s & 4) != 0) held[s] = 0.0f;  // no pixel was taken
                        bias[2 * i + r] += held[s];
                    }
                    if constexpr (SCALED<FORMAT>) {
                        const unsigned exponent = shared_exponent<1, 4>(largest_of(held));
#pragma unroll
                        for (int s = 0; s < 4; ++s) held[s] *= power_of_two(exponent);
                        back[r] = power_of_two(254u - exponent) * UP;
                    }
#pragma unroll
                    for (int s = 0; s < 4; ++s) {
                        unsigned number[2];
                        one_number<FORMAT>(held[s], number[0], number[1]);
                        // in bits; the 0 of a window without one goes to the first
                        const unsigned place = pool_argmax * 16 >> 8 * s & 48;
#pragma unroll
                        for (int copy = 0; copy < COPIES; ++copy) {
                            const unsigned long long pixels = static_cast<unsigned long long>(number[copy]) << place;
                            a[copy][s][r] = static_cast<unsigned>(pixels),
                                a[copy][s][r + 2] = static_cast<unsigned>(pixels >> 32);
                        }
                    }
                }
                float of_part[4][4] = {};
#pragma unroll
                // gl xh, gh xl, gh xh: the small ones first
                for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                    for (int s = 0; s < 4; ++s)
#pragma unroll
                        for (int j = 0; j < 4; ++j)
                            mma_step<FORMAT>(of_part[j], a[product == 0 ? COPIES - 1 : 0][s],
                                b[product == 1 ? COPIES - 1 : 0][s][j]);
#pragma unroll
                for (int j = 0; j < 4; ++j)
#pragma unroll
                    for (int l = 0; l < 4; ++l) {
                        if constexpr (SCALED<FORMAT>) {
                            sum[i][j][l] = fmaf(of_part[j][l] * back_x, back[l / 2], sum[i][j][l]);
                        } else {
                            sum[i][j][l] += of_part[j][l];
                        }
                    }
            }
        }
    }
    wait_for_copies<0>();

    // Warps leave their sums in shared memory, (turn, output, PITCH), the bias's after the 32 terms; all threads add
    // them.
    constexpr int PITCH = 33;
    float* left = reinterpret_cast<float*>(shared);
    __syncthreads();  // all threads have read the stages
    float* mine = left + (warp * 16 * SIXTEENS + g) * PITCH;
#pragma unroll
    for (int i = 0; i < SIXTEENS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int l = 0; l < 4; ++l) mine[(16 * i + l / 2 * 8) * PITCH + 8 * j + 2 * t + l % 2] = sum[i][j][l];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int distance = 1; distance < 4; distance *= 2) bias[r] += __shfl_xor_sync(EVERY_LANE, bias[r], distance);
        if (t == 0) mine[8 * r * PITCH + 32] = bias[r];
    }
    __syncthreads();
    const int padded = padded_channels(c), all = k * k * padded, of_block = 16 * SIXTEENS * groups,
        output0 = blockIdx.y * of_block;
    for (int i = threadIdx.x; i < min(of_block, o - output0) * (all + 1); i += THREADS) {
        const int output = i / (all + 1), column = i % (all + 1), channel = channel_of(column % padded, c);
        const float* from = left + output * PITCH + (column == all ? 32 : channel * k * k + column / padded);
        float total = 0.0f;
        if (column == all || channel < c)  // of less than four channels, columns beyond the last one are zeros
            for (int other = 0; other < turns; ++other) total += from[other * of_block * PITCH];
        const long long row = static_cast<long long>(blockIdx.x) * o + output0 + output;
        if (column == all) db_part[row] = total;
        else part[row * all + column] = total;
    }
}
