// Convolutions of few inputs (a picture's colours), where a product of matrices would have sums too short to be worth its tiles:
// a thread keeps what it sees, or all the weights of an output, in registers.
//
// x: (n, C, h, w). w: (o, C, K, K). b: (o,). y, dy: (n, o, oh, ow).
#include "gemm_pixels.cuh"
#include "nan.cuh"
#include "pooled.cuh"

// What is done with a sum, as in gemm.cu.
enum { PLAIN = 0, RECTIFY = 1, POOL = 2 };

constexpr int OUTPUTS = 64;  // of a block, at most

// Stride 1. A thread computes 2 x 2 neighbouring pixels, from C (K + 1) (K + 1) numbers that it loads once, for `chunk` outputs, whose weights
// stand in shared memory: 4 C K K multiply-adds for C K K / 4 loads. Block: (windows of 2 x 2, chunk of outputs).
// With POOL y and winner (pooled.cuh) are (n, o, oh / 2, ow / 2).
template <int C, int K, int AFTER>
__global__ void __launch_bounds__(128)
convolve_few(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
    unsigned char* __restrict__ winner, int n, int h, int width, int o, int oh, int ow, int padding, int chunk
) {
    constexpr int WEIGHTS = C * K * K, PITCH = (WEIGHTS + 3) / 4 * 4, SIDE = K + 1;
    __shared__ float4 weights4[OUTPUTS * PITCH / 4];
    __shared__ float biases[OUTPUTS];
    float* weights = reinterpret_cast<float*>(weights4);
    const int first = blockIdx.y * chunk, count = min(chunk, o - first);
    for (int t = threadIdx.x; t < count * PITCH; t += blockDim.x)
        weights[t] = t % PITCH < WEIGHTS ? w[(first + t / PITCH) * WEIGHTS + t % PITCH] : 0.0f;
    for (int t = threadIdx.x; t < count; t += blockDim.x) biases[t] = b[first + t];
    __syncthreads();

    const int high = AFTER == POOL ? oh / 2 : (oh + 1) / 2, wide = AFTER == POOL ? ow / 2 : (ow + 1) / 2;
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= n * high * wide) return;
    const Place2d at = place2d<false>(number, high, wide);
    float seen[C][SIDE][SIDE];
#pragma unroll
    for (int channel = 0; channel < C; ++channel)
#pragma unroll
        for (int i = 0; i < SIDE; ++i)
#pragma unroll
            for (int j = 0; j < SIDE; ++j) {
                const int row = 2 * at.row - padding + i, column = 2 * at.column - padding + j;
                const bool inside = row >= 0 && row < h && column >= 0 && column < width;
                seen[channel][i][j] = inside ? x[((static_cast<long long>(at.image) * C + channel) * h + row) * width + column] : 0.0f;
            }

    const int plane = AFTER == POOL ? high * wide : oh * ow;
    long long target = (static_cast<long long>(at.image) * o + first) * plane +
                       (AFTER == POOL ? at.row * wide + at.column : 2 * at.row * ow + 2 * at.column);
    for (int output = 0; output < count; ++output, target += plane) {
        float sum[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] = biases[output];
#pragma unroll
        for (int four = 0; four < PITCH / 4; ++four) {
            const float4 some = weights4[output * (PITCH / 4) + four];
            const float each[4] = {some.x, some.y, some.z, some.w};
#pragma unroll
            for (int t = 4 * four; t < 4 * four + 4 && t < WEIGHTS; ++t)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    sum[e] = fmaf(each[t % 4], seen[t / (K * K)][t / K % K + e / 2][t % K + e % 2], sum[e]);
        }
        if constexpr (AFTER == POOL) {
            store_best(best_of(sum), y, winner, target);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (2 * at.row + e / 2 < oh && 2 * at.column + e % 2 < ow)
                    y[target + e / 2 * ow + e % 2] = AFTER == RECTIFY ? relu(sum[e]) : sum[e];
        }
    }
}

constexpr int THREADS = 256;

// The weight gradient where no pool follows. g is dy, or 0 where y (null without a ReLU) is not above 0.
// part: (slabs, o, columns), the sums of g x over a slab of `slab` images, columns as gemm_pixels.cuh has them. db_part: (slabs, o), those of g.
// Block (output, slab): threads take turns at the pixels, and each has all of the output's weights.
template <int C, int K>
__global__ void __launch_bounds__(THREADS)
correlate_few(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ part,
    float* __restrict__ db_part, int n, int h, int w, int o, int oh, int ow, int stride, int padding, int slab
) {
    constexpr int WEIGHTS = C * K * K;
    __shared__ float sums[THREADS / 32][WEIGHTS + 1];
    const int output = blockIdx.x, first = blockIdx.y * slab, pixels = (min(n, first + slab) - first) * oh * ow;
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
        for (int apart = 16; apart > 0; apart /= 2) sum[t] += __shfl_xor_sync(0xffffffffu, sum[t], apart);
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
    if (t == COLUMNS)
        db_part[blockIdx.y * o + output] = total;
    else
        part[(static_cast<long long>(blockIdx.y) * o + output) * COLUMNS + t] = total;
}
