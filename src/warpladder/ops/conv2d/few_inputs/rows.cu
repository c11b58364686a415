// The weight gradient of a convolution with few input channels, row by row of its output.
// Launched by `RowsGradient` of few_inputs.py.
//
//   an image in shared memory      a row of dy, turned around      a lane's registers
//   rows that a range reads   x    32 pixels of 32 outputs     ->  C K K sums of one output
//   (all lanes read the same)      (lanes read neighbours)         P pixels at a time
//
// So P K multiply-adds need one number of x for each column that P windows cover, four at a load. Before a 2 x 2 pool
// a row is one of the pool's, and only the window of the argmax pixel is read: a quarter of the multiply-adds, with a
// load of one number for each, which is as fast, but a quarter of dy.
// local memory: correlate_rows: up to eight words of a lane, so that four blocks are resident: 21 us in place of 26
#include "few.cuh"
#include "gemm_pixels.cuh"

constexpr int WARPS = 8, TURNED = 33;  // a pixel's outputs in shared memory: writes of 32 pixels reach all banks

// Adds the products of P pixels, or of the first `left`, with the numbers that their windows read in one row of x.
template <int K, int STRIDE, int P, bool WHOLE>
__device__ __forceinline__ void add_row(float* sum, const float (&g)[P], const float* from, int left) {
    constexpr int FOURS = ((P - 1) * STRIDE + K + 3) / 4;
    float seen[4 * FOURS];
#pragma unroll
    for (int four = 0; four < FOURS; ++four)
        *reinterpret_cast<float4*>(seen + 4 * four) = reinterpret_cast<const float4*>(from)[four];
#pragma unroll
    for (int p = 0; p < P; ++p)
        if (WHOLE || p < left)
#pragma unroll
            for (int j = 0; j < K; ++j) sum[j] = fmaf(g[p], seen[p * STRIDE + j], sum[j]);
}

