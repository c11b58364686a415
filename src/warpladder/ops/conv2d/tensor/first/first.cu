// First convolution of a net on tensor cores, with its ReLU and 2 x 2 pool: few inputs (colours), many outputs.
// Launched by `FirstConvolution` of first.py.
//
// A window's terms, C K K and zeros up to 32, are a row of two fragments. A lane has eight of them and builds its
// fragments in registers, once, from the image in shared memory; then it multiplies them by all outputs of the block.
// The four pixels of a pool's window end in one lane. BF16: rounded. SPLIT, fp32: two halves of each number. HALF, tf32
// and fp16, which both have 11 bits: one. Halves are scaled: the pixels under a pool's window by one power of two, an
// output's weights by another; neither changes the argmax pixel of the window.
// arch: sm_80, sm_90, sm_100
// instance: convolve_first<SPLIT>; convolve_first<BF16>; convolve_first<HALF>
#include "async.cuh"
#include "../halves.cuh"
#include "pooled.cuh"
#include "tensor_panels.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;

// Consecutive windows of 2 x 2 pixels of a lane: as many as registers hold.
template <int FORMAT>
constexpr int EACH = FORMAT == SPLIT ? 2 : 4;

// x: (n, c, h, width). w: (o, c, k, k), c k k at most 32. b: (o,). y, argmax (pooled.cuh; may be null): (n, o, oh / 2,
// ow / 2). Stride 1. packed: null, or of BF16 a second copy of y for warpgroup products: channels last and rounded.
// Block (tile of windows, `chunk` outputs, a multiple of 16 as o is): a tile has `images` whole images, or one of
// `ranges` ranges of an image's windows, which read at most `lines` rows of the padded image.
// local memory: convolve_first: with four windows to a lane up to six words are spilled, no sums, and none for sm_90;
// the second block to a multiprocessor is worth it
template <int FORMAT>
__global__ void __launch_bounds__(THREADS, 2) convolve_first(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
    unsigned char* __restrict__ argmax, unsigned short* __restrict__ packed, int n, int c, int h, int width, int o,
    int oh, int ow, int k, int padding, int images, int ranges, int lines, int chunk
) {
    constexpr int COPIES = FORMAT == SPLIT ? 2 : 1, OF_LANE = EACH<FORMAT>, OF_WARP = 8 * OF_LANE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int first = blockIdx.y * chunk, outputs = min(chunk, o - first);
    const int across = ow / 2, windows = oh / 2 * across, terms = c * k * k, wide = width + 2 * padding;
    const int image0 = blockIdx.x / ranges * images, window0 = blockIdx.x % ranges * OF_WARP * WARPS,
        top = window0 / across * 2;
    const int there = images > 1 ? min(images, n - image0) * windows : min(OF_WARP * WARPS, windows - window0);

    // Shared memory: fragments of weights, (COPIES, outputs / 8, lane); biases, inverse scales, and the padded picture.
    extern __shared__ uint4 shared[];
    uint4* weights = shared;
    float* biases = reinterpret_cast<float*>(shared + COPIES * 4 * chunk);
    float *inverse_scale = biases + chunk, *picture = inverse_scale + chunk;
    for (int line = warp; line < images * c * lines; line += WARPS) {
        const int image = image0 + line / lines / c, row = top + line % lines - padding;
        const float* from = x + (static_cast<long long>(image) * c + line / lines % c) * (h * width) + row * width
            - padding;
        for (int column = lane; column < wide; column += 32)
            copy_float(picture + line * wide + column, from + column, image < n && row >= 0 && row < h
                && column >= padding && column < width + padding);
    }
    commit_copies();
    // Column 2 t + l of the fragments 2 i and 2 i + 1 is output 16 i + 4 t + l and the second next: four neighbours.
    for (int slot = threadIdx.x; slot < 4 * outputs; slot += THREADS) {
        const int output = slot / 64 * 16 + g / 2 * 4 + slot / 32 % 2 * 2 + g % 2;
        float held[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) held[i] = 8 * t + i < terms ? w[(first + output) * terms + 8 * t + i] : 0.0f;
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = shared_exponent<1, 4>(largest_of(held));
#pragma unroll
            for (int i = 0; i < 8; ++i) held[i] *= power_of_two(exponent);
            if (t == 0) inverse_scale[output] = power_of_two(254u - exponent) * UP;
        }
        if (t == 0) biases[output] = b[first + output];
        unsigned two[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) two_numbers<FORMAT>(held[2 * i], held[2 * i + 1], two[0][i], two[1][i]);
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
            weights[copy * 4 * chunk + slot] = make_uint4(two[copy][0], two[copy][1], two[copy][2], two[copy][3]);
    }
    wait_for_copies<0>();
    __syncthreads();

    // Fragments of windows: rows g and g + 8 of the first are pixels (0, 0), (0, 1), of the second (1, 0), (1, 1).
    int offset[8];  // of a term in the picture; -1 where there is none
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int term = 8 * t + i, tap = term % (k * k);
        offset[i] = term < terms ? (term / (k * k) * lines + tap / k) * wide + tap % k : -1;
    }
    unsigned a[COPIES][OF_LANE][2][2][4];  // by window, line of pixels, and step of 16 terms
    float back[OF_LANE];
    const int mine = warp * OF_WARP + g * OF_LANE;  // the lane's first window
