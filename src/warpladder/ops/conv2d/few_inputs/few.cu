// Convolutions of few inputs (colours), whose sums are too short for tiles of a matrix product: a thread holds the
// pixels under its windows, or all weights of an output, in registers.
// Launched by `FewConvolution` and `FewGradient` of few_inputs.py.
//
// x: (n, C, h, w). w: (o, C, K, K). b: (o,). y, dy: (n, o, oh, ow).
#include "few.cuh"
#include "gemm_pixels.cuh"

// Stride 1. A thread computes 2 x 2 neighbouring pixels from C (K + 1) (K + 1) numbers that it loads once, for `chunk`
// outputs with weights in shared memory: 4 C K K multiply-adds for C K K / 4 loads. Block: (windows of 2 x 2, chunk of
// outputs). With POOL y and argmax (pooled.cuh) are (n, o, oh / 2, ow / 2).
template <int C, int K, int AFTER>
__global__ void __launch_bounds__(128) convolve_few(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
    unsigned char* __restrict__ argmax, int n, int h, int width, int o, int oh, int ow, int padding, int chunk
) {
    __shared__ FewWeights<C, K> weights;
    const int first = blockIdx.y * chunk, count = min(chunk, o - first);
    weights.bring(w, b, first, count);

    const int high = AFTER == POOL ? oh / 2 : (oh + 1) / 2, wide = AFTER == POOL ? ow / 2 : (ow + 1) / 2;
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= n * high * wide) return;
    const Place2d at = place2d<false>(number, high, wide);
    const FewSeen<C, K> seen(x, at, h, width, padding);

    const int plane = AFTER == POOL ? high * wide : oh * ow;
    long long target = (static_cast<long long>(at.image) * o + first) * plane +
                       (AFTER == POOL ? at.row * wide + at.column : 2 * at.row * ow + 2 * at.column);
    for (int output = 0; output < count; ++output, target += plane) {
        float sum[4];
        seen.sums(sum, weights, output);
        if constexpr (AFTER == POOL) {
            store_best(best_of(sum), y, argmax, target);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (2 * at.row + e / 2 < oh && 2 * at.column + e % 2 < ow)
                    y[target + e / 2 * ow + e % 2] = AFTER == RELU ? relu(sum[e]) : sum[e];
        }
    }
}

constexpr int THREADS = 256;

// The weight gradient without a pool. g is dy, or 0 where y (null without a ReLU) is not above 0. part: (parts, o,
// columns), sums of g x over parts of `part_images` images, columns as in gemm_pixels.cuh. db_part: (parts, o), sums of
// g. Block (output, part): threads take pixels in turn, each for all weights of the output.
template <int C, int K>
__global__ void __launch_bounds__(THREADS) correlate_few(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ part,
    float* __restrict__ db_part, int n, int h, int w, int o, int oh, int ow, int stride, int padding, int part_images
) {
    constexpr int WEIGHTS = C * K * K;
    __shared__ float sums[THREADS / 32][WEIGHTS + 1];
    const int output = blockIdx.x, first = blockIdx.y * part_images,
        pixels = (min(n, first + part_images) - first) * oh * ow;
    float sum[WEIGHTS + 1];
#pragma unroll
    for (int t = 0; t <= WEIGHTS; ++t) sum[t] = 0.0f;
#pragma unroll 2
    for (int pixel = threadIdx.x; pixel < pixels; pixel += THREADS) {
        const Place2d at = place2d<false>(pixel, oh, ow);
        const long long image = first + at.image, from = (image * o + output) * (oh * ow) + at.row * ow + at.column;
        const float g = y == nullptr || y[from] > 0.0f ? dy[from] : 0.0f;
        sum[WEIGHTS] += g;
#pragma unroll
        for (int t = 0; t < WEIGHTS; ++t) {
            const int row = at.row * stride - padding + t / K % K, column = at.column * stride - padding + t % K;
            const bool inside = row >= 0 && row < h && column >= 0 && column < w;
            const float seen = inside ? x[((image * C + t / (K * K)) * h + row) * w + column] : 0.0f;
            sum[t] = fmaf(g, seen, sum[t]);
        }
    }
#pragma unroll
    for (int t = 0; t <= WEIGHTS; ++t) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) sum[t] += __shfl_xor_sync(0xffffffffu, sum[t], distance);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][t] = sum[t];
    }
    __syncthreads();
    constexpr int PADDED = padded_channels(C), COLUMNS = K * K * PADDED;
    static_assert(COLUMNS < THREADS, "a thread writes a column, one more the bias's");
    const int t = threadIdx.x, channel = channel_of(t % PADDED, C);
    if (t > COLUMNS) return;
    float total = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp)
        if (t == COLUMNS || channel < C) total += sums[warp][t < COLUMNS ? channel * K * K + t / PADDED : WEIGHTS];
    if (t == COLUMNS) db_part[blockIdx.y * o + output] = total;
    else part[(static_cast<long long>(blockIdx.y) * o + output) * COLUMNS + t] = total;
}