// x: (n, channels, h, w), of which the block reads C channels from blockIdx.z * C on. dy: (n, o, rows, wide), the
// gradient of what follows the convolution: a pool (POOL, with the argmax indices of pooled.cuh), a ReLU of output y
// (RELU, y of dy's shape), or nothing (PLAIN). part: (parts, o, columns), columns as in gemm_pixels.cuh. db_part:
// (parts, o). Part blockIdx.x: images from blockIdx.x / ranges * part_images on, and `range` rows of dy from
// blockIdx.x % ranges * range on. LANES outputs from blockIdx.y * LANES on; the other lanes have other pixels. Shared
// memory: C x lines x pitch floats of the image, with zeros around it, WARPS x 32 x TURNED floats, and before a pool as
// many bytes.
template <int C, int K, int STRIDE, int AFTER, int LANES>
__global__ void __launch_bounds__(32 * WARPS, C * K * K <= 32 ? 4 : 3) correlate_rows(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y,
    const unsigned char* __restrict__ argmax, float* __restrict__ part, float* __restrict__ db_part, int n,
    int channels, int h, int w, int o, int rows, int wide, int padding, int part_images, int ranges, int range,
    int lines, int pitch
) {
    constexpr int TAPS = C * K * K, P = STRIDE == 1 ? 8 : 4, GROUPS = 32 / LANES;
    constexpr int STEP = AFTER == POOL ? 2 * STRIDE : STRIDE;  // rows of x from one row of dy to the next
    extern __shared__ float4 shared4[];
    float* image = reinterpret_cast<float*>(shared4);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = lane % LANES;
    float* all_turned = image + C * lines * pitch;
    float* turned = all_turned + warp * 32 * TURNED;
    unsigned char* places = reinterpret_cast<unsigned char*>(all_turned + WARPS * 32 * TURNED) + warp * 32 * TURNED;
    const int output = blockIdx.y * LANES, begin = blockIdx.x % ranges * range, end = min(rows, begin + range);
    const int first = blockIdx.x / ranges * part_images, last = min(n, first + part_images), plane = rows * wide;

    float sum[TAPS + 1];  // the last one is the bias's
#pragma unroll
    for (int t = 0; t <= TAPS; ++t) sum[t] = 0.0f;
    for (int sample = first; sample < last; ++sample) {
        __syncthreads();
        for (int line = warp; line < C * lines; line += WARPS) {
            const int row = begin * STEP - padding + line % lines;
            const float* from =
                x + (static_cast<long long>(sample) * channels + blockIdx.z * C + line / lines) * (h * w) + row * w;
            for (int column = lane; column < pitch; column += 32) {
                const int at = column - padding;
                const bool inside = row >= 0 && row < h && at >= 0 && at < w;
                image[line * pitch + column] = inside ? from[at] : 0.0f;
            }
        }
        __syncthreads();
        for (int row = begin + warp; row < end; row += WARPS)
            for (int column = 0; column < wide; column += 32) {
                const int count = min(32, wide - column), outputs = lane < count ? o - output : 0;
                long long at = (static_cast<long long>(sample) * o + output) * plane + (row * wide + column + lane);
                __syncwarp();
#pragma unroll 16
                for (int i = 0; i < LANES; ++i, at += plane) {
                    float g = 0.0f;
                    int place = 4;
                    if (i < outputs) {
                        g = dy[at];
                        if constexpr (AFTER == POOL) place = argmax[at];
                        if constexpr (AFTER == RELU) g = y[at] > 0.0f ? g : 0.0f;
                    }
                    turned[lane * TURNED + i] = g;
                    if constexpr (AFTER == POOL) places[lane * TURNED + i] = static_cast<unsigned char>(place);
                }
                __syncwarp();
                const float* corner = image + (row - begin) * STEP * pitch + column * STEP;
                if constexpr (AFTER == POOL) {
                    for (int window = lane / LANES; window < count; window += GROUPS) {
                        const int place = places[window * TURNED + mine];
                        const float g = place < 4 ? turned[window * TURNED + mine] : 0.0f;
                        const float* seen =
                            corner + place / 2 % 2 * STRIDE * pitch + window * STEP + place % 2 * STRIDE;
                        sum[TAPS] += g;
#pragma unroll
                        for (int t = 0; t < TAPS; ++t)
                            sum[t] = fmaf(g, seen[(t / (K * K) * lines + t / K % K) * pitch + t % K], sum[t]);
                    }
                } else {
                    for (int pixel = lane / LANES * P; pixel < count; pixel += GROUPS * P) {
                        float g[P];
#pragma unroll
                        for (int p = 0; p < P; ++p) sum[TAPS] += g[p] = turned[(pixel + p) * TURNED + mine];
#pragma unroll
                        for (int t = 0; t < TAPS; t += K) {
                            const float* line = corner + (t / (K * K) * lines + t / K % K) * pitch + pixel * STRIDE;
                            if (pixel + P <= count) add_row<K, STRIDE, P, true>(sum + t, g, line, P);
                            else add_row<K, STRIDE, P, false>(sum + t, g, line, count - pixel);
                        }
                    }
                }
            }
    }

    // The sums of the block's warps and groups of lanes, 32 of them at a time through shared memory.
    constexpr int PADDED = padded_channels(4), COLUMNS = K * K * PADDED;
#pragma unroll
    for (int t0 = 0; t0 <= TAPS; t0 += 32) {
        __syncthreads();
#pragma unroll
        for (int t = t0; t < t0 + 32 && t <= TAPS; ++t) turned[(t - t0) * TURNED + lane] = sum[t];
        __syncthreads();
        for (int number = threadIdx.x; number < 32 * LANES; number += blockDim.x) {
            const int t = t0 + number % 32, one = number / 32;
            if (t > TAPS || output + one >= o) continue;
            float total = 0.0f;
            for (int each = 0; each < WARPS * GROUPS; ++each)
                total += all_turned[(each / GROUPS * 32 + t - t0) * TURNED + each % GROUPS * LANES + one];
            const long long at = static_cast<long long>(blockIdx.x) * o + output + one;
            if (t == TAPS) {
                if (blockIdx.z == 0) db_part[at] = total;
            } else {
                const int tap = t % (K * K), channel = blockIdx.z * C + t / (K * K);
                float* to = part + at * COLUMNS + tap * PADDED;
                to[channel] = total;
                if (channel == channels - 1)
                    for (int empty = channels; empty < PADDED; ++empty) to[empty] = 0.0f;
            }
        }
    }
}
