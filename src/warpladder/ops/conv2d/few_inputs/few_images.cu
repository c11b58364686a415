// The weight gradient of few inputs, a ReLU and a 2 x 2 pool, for a few images, in one launch with the update.
// Launched by `FewImagesGradient` of few_inputs.py.
//
// Only the neighbourhoods of argmax pixels are read. But a block has all windows of its outputs, a
// thread for each, and so complete sums, without partials and without a launch that adds them.
// instance: correlate_few_images<3, 3>
#include "async.cuh"
#include "parameter.cuh"
#include "warp.cuh"

constexpr int THREADS = 256, OUTPUTS = 2;  // of a block

// x: (n, C, h, w). dy, argmax: (n, o, oh / 2, ow / 2), of the pool; argmax as in pooled.cuh. dw: (o, C, K, K). db:
// (o,). Stride 1. Shared memory: an image with its padding.
template <int C, int K>
__global__ void __launch_bounds__(THREADS) correlate_few_images(
    const float* __restrict__ x, const float* __restrict__ dy, const unsigned char* __restrict__ argmax,
    float* __restrict__ dw, float* __restrict__ db, int n, int h, int w, int o, int oh, int ow, int padding,
    float* grads, float* params, float* momentum_buffer, float rate, float momentum, int nesterov, float decay,
    float limit
) {
    constexpr int WEIGHTS = C * K * K, SUMS = OUTPUTS * (WEIGHTS + 1), LEFT = left_of(SUMS);
    extern __shared__ float4 shared4[];
    __shared__ float parts[THREADS / 32][SUMS];
    float* image = reinterpret_cast<float*>(shared4);
    const Flat flat = {grads, params, momentum_buffer, {rate, momentum, nesterov, decay}, limit};
    const int high = h + 2 * padding, wide = w + 2 * padding, across = ow / 2, windows = (oh / 2) * across,
        first = blockIdx.x * OUTPUTS;

    // The sum that this thread finishes, and its parameter, loaded meanwhile.
    const int mine = threadIdx.x, output = first + mine / (WEIGHTS + 1), weight = mine % (WEIGHTS + 1);
    float* to = mine >= SUMS || output >= o ? nullptr : weight < WEIGHTS ? dw + output * WEIGHTS + weight : db + output;
    Parameter own(flat, to);

    float sum[SUMS] = {};
    for (int sample = 0; sample < n; ++sample) {
        __syncthreads();  // all threads have read the image before
#pragma unroll 2
        for (int line = threadIdx.x / 32; line < C * high; line += THREADS / 32) {  // a warp copies whole lines
            const int channel = line / high, row = line - channel * high - padding;
            const bool there = static_cast<unsigned>(row) < static_cast<unsigned>(h);
            const float* from = x + (there ? ((sample * C + channel) * h + row) * w : 0);
            for (int column = static_cast<int>(threadIdx.x % 32) - padding; column < w + padding; column += 32) {
                const bool inside = there && static_cast<unsigned>(column) < static_cast<unsigned>(w);
                copy_float(image + line * wide + column + padding, from + (inside ? column : 0), inside);
            }
        }
        commit_copies();
#pragma unroll 1
        for (int window0 = 0; window0 < windows; window0 += THREADS) {
            const int window = window0 + threadIdx.x;
            float gradient[OUTPUTS];
            int pool_argmax[OUTPUTS];
#pragma unroll
            for (int e = 0; e < OUTPUTS; ++e) {
                const bool there = window < windows && first + e < o;
                const int from = there ? (sample * o + first + e) * windows + window : 0;
                gradient[e] = there ? dy[from] : 0.0f;
                pool_argmax[e] = there ? argmax[from] : 4;
            }
            if (window0 == 0) {
                wait_for_copies<0>();
                __syncthreads();
            }
#pragma unroll
            for (int e = 0; e < OUTPUTS; ++e) {
                if (pool_argmax[e] >= 4) continue;
                const float* corner = image + (2 * (window / across) + pool_argmax[e] / 2) * wide
                    + 2 * (window % across) + pool_argmax[e] % 2;
#pragma unroll
                for (int t = 0; t < WEIGHTS; ++t) {
                    const float seen = corner[(t / (K * K) * high + t / K % K) * wide + t % K];
                    sum[e * (WEIGHTS + 1) + t] = fmaf(gradient[e], seen, sum[e * (WEIGHTS + 1) + t]);
                }
                sum[e * (WEIGHTS + 1) + WEIGHTS] += gradient[e];
            }
        }
    }
    Share share{0, SUMS};
    warp_sums<SUMS>(sum, share);
#pragma unroll
    for (int k = 0; k < LEFT; ++k)
        if (k < share.count) parts[threadIdx.x / 32][share.first + k] = sum[k];
    __syncthreads();
    if (to == nullptr) return;
    float all = 0.0f;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; ++warp) all += parts[warp][mine];
    own.finish(flat, to, all);
}