#pragma unroll
    for (int q = 0; q < OF_LANE; ++q) {
        const int number = min(mine + q, there - 1), image = number / windows, window = window0 + number % windows;
        const float* corner = picture + (image * c * lines + window / across * 2 - top) * wide + window % across * 2;
        float seen[4][8];
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) seen[e][i] = offset[i] >= 0 ? corner[offset[i] + e / 2 * wide + e % 2] : 0.0f;
        if constexpr (SCALED<FORMAT>) {
            const unsigned exponent = shared_exponent<1, 4>(max(max(largest_of(seen[0]), largest_of(seen[1])),
                max(largest_of(seen[2]), largest_of(seen[3]))));
#pragma unroll
            for (int i = 0; i < 32; ++i) seen[i / 8][i % 8] *= power_of_two(exponent);
            back[q] = power_of_two(254u - exponent) * DOWN;
        }
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                unsigned low;
                two_numbers<FORMAT>(seen[e][2 * i], seen[e][2 * i + 1], a[0][q][e / 2][i / 2][e % 2 + i % 2 * 2], low);
                if constexpr (FORMAT == SPLIT) a[1][q][e / 2][i / 2][e % 2 + i % 2 * 2] = low;
            }
    }

    // Places of the lane's windows of output `first`: neighbours, or the first of the next picture.
    const int rest = windows - (window0 + mine) % windows;
    const long long target = (static_cast<long long>(image0 + mine / windows) * o + first + 1) * windows - rest,
        skip = static_cast<long long>(o - 1) * windows;
    const bool together = windows % OF_LANE == 0 && reinterpret_cast<unsigned long long>(y) % (4 * OF_LANE) == 0 &&
                          reinterpret_cast<unsigned long long>(argmax) % OF_LANE == 0;
    unsigned short* channels = packed + (static_cast<long long>(image0) * windows + window0 + mine) * o + first + 4 * t;
    for (int sixteen = 0; sixteen < outputs; sixteen += 16) {
        unsigned pairs[OF_LANE][2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            uint4 of[COPIES];
#pragma unroll
            for (int copy = 0; copy < COPIES; ++copy)
                of[copy] = weights[copy * 4 * chunk + 4 * sixteen + 32 * j + lane];
            float sum[OF_LANE][2][4] = {}, value[2][OF_LANE];
            unsigned places[2] = {};
#pragma unroll
            // xl wh, xh wl, xh wh: the small ones first
            for (int product = FORMAT == SPLIT ? 0 : 2; product < 3; ++product)
#pragma unroll
                for (int step = 0; step < 2; ++step) {
                    const uint4& four = of[product == 1 ? COPIES - 1 : 0];
                    const unsigned right[2] = {step ? four.z : four.x, step ? four.w : four.y};
#pragma unroll
                    for (int q = 0; q < OF_LANE; ++q)
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            mma_step<FORMAT>(sum[q][i], a[product == 0 ? COPIES - 1 : 0][q][i][step], right);
                }
            const int output = sixteen + 4 * t + 2 * j;
#pragma unroll
            for (int l = 0; l < 2; ++l)
#pragma unroll
                for (int q = 0; q < OF_LANE; ++q) {
                    const float four[4] = {sum[q][0][l], sum[q][0][2 + l], sum[q][1][l], sum[q][1][2 + l]};
                    const Best best = best_of(four);
                    float most = best.value;
                    if constexpr (SCALED<FORMAT>)
                        most = fmaf(most * back[q], inverse_scale[output + l], biases[output + l]);
                    else most += biases[output + l];
                    value[l][q] = relu(most);
                    places[l] |= (most > 0.0f ? best.place : 4) << 8 * q;
                }
#pragma unroll
            for (int q = 0; q < OF_LANE; ++q)
                if constexpr (FORMAT == BF16) pairs[q][j] = two_bf16(value[0][q], value[1][q]);
#pragma unroll
            for (int l = 0; l < 2; ++l) {
                const long long to = target + static_cast<long long>(output + l) * windows;
                if (!together) {
#pragma unroll
                    for (int q = 0; q < OF_LANE; ++q) {
                        if (mine + q >= there) continue;
                        const long long at = to + q + (q < rest ? 0 : skip);
                        y[at] = value[l][q];
                        if (argmax != nullptr) argmax[at] = static_cast<unsigned char>(places[l] >> 8 * q);
                    }
                } else if (mine < there) {
                    if constexpr (OF_LANE == 4) {
                        *reinterpret_cast<float4*>(y + to)
                            = make_float4(value[l][0], value[l][1], value[l][2], value[l][3]);
                        if (argmax != nullptr) *reinterpret_cast<unsigned*>(argmax + to) = places[l];
                    } else {
                        *reinterpret_cast<float2*>(y + to) = make_float2(value[l][0], value[l][1]);
                        if (argmax != nullptr)
                            *reinterpret_cast<unsigned short*>(argmax + to) = static_cast<unsigned short>(places[l]);
                    }
                }
            }
        }
        if (FORMAT != BF16 || packed == nullptr) continue;
#pragma unroll
        for (int q = 0; q < OF_LANE; ++q)
            if (mine + q < there)
                *reinterpret_cast<uint2*>(channels + static_cast<long long>(q) * o + sixteen)
                = make_uint2(pairs[q][0], pairs[q][1]);
    }
}
