// Gradient of a convolution's output, through the ReLU and pool after it, and the bias's gradient.
// Launched by `IncomingGradient` of gradients.py.
#include "block_sum.cuh"
#include "four.cuh"

// A thread's part of the sum of dy (n, channels, plane) over a part of images, for one channel. FUSED_RELU: dy becomes
// 0 where y, of its shape, is not above 0. Gradient: const float to read dy alone.
template <int FUSED_RELU, typename Gradient>
__device__ float part_sum(Gradient* __restrict__ dy, const float* __restrict__ y, int n, int channels, int plane,
    int part_images) {
    const int channel = blockIdx.x, first = blockIdx.y * part_images, last = min(n, first + part_images);
    float sum = 0.0f;
    const bool wide = plane % 4 == 0;
    const int count = wide ? plane / 4 : plane, all = (last - first) * count;
    for (int t = threadIdx.x; t < all; t += blockDim.x) {
        const long long at = (static_cast<long long>(first + t / count) * channels + channel) * count + t % count;
        if (wide) {
            float4 g = reinterpret_cast<const float4*>(dy)[at];
            if constexpr (FUSED_RELU) {
                const float4 v = reinterpret_cast<const float4*>(y)[at];
                reinterpret_cast<float4*>(dy)[at] = g = relu_gradient(g, v);
            }
            sum += (g.x + g.y) + (g.z + g.w);
        } else {
            float g = dy[at];
            if constexpr (FUSED_RELU) dy[at] = g = relu_gradient(g, y[at]);
            sum += g;
        }
    }
    return sum;
}

// Sets dy (n, channels, plane) to 0 where y, of its shape, is not above 0.
// db_part: (parts, channels), sums of the new dy over a part of `part_images` images. Block (channel, part).
extern "C" __global__ void apply_relu_mask(float* __restrict__ dy, const float* __restrict__ y,
    float* __restrict__ db_part, int n, int channels, int plane, int part_images) {
    __shared__ float shared[BLOCK_MOST];
    const float sum = block_sum(part_sum<1>(dy, y, n, channels, plane, part_images), shared);
    if (threadIdx.x == 0) db_part[blockIdx.y * channels + blockIdx.x] = sum;
}

// Writes db_part, as above, the sums of dy. dy is not changed, so other kernels may read it concurrently.
extern "C" __global__ void sum_gradient(const float* __restrict__ dy, float* __restrict__ db_part, int n, int channels,
    int plane, int part_images) {
    __shared__ float shared[BLOCK_MOST];
    const float sum = block_sum(part_sum<0>(dy, nullptr, n, channels, plane, part_images), shared);
    if (threadIdx.x == 0) db_part[blockIdx.y * channels + blockIdx.x] = sum;
}

// dx (n, channels, h, w) from dy (n, channels, h / 2, w / 2): each window's gradient at its argmax (pooled.cuh),
// else zero. db_part: sums of dx, as above. Block (channel, part); a thread for each window, also incomplete ones.
extern "C" __global__ void spread_gradient(const float* __restrict__ dy, const unsigned char* __restrict__ argmax,
    float* __restrict__ dx, float* __restrict__ db_part, int n, int channels, int h, int w, int part_images) {
    __shared__ float shared[BLOCK_MOST];
    const int channel = blockIdx.x, first = blockIdx.y * part_images, last = min(n, first + part_images);
    const int high = (h + 1) / 2, wide = (w + 1) / 2, all = (last - first) * high * wide;
    float sum = 0.0f;
    for (int t = threadIdx.x; t < all; t += blockDim.x) {
        const int row = t / wide % high, column = t % wide;
        const long long image = static_cast<long long>(first + t / wide / high) * channels + channel;
        float g = 0.0f;
        int pool_argmax = 4;
        if (2 * row + 1 < h && 2 * column + 1 < w) {
            const long long at = (image * (h / 2) + row) * (w / 2) + column;
            const float loaded = dy[at];  // for every window, so that neither load waits for the other
            pool_argmax = argmax[at];
            if (pool_argmax < 4) g = loaded;
            sum += g;
        }
        float* to = dx + (image * h + 2 * row) * w + 2 * column;
        if (w % 2 == 0) {  // then pairs begin on boundaries of 8 bytes
            *reinterpret_cast<float2*>(to) = make_float2(pool_argmax == 0 ? g : 0.0f, pool_argmax == 1 ? g : 0.0f);
            if (2 * row + 1 < h)
                *reinterpret_cast<float2*>(to + w)
                    = make_float2(pool_argmax == 2 ? g : 0.0f, pool_argmax == 3 ? g : 0.0f);
        } else {
            to[0] = pool_argmax == 0 ? g : 0.0f;
            if (2 * column + 1 < w) to[1] = pool_argmax == 1 ? g : 0.0f;
            if (2 * row + 1 < h) to[w] = pool_argmax == 2 ? g : 0.0f;
            if (2 * row + 1 < h && 2 * column + 1 < w) to[w + 1] = pool_argmax == 3 ? g : 0.0f;
        }
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) db_part[blockIdx.y * channels + channel] = sum;
}
