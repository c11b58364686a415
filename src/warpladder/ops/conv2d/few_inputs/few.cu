// Convolutions of few inputs (colours), whose sums are too short for tiles of a matrix product: a thread holds the
// pixels under its windows, or all weights of an output, in registers.
// Launched by `FewConvolution` of few_inputs.py.
//
// x: (n, C, h, w). w: (o, C, K, K). b: (o,). y: (n, o, oh, ow).
#include "few.cuh"

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
